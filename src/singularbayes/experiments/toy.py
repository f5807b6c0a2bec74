"""The paper's toy regression: does the band of functions open where there are no data?

y = x + 0.3 sin 2π(x + ε) + 0.3 sin 4π(x + ε) + ε with ε ~ N(0, 0.02²), 1024 points in [−0.1, 0.6], a 1-100-100-1 tanh
network. Uncertainty about the function (epistemic) is compared inside that range and outside it, up to [−0.5, 1.5].
"""

import math
from dataclasses import dataclass

import keras
import numpy as np

from singularbayes import layers
from singularbayes.experiments.record import Record, departures, plain
from singularbayes.experiments.training import Watch, fit, require_method
from singularbayes.inference import GaussianNLL, ValuePredictive, predict
from singularbayes.inference.counts import count_trained
from singularbayes.metrics import epistemic_iqr, interval_coverage, iqr_scores, root_mean_square_error
from singularbayes.posteriors import FullRank, LowRank, ScaleMixture


@dataclass(frozen=True)
class Settings:
    """The paper's values. It does not say where the scales of this network start: ρ is as in its other experiments."""

    num_train: int = 1024
    num_test: int = 2048
    train_range: tuple[float, float] = (-0.1, 0.6)
    test_range: tuple[float, float] = (-0.25, 0.85)
    grid_range: tuple[float, float] = (-0.5, 1.5)
    noise: float = 0.02
    units: int = 100
    rank: int = 16
    sigma1: float = 2.0
    sigma2: float = math.exp(-6)
    rho_start: tuple[float, float] = (-5.0, -4.0)
    learning_rate: float = 5e-4
    cosine: bool = False
    batch_size: int = 128
    epochs: int = 800
    beta: float = 1e-4
    warmup: int = 760
    draws: int = 200
    iqr_draws: int = 100


QUICK = Settings(epochs=200, warmup=190, learning_rate=2e-3)

METHODS = {
    "low_rank": lambda settings, **options: LowRank(settings.rank, **options),
    "full_rank": lambda settings, **options: FullRank(**options),
}


def target(x: np.ndarray, eps: np.ndarray) -> np.ndarray:
    """Returns y for the input x and the noise ε, which acts inside the sines too."""
    return x + 0.3 * np.sin(2 * np.pi * (x + eps)) + 0.3 * np.sin(4 * np.pi * (x + eps)) + eps


def draw_data(num: int, between: tuple[float, float], noise: float, rng: np.random.Generator):
    """Returns inputs and targets, each (num, 1)."""
    x = rng.uniform(*between, (num, 1))
    return x.astype("float32"), target(x, rng.normal(0.0, noise, (num, 1))).astype("float32")


def network(method: str, settings: Settings) -> keras.Model:
    """Returns the network; input, output and biases are full-rank, the hidden weight is the method's."""
    options = {
        "prior": ScaleMixture(sigma1=settings.sigma1, sigma2=settings.sigma2),
        "rho_initializer": keras.initializers.RandomUniform(*settings.rho_start),
    }
    full = FullRank(**options)
    hidden = METHODS[method](settings, **options)
    return keras.Sequential(
        [
            keras.Input((1,)),
            layers.Dense(settings.units, "tanh", posterior=full, bias_posterior=full),
            layers.Dense(settings.units, "tanh", posterior=hidden, bias_posterior=full),
            layers.Dense(1, posterior=full, bias_posterior=full),
        ]
    )


def spread(x: np.ndarray, width: np.ndarray, settings: Settings) -> dict[str, float]:
    """Returns the median width of the band inside the training range, outside it, and their ratio."""
    low, high = settings.train_range
    inside = (x >= low) & (x <= high)
    return _medians(width[inside], width[~inside])


def published_spread(x: np.ndarray, width: np.ndarray) -> dict[str, float]:
    """Returns the same with the paper's two regions, [0.1, 0.6] and [0.5, 1.5], which overlap."""
    return _medians(width[(x >= 0.1) & (x <= 0.6)], width[(x >= 0.5) & (x <= 1.5)])


def _medians(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    return {name.removeprefix("iqr_"): value for name, value in iqr_scores(inside, outside).items()}


def run(method: str, seed: int, settings: Settings = Settings(), watch: Watch | None = None) -> Record:
    """Trains one network and measures its fit and its band."""
    require_method(method, METHODS)
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    x, y = draw_data(settings.num_train, settings.train_range, settings.noise, rng)
    x_near, y_near = draw_data(settings.num_test, settings.train_range, settings.noise, rng)
    x_test, y_test = draw_data(settings.num_test, settings.test_range, settings.noise, rng)

    model = network(method, settings)
    seconds = fit(model, GaussianNLL(settings.noise), x, y, settings, watch)

    grid = np.linspace(*settings.grid_range, 401, dtype="float32")
    band = predict(model, grid[:, None], settings.draws, seed)
    draws = predict(model, grid[:, None], settings.iqr_draws, seed, keep_draws=True).draws
    assert draws is not None
    iqr = epistemic_iqr(draws)[:, 0]
    near, test = (predict(model, inputs, settings.draws, seed) for inputs in (x_near, x_test))
    assert isinstance(band, ValuePredictive) and isinstance(near, ValuePredictive)
    lower, upper = near.interval(0.95, variance="total")
    metrics = {
        "rmse_near": root_mean_square_error(near.mean, y_near),
        "rmse_test": root_mean_square_error(test.mean, y_test),
        "coverage_near": interval_coverage(lower, upper, y_near),
        **{f"iqr_{region}": value for region, value in spread(grid, iqr, settings).items()},
        **{f"std_{region}": value for region, value in spread(grid, band.std[:, 0], settings).items()},
        **{f"iqr_published_{region}": value for region, value in published_spread(grid, iqr).items()},
    }
    epistemic, total = (np.stack(band.interval(0.95, variance=kind))[..., 0] for kind in ("epistemic", "total"))
    arrays = {"x": x[:, 0], "y": y[:, 0], "grid": grid, "mean": band.mean[:, 0], "epistemic": epistemic, "total": total}
    return Record(
        "toy",
        method,
        seed,
        plain(settings),
        metrics,
        count_trained(model),
        seconds,
        paper=departures(settings),
        arrays=arrays,
    )
