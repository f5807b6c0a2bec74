"""The paper's toy regression: does the band of functions open where there are no data?

y = x + 0.3 sin 2π(x + ε) + 0.3 sin 4π(x + ε) + ε with ε ~ N(0, 0.02²), 1024 points in [−0.1, 0.6], a 1-100-100-1 tanh
network: input, output and biases are full-rank, the hidden weight is the method's. Uncertainty about the function
(epistemic) is compared inside that range and outside it, up to [−0.5, 1.5]. Settings are chosen on new points inside
the range (`TRIED`): nothing outside has a say in that choice. The configurations themselves were not written down
blindly. Thirteen earlier tuning runs of low-rank networks, whose records were not kept, and results of what they had
chosen had been scored outside the range too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import keras
import numpy as np

from singularbayes import layers, metrics
from singularbayes.likelihoods import GaussianNLL
from singularbayes.prediction import ValuePredictive
from singularbayes_experiments.methods import methods, study
from singularbayes_experiments.methods.configurations import Changes, Configurations
from singularbayes_experiments.methods.experiment import Experiment
from singularbayes_experiments.methods.settings import TrainingSettings
from singularbayes_experiments.methods.study import Arrays, Ask, Scores
from singularbayes_experiments.methods.trainers import Training
from singularbayes_experiments.methods.weights import Weights

METHODS = methods.sentences()
PAPER_METHODS = ("low_rank", "full_rank")  # what runs when no method is given
_DATA = 0  # one data set for all seeds and methods
Part = tuple[np.ndarray, np.ndarray]  # inputs and targets, each (num, 1)


@dataclass(frozen=True)
class ToySettings(TrainingSettings):
    """The paper's values. It does not say where the scales of this network start: ρ is as in its other experiments.

    It has no ensembles, no SWAG and no start from an SVD here; members and ranks are those of its other experiments.
    SWAG's epochs and those of the deterministic network before it are `epochs` together.
    """

    num_train: int = 1024
    num_test: int = 2048
    train_range: tuple[float, float] = (-0.1, 0.6)
    test_range: tuple[float, float] = (-0.25, 0.85)
    grid_range: tuple[float, float] = (-0.5, 1.5)
    noise: float = 0.02
    likelihood_scale: float = 0.02
    units: int = 100
    rank: int = 16
    sigma1: float = 2.0
    rho_start: tuple[float, float] = (-5.0, -4.0)
    bayesian_bias: bool = True
    rank_one_form: str = "product"
    learning_rate: float = 5e-4
    batch_size: int = 128
    epochs: int = 800
    beta: float = 1e-4
    warmup: int = 760
    draws: int = 200
    iqr_draws: int = 100
    svd_epochs: int = 100
    swag_rank: int = 20
    swag_epochs: int = 40
    swag_rate: float = 4e-5


QUICK = ToySettings(epochs=200, warmup=190, learning_rate=2e-3)


def target(x: np.ndarray, eps: np.ndarray) -> np.ndarray:
    """Returns y for the input x and the noise ε, which acts inside the sines too."""
    return x + 0.3 * np.sin(2 * np.pi * (x + eps)) + 0.3 * np.sin(4 * np.pi * (x + eps)) + eps


def draw_data(num: int, between: tuple[float, float], noise: float, rng: np.random.Generator):
    """Returns inputs and targets, each (num, 1)."""
    x = rng.uniform(*between, (num, 1))
    return x.astype("float32"), target(x, rng.normal(0.0, noise, (num, 1))).astype("float32")


def network(weights: Weights, settings: ToySettings) -> keras.Model:
    """Returns the network whose hidden weight is given; a deterministic network has points everywhere."""
    around = weights if weights.kind in ("deterministic", "point") else Weights("full_rank", settings)

    def dense(name: str, units: int, activation: str | None, weights: Weights) -> keras.layers.Layer:
        options = {"posterior": weights(settings.rank), "bias_posterior": around.bias(), "name": name}
        return layers.Dense(units, activation, **options)

    return keras.Sequential(
        [
            keras.Input((1,)),
            dense("first", settings.units, "tanh", around),
            dense("hidden", settings.units, "tanh", weights),
            dense("last", 1, None, around),
        ]
    )


def parts(settings: ToySettings) -> dict[str, Part]:
    """Returns "train"; "validation" and "near", which are new points of the same range; and "test", of a wider one."""
    rng, size = np.random.default_rng(_DATA), settings.num_test
    near, wide = settings.train_range, settings.test_range
    sizes = {
        "train": (settings.num_train, near),
        "near": (size, near),
        "test": (size, wide),
        "validation": (size, near),
    }
    return {name: draw_data(num, between, settings.noise, rng) for name, (num, between) in sizes.items()}


def spread(x: np.ndarray, width: np.ndarray, settings: ToySettings) -> dict[str, float]:
    """Returns the median width of the band inside the training range, outside it, and their ratio."""
    low, high = settings.train_range
    inside = (x >= low) & (x <= high)
    return _medians(width[inside], width[~inside])


def published_spread(x: np.ndarray, width: np.ndarray) -> dict[str, float]:
    """Returns the same with the paper's two regions, [0.1, 0.6] and [0.5, 1.5], which overlap."""
    return _medians(width[(x >= 0.1) & (x <= 0.6)], width[(x >= 0.5) & (x <= 1.5)])


