"""The paper's toy regression: does the band of functions open where there are no data?

y = x + 0.3 sin 2π(x + ε) + 0.3 sin 4π(x + ε) + ε with ε ~ N(0, 0.02²), 1024 points in [−0.1, 0.6], a 1-100-100-1 tanh
network: input, output and biases are full-rank, the hidden weight is the method's. Uncertainty about the function
(epistemic) is compared inside that range and outside it, up to [−0.5, 1.5]. Settings are chosen on new points inside
the range: nothing outside has a say in that choice.
"""

from dataclasses import dataclass

import keras
import numpy as np

from singularbayes import layers, metrics
from singularbayes.likelihoods import Gaussian, MeanScale
from singularbayes_experiments import protocol, scores
from singularbayes_experiments.methods import Settings, Weights
from singularbayes_experiments.problems.base import TUNING, Arrays, Data, Part, Predict, Problem, Scores

_DATA = 0  # one data set for all seeds and methods


@dataclass(frozen=True)
class ToySettings(Settings):
    """The paper's values. It does not say where the scales of this network start: ρ is as in its other experiments.

    Args:
        likelihood_scale: the noise of the likelihood; None learns it.
        spread: standard deviations with which the weights of each layer start; () leaves them to the initializer.
        iqr_draws: of the interquartile ranges of the band.
    """

    num_train: int = 1024
    num_test: int = 2048
    train_range: tuple[float, float] = (-0.1, 0.6)
    test_range: tuple[float, float] = (-0.25, 0.85)
    grid_range: tuple[float, float] = (-0.5, 1.5)
    noise: float = 0.02
    likelihood_scale: float | None = 0.02
    units: int = 100
    ranks: tuple[int, ...] = (1, 16, 1)
    spread: tuple[float, ...] = ()
    sigma1: float = 2.0
    rho_start: tuple[float, float] | None = (-5.0, -4.0)
    bayesian_bias: bool = True
    rank_one_form: str = "product"
    learning_rate: float = 5e-4
    epochs: int = 800
    beta: float = 1e-4
    warmup: int = 760
    draws: int = 200
    iqr_draws: int = 100
    svd_epochs: int = 100
    swag_epochs: int = 40
    swag_rate: float = 4e-5


class Toy(Problem):
    Settings = ToySettings

    def data(self, task, seed, settings: ToySettings, stage) -> Data:
        """One data set serves all seeds; validation and test are new points of the training range."""
        rng, size = np.random.default_rng(_DATA), settings.num_test
        near, wide = settings.train_range, settings.test_range
        train = draw(settings.num_train, near, settings.noise, rng)
        test, beyond, validation = (draw(size, between, settings.noise, rng) for between in (near, wide, near))
        if stage == TUNING:
            return Data(train, validation, ood={"perturbed": protocol.perturbed(train.x)})
        grid = np.linspace(*settings.grid_range, 401, dtype="float32")[:, None]
        return Data(train, validation, test, {"grid": grid, "wide": beyond.x, "wide_targets": beyond.y})

    def network(self, weights: Weights, settings: ToySettings) -> keras.Model:
        """Returns the network whose hidden weight is given; a deterministic network has points everywhere."""
        around = weights.of("full_rank") if weights.random else weights
        first = hidden = keras.Input((1,))
        shapes = (("first", settings.units, "tanh", around), ("hidden", settings.units, "tanh", weights))
        for i, (name, units, activation, own) in enumerate((*shapes, ("last", 1, None, around))):
            start = keras.initializers.RandomNormal(stddev=settings.spread[i]) if settings.spread else None
            options = {"posterior": own(settings.ranks[i]), "bias_posterior": around.bias(), "name": name}
            hidden = layers.Dense(units, activation, kernel_initializer=start, **options)(hidden)
        learned = settings.likelihood_scale is None
        return keras.Model(first, layers.LearnedNoise()(hidden) if learned else hidden)

    def loss(self, settings: ToySettings) -> keras.losses.Loss:
        return MeanScale() if settings.likelihood_scale is None else Gaussian(settings.likelihood_scale)

    def score(self, predict: Predict, data: Data, settings: ToySettings, stage) -> tuple[Scores, Arrays]:
        known, held = data.train.y, data.validation
        assert held is not None
        p = scores.in_units(predict(held.x), 0.0, 1.0)
        if data.test is None:
            perturbed = scores.in_units(predict(data.ood["perturbed"]), 0.0, 1.0)
            return scores.value_tuning(p, held.y[:, 0], perturbed, known), {}
        test, wide = (scores.in_units(predict(x), 0.0, 1.0) for x in (data.test.x, data.ood["wide"]))
        y = data.test.y[:, 0]
        if not scores.finite(test):
            return scores.one_gaussian(y, known), {}
        found = scores.one_gaussian(y, known) | scores.value_quality(test, y)
        found |= {f"{name}_near": found[name] for name in ("rmse", "nll", "coverage")}
        found |= scores.prefixed("validation", scores.value_quality(p, held.y[:, 0]))
        found["rmse_test"] = metrics.root_mean_square_error(wide.mean, data.ood["wide_targets"][:, 0])
        grid = data.ood["grid"]
        band = scores.in_units(predict(grid), 0.0, 1.0)
        draws = predict(grid, draws=settings.iqr_draws, keep_draws=True).draws
        if band.num_draws > 1:  # a deterministic network has no band
            found |= band_scores(grid[:, 0], metrics.epistemic_iqr(draws), band.std, settings)
        lines = {"mean": band.mean}
        for kind in ("epistemic", "total"):
            lines[f"{kind}_low"], lines[f"{kind}_high"] = band.interval(0.95, variance=kind)
        return found, {f"bands/{name}": np.stack([grid[:, 0], values]) for name, values in lines.items()}


def draw(num: int, between: tuple[float, float], noise: float, rng: np.random.Generator) -> Part:
    """Returns inputs and targets, each (num, 1)."""
    x = rng.uniform(*between, (num, 1))
    return Part(x.astype("float32"), target(x, rng.normal(0.0, noise, (num, 1))).astype("float32"))


def target(x: np.ndarray, eps: np.ndarray) -> np.ndarray:
    """Returns y for the input x and the noise ε, which acts inside the sines too."""
    return x + 0.3 * np.sin(2 * np.pi * (x + eps)) + 0.3 * np.sin(4 * np.pi * (x + eps)) + eps


def band_scores(grid: np.ndarray, iqr: np.ndarray, std: np.ndarray, settings: ToySettings) -> Scores:
    """Returns the median width of the band inside the training range and outside it, and their ratio.

    The paper's two regions, [0.1, 0.6] and [0.5, 1.5], overlap: "published".
    """
    low, high = settings.train_range
    inside = (grid >= low) & (grid <= high)
    iqr, std = (np.reshape(width, len(grid)) for width in (iqr, std))
    kinds = {
        "iqr": (iqr[inside], iqr[~inside]),
        "std": (std[inside], std[~inside]),
        "iqr_published": (iqr[(grid >= 0.1) & (grid <= 0.6)], iqr[(grid >= 0.5) & (grid <= 1.5)]),
    }
    return {
        name.replace("iqr", kind, 1): value
        for kind, widths in kinds.items()
        for name, value in metrics.iqr_scores(*widths).items()
    }
