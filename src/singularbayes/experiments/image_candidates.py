"""The settings that are tried on the validation images of MNIST and Fashion-MNIST, as many for every method.

Eight a method were written down first, and cut to these four, for want of time on a GPU, before any was run; so the
paper's own settings (β = 1; of rank-one its printed form) are not among them. Variational networks: those settings with
a cosine learning rate and ρ four times as fast, three weights of the KL at the paper's rate, and the middle one at
three times that rate. Point networks: a cosine, stopped after four numbers of epochs. SWAG: four rates of SGD.
"""

from singularbayes.experiments.candidates import Candidates, Changes
from singularbayes.experiments.images import Settings

VARIATIONAL: dict[str, Changes] = {
    f"beta {beta:g}, rate {rate:g}": {"cosine": True, "rho_lr": 4.0, "beta": beta, "learning_rate": rate}
    for beta, rate in ((0.3, 1e-3), (0.1, 1e-3), (0.03, 1e-3), (0.1, 3e-3))
}
POINT: dict[str, Changes] = {f"{epochs} epochs": {"cosine": True, "epochs": epochs} for epochs in (5, 10, 20, 50)}
SWAG: dict[str, Changes] = {f"SGD {rate:g}": {"cosine": True, "swag_rate": rate} for rate in (0.03, 0.01, 0.003, 0.001)}
# The prior of rank-one networks is centred at the point weight, as its authors have it.
RANK_ONE = {name: changes | {"rank_one_form": "product"} for name, changes in VARIATIONAL.items()}

TRIED: dict[str, dict[str, Changes]] = {
    "low_rank": VARIATIONAL,
    "low_rank_svd": VARIATIONAL,
    "low_rank_laplace": VARIATIONAL,
    "full_rank": VARIATIONAL,
    "rank_one": RANK_ONE,
    "deterministic": POINT,
    "deep_ensemble": POINT,
    "low_rank_ensemble": VARIATIONAL,
    "swag": SWAG,
}
ALIKE = {"low_rank_10": "low_rank", "low_rank_50": "low_rank"}  # the rank sweep has the settings of rank 25


CANDIDATES = Candidates(Settings(), TRIED, ALIKE)
