"""Regression on a line: does the band of functions open where there are no data?

The paper's toy regression and its settings: y = x + 0.3 sin 2π(x + ε) + 0.3 sin 4π(x + ε) + ε with ε ~ N(0, 0.02²),
training points in [−0.1, 0.6], and a 1-100-100-1 tanh network whose hidden weight is low-rank or full-rank. Its other
weights and its biases are full-rank.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import keras
import numpy as np

import singularbayes as sb
from singularbayes import layers, plots
from singularbayes.demo.page import Story
from singularbayes.demo.training import Trainer, Training
from singularbayes.evaluation import Evaluation
from singularbayes.posteriors import Posterior

METHODS = ("low-rank", "full-rank")
_LOW, _HIGH = -0.1, 0.6  # of the training points
_PLOTTED = (-0.5, 1.5)
COLUMNS = ("num_stored", "rmse", "nll_total", "picp_95_total", "iqr_inside", "iqr_outside", "iqr_ratio")
_DATA_SEED = 0  # the same points for all seeds


@dataclass(frozen=True)
class Settings(Training):
    """The paper's values. It leaves the initial ρ of this network open: it is that of its other experiments."""

    epochs: int = 800
    batch_size: int = 128
    learning_rate: float = 5e-4
    cosine: bool = False
    beta: float = 1e-4
    warmup: int = 760
    num_train: int = 1024
    num_test: int = 2048
    noise: float = 0.02
    units: int = 100
    rank: int = 16
    sigma1: float = 2.0
    rho_range: tuple[float, float] = (-5.0, -4.0)
    draws: int = 200


QUICK = Settings(epochs=200, warmup=190, learning_rate=2e-3)


def target(x: np.ndarray, eps: np.ndarray) -> np.ndarray:
    """Returns y for the input x and the noise ε, which acts inside the sines too."""
    return x + 0.3 * np.sin(2 * np.pi * (x + eps)) + 0.3 * np.sin(4 * np.pi * (x + eps)) + eps


def sample(num: int, noise: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns inputs in the training range and their targets, each (num, 1)."""
    x = rng.uniform(_LOW, _HIGH, (num, 1))
    return x.astype("float32"), target(x, rng.normal(0.0, noise, (num, 1))).astype("float32")


def network(method: str, settings: Settings) -> keras.Model:
    """Returns 1-units-units-1 with tanh; the method is that of the hidden weight."""

    def posterior(kind: Callable[..., Posterior], *rank: int) -> Posterior:
        prior = sb.ScaleMixture(sigma1=settings.sigma1)
        return kind(*rank, prior=prior, rho_initializer=keras.initializers.RandomUniform(*settings.rho_range))

    def dense(units: int, activation: str | None, weight: Posterior) -> keras.layers.Layer:
        return layers.Dense(units, activation, posterior=weight, bias_posterior=posterior(sb.FullRank))

    hidden = posterior(sb.LowRank.paper, settings.rank) if method == "low-rank" else posterior(sb.FullRank)
    return keras.Sequential(
        [
            keras.Input((1,)),
            dense(settings.units, "tanh", posterior(sb.FullRank)),
            dense(settings.units, "tanh", hidden),
            dense(1, None, posterior(sb.FullRank)),
        ]
    )


def run(trainer: Trainer, settings: Settings) -> Story:
    """Trains both networks and compares their bands inside and outside the training range."""
    rng = np.random.default_rng(_DATA_SEED)
    x, y = sample(settings.num_train, settings.noise, rng)
    test = sample(settings.num_test, settings.noise, rng)
    grid = np.linspace(*_PLOTTED, 401, dtype="float32")[:, None]
    outside = grid[(grid[:, 0] < _LOW) | (grid[:, 0] > _HIGH)]
    draws, seed = settings.draws, trainer.seed
    evaluations, bands = [], {}
    for method in METHODS:
        loss = sb.GaussianNLL(settings.noise)
        model = trainer.fit(f"regression, {method}", partial(network, method, settings), loss, x, y, settings)
        evaluations.append(sb.evaluate(model, test, outside, name=method, draws=draws, seed=seed, keep_draws=True))
        functions = sb.predict(model, grid, draws, seed, keep_draws=True).draws
        assert functions is not None  # they were kept
        bands[method] = plots.quartile_bands(grid[:, 0], functions, settings.noise)
    return Story(
        name="regression",
        title="Regression: away from the data",
        setup=(
            f"{settings.num_train:,} points of a wave with noise lie in [−{-_LOW:g}, {_HIGH:g}]. A 1-{settings.units}-"
            f"{settings.units}-1 tanh network is trained twice: its hidden weight is W = A Bᵀ of rank {settings.rank}, "
            "or a full matrix of independent random entries. Does the band of functions open where there are no data?"
        ),
        sentence=summary(evaluations),
        figure=plots.function_bands(bands, x[:, 0], y[:, 0]),
        alt=(
            "For each network the training points, the median and the interquartile ranges of functions and of new "
            "targets; below, the widths of both ranges. Median width of the functions' range inside and outside the "
            "training range: "
            + "; ".join(f"{e.method} {e.value('iqr_inside'):.3f} and {e.value('iqr_outside'):.3f}" for e in evaluations)
            + "."
        ),
        table=sb.compare(evaluations, COLUMNS),
        note=(
            "RMSE, NLL (nats) and the coverage of the 95 % predictive interval (PICP) are on new points of the "
            "training range. IQR is the interquartile range over functions drawn from the posterior: its median inside "
            "the training range, outside it, and their ratio. The noise also acts inside the sines, which the constant "
            "noise of the likelihood does not model, so the intervals cover too little."
        ),
        settings=asdict(settings),
    )


def summary(evaluations: list[Evaluation]) -> str:
    """Returns how much wider the band of each network is away from the data, and how many parameters it has."""
    wider = " and ".join(f"{e.value('iqr_ratio'):.2f} times ({e.method})" for e in evaluations)
    sizes = {e.method: e.value("num_stored") for e in evaluations}
    low, full = sizes["low-rank"], sizes["full-rank"]
    return (
        f"Outside the training range the band of functions is {wider} as wide as inside it; the low-rank network has "
        f"{low:,.0f} parameters, {100 * low / full:.0f}\N{NO-BREAK SPACE}% of the {full:,.0f} of the full-rank one."
    )