def _medians(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    return {name.removeprefix("iqr_"): value for name, value in metrics.iqr_scores(inside, outside).items()}


def fit_scores(p: ValuePredictive, y: np.ndarray) -> Scores:
    """Returns how far predictions are from new values, and whether their total bands hold 95 % of them."""
    lower, upper = p.interval(0.95, variance="total")
    return {
        "rmse": metrics.root_mean_square_error(p.mean, y),
        "nll": metrics.gaussian_nll(p.mean, np.sqrt(p.variance("total")), y),
        "coverage": metrics.interval_coverage(lower, upper, y),
    }


def band_scores(grid: np.ndarray, iqr: np.ndarray, std: np.ndarray, settings: ToySettings) -> Scores:
    """Returns how much wider the band is away from the data, by three measures."""
    kinds = {
        "iqr": spread(grid, iqr, settings),
        "std": spread(grid, std, settings),
        "iqr_published": published_spread(grid, iqr),
    }
    return {f"{kind}_{region}": value for kind, found in kinds.items() for region, value in found.items()}


class Toy(study.Comparison):
    """The regression, its network, and what is measured near the data and away from them."""

    name = "toy"
    paper = ToySettings()
    methods: Mapping[str, str] = METHODS

    def training(self, settings: ToySettings) -> Training:
        return Training(*parts(settings)["train"], loss=lambda: GaussianNLL(settings.likelihood_scale))

    def network(self, weights: Weights, settings: ToySettings) -> keras.Model:
        return network(weights, settings)

    def validated(self, ask: Ask, settings: ToySettings) -> Scores:
        x, y = parts(settings)["validation"]
        return _named("validation_{}", fit_scores(ask({"validation": x})["validation"], y))

    def tested(self, ask: Ask, settings: ToySettings) -> tuple[Scores, Arrays]:
        known = parts(settings)
        x, y = known.pop("train")
        grid = np.linspace(*settings.grid_range, 401, dtype="float32")
        found = ask({"grid": grid[:, None]} | {name: inputs for name, (inputs, _) in known.items()})
        draws = ask({"grid": grid[:, None]}, draws=settings.iqr_draws, keep_draws=True)["grid"].draws
        scores = {name: fit_scores(found[name], targets) for name, (_, targets) in known.items()}
        band = found["grid"]
        metrics_found = _named("{}_near", scores["near"]) | {"rmse_test": scores["test"]["rmse"]}
        if band.num_draws > 1:  # a deterministic network has no band
            metrics_found |= band_scores(grid, metrics.epistemic_iqr(draws), band.std, settings)
        intervals = {kind: np.stack(band.interval(0.95, variance=kind)) for kind in ("epistemic", "total")}
        arrays = {"x": x[:, 0], "y": y[:, 0], "grid": grid, "mean": band.mean, **intervals}
        arrays["draws"] = draws.astype("float32")
        for name in ("near", "test"):
            values = {"x": known[name][0], "y": known[name][1], "mean": found[name].mean, "std": found[name].std}
            arrays |= {f"{what}_{name}": value.reshape(len(value)) for what, value in values.items()}
        return metrics_found | _named("validation_{}", scores["validation"]), arrays


def _named(form: str, scores: Scores) -> Scores:
    return {form.format(name): value for name, value in scores.items()}


# The noise acts inside the sines too, so that it is far above 0.02. Deterministic networks have no other knob than the
# length and the rate of training; of the noise, a configuration below and one above.
_COSINE: Changes = {"cosine": True, "learning_rate": 2e-3, "likelihood_scale": 0.07}
_ANNEALED: Changes = {**_COSINE, "rho_lr": 4.0, "warmup": 200}
VARIATIONAL: dict[str, Changes] = {
    **{f"beta {beta:g}": {**_ANNEALED, "beta": beta} for beta in (0.01, 0.03, 0.1, 0.3, 1.0)},
    "beta 0.1, rate 0.005": {**_ANNEALED, "beta": 0.1, "learning_rate": 5e-3},
    "beta 0.1, noise 0.08": {**_ANNEALED, "beta": 0.1, "likelihood_scale": 0.08},
    "beta 0.1, sigma2 0.05": {**_ANNEALED, "beta": 0.1, "sigma2": 0.05},
}
POINT: dict[str, Changes] = {
    **{f"{epochs} epochs": {**_COSINE, "epochs": epochs} for epochs in (100, 200, 400, 800)},
    "rate 0.005": {**_COSINE, "learning_rate": 5e-3},
    "rate 0.0005": {**_COSINE, "learning_rate": 5e-4},
    "noise 0.06": {**_COSINE, "likelihood_scale": 0.06},
    "noise 0.08": {**_COSINE, "likelihood_scale": 0.08},
}
SWAG: dict[str, Changes] = {
    f"{epochs} epochs of SGD {rate:g}": {**_COSINE, "swag_epochs": epochs, "swag_rate": rate}
    for epochs in (40, 200)
    for rate in (2e-5, 1e-4, 2e-4, 5e-4)
}
TRIED = dict.fromkeys(METHODS, VARIATIONAL) | {"deterministic": POINT, "deep_ensemble": POINT, "swag": SWAG}
CONFIGURATIONS = Configurations(ToySettings(), TRIED)
# The configuration of every method with the least validation NLL: experiments/results/toy_trials.jsonl.
CHOICE = dict.fromkeys(METHODS, "beta 0.1, rate 0.005") | {
    "rank_one": "beta 0.1, sigma2 0.05",
    "deterministic": "rate 0.005",
    "deep_ensemble": "rate 0.005",
    "swag": "200 epochs of SGD 0.0005",
}
TUNED = CONFIGURATIONS.tuned(CHOICE)

EXPERIMENT = Experiment(
    summary="The paper's toy regression: does the band of functions widen where there are no data?",
    problem=Toy(),
    presets={"paper": ToySettings(), "chosen": TUNED, "quick": QUICK},
    paper_methods=PAPER_METHODS,
    configurations=CONFIGURATIONS,
    choice=CHOICE,
)
