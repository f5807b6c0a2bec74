"""What is measured of a network that predicts numbers, and the arrays from which any other score can be made later.

The noise of a total variance is fitted to validation residuals (`noise_weights`): one for all examples, or one that
grows with numbers known before the target, or that which the network predicts, times a factor.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy import optimize

from singularbayes import metrics
from singularbayes.evaluation import evaluate
from singularbayes.prediction import ValuePredictive, conformal_intervals

_LEVEL = 0.95
_LEAST_SHARE = 1e-4
_RETAINED = (0.9, 0.8, 0.7)


def in_units(p: ValuePredictive, mean: float, std: float) -> ValuePredictive:
    """Returns predictions of standardised numbers in the units of the numbers themselves, one an example.

    >>> p = in_units(ValuePredictive(np.array([[1.0]]), np.array([[0.1]]), 5, noise=0.2), mean=100.0, std=90.0)
    >>> p.mean, p.std, p.noise
    (array([190.]), array([9.]), array([18.]))
    """
    assert p.noise is not None
    noise = np.broadcast_to(p.noise, p.mean.shape)
    values, spread, around = (part.reshape(len(p)) for part in (p.mean, p.std, noise))
    return ValuePredictive(mean + std * values, std * spread, p.num_draws, noise=std * around)


def noise_weights(p: ValuePredictive, y: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Returns w >= 0 so that with the noise `kinds` @ w the Gaussian of the total variance has the least NLL on `y`.

    Args:
        kinds: (examples, kinds), numbers >= 0 known before the target that the noise may grow with; a column of ones is
            a noise for all, the noise that a network predicts is one that is multiplied by a factor.

    >>> errors = np.array([-2.0, 2.0, -2.0, 2.0])
    >>> p = ValuePredictive(np.zeros(4), np.ones(4), 9, noise=1.0)
    >>> noise_weights(p, errors, np.ones((4, 1))).round(4)  # 1² + w² = 2²
    array([1.7321])
    """
    squares, epistemic = (y - p.mean) ** 2, p.std**2
    size = np.sqrt(squares.mean()) / kinds.mean(axis=0)  # of every kind, if the noise were of it alone

    def nll(shares: np.ndarray) -> tuple[float, np.ndarray]:
        noise = kinds @ (size * shares)
        variance = epistemic + noise**2
        slope = (1 / variance - squares / variance**2) * noise  # of the NLL by the noise
        value = (np.log(variance) + squares / variance).mean() / 2
        return float(value), size * (slope[:, None] * kinds).mean(axis=0)

    start = np.full(kinds.shape[1], 1 / kinds.shape[1])
    least = [(_LEAST_SHARE, None)] + [(0.0, None)] * (kinds.shape[1] - 1)  # a variance is above 0
    found = optimize.minimize(nll, start, jac=True, method="L-BFGS-B", bounds=least, options={"ftol": 1e-12})
    return size * found.x


def with_noise(p: ValuePredictive, noise: np.ndarray) -> ValuePredictive:
    """Returns predictions with another noise, one an example."""
    return replace(p, noise=noise)


def quality(p: ValuePredictive, y: np.ndarray) -> dict[str, float]:
    """Returns errors, and the NLL of the total variance."""
    std = np.sqrt(p.variance("total"))
    return {
        "mae": metrics.mean_absolute_error(p.mean, y),
        "rmse": metrics.root_mean_square_error(p.mean, y),
        "nll": metrics.gaussian_nll(p.mean, std, y),
    }


def of_test(p: ValuePredictive, y: np.ndarray, ood: Mapping[str, ValuePredictive]) -> dict[str, float]:
    """Returns every score of `evaluate` that has a value, and the error of what is kept at several shares.

    Scores of out-of-distribution examples are called "name/score".
    """
    found = evaluate(p, y, ood=dict(ood) or None).metrics | selective(p, y)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def selective(p: ValuePredictive, y: np.ndarray) -> dict[str, float]:
    """Returns the mean absolute error of the most certain predictions, by either spread, at several shares kept."""
    errors = np.abs(p.mean - y)
    kinds = ("epistemic", "total") if p.num_draws > 1 else ("total",)
    curves = {kind: metrics.selective_curve(np.sqrt(p.variance(kind)), errors) for kind in kinds}
    return {
        f"risk_at_{100 * share:.0f}_{kind}": float(curve.at(share))
        for kind, curve in curves.items()
        for share in _RETAINED
    }


def conformal(p: ValuePredictive, y: np.ndarray, validation: ValuePredictive, known: np.ndarray) -> dict[str, float]:
    """Returns coverage and width of 95 % intervals whose width is set by the validation examples, as shares of sd."""
    lower, upper = conformal_intervals(validation, known, _LEVEL)(p)
    return {
        "conformal_picp_95": metrics.interval_coverage(lower, upper, y),
        "conformal_mpiw_95": metrics.interval_width(lower, upper),
        "conformal_interval_score_95": metrics.interval_score(lower, upper, y, _LEVEL),
    }


def stored(name: str, p: ValuePredictive, y: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Returns the arrays of one set of examples: mean, spread over draws, noise, and the targets where they are."""
    found = {"mean": p.mean, "std": p.std, "noise": np.broadcast_to(p.noise, p.mean.shape)}  # type: ignore[arg-type]
    found |= {} if y is None else {"targets": y}
    return {f"{name}_{what}": np.asarray(values, "float32") for what, values in found.items()}


def read_back(name: str, arrays: Mapping[str, np.ndarray], draws: int) -> ValuePredictive:
    """Returns predictions as `evaluate` takes them from the arrays that `stored` made.

    >>> p = ValuePredictive(np.array([2.0]), np.array([0.5]), 9, noise=np.array([0.25]))
    >>> read_back("test", stored("test", p), draws=9) == p
    True
    """
    mean, std, noise = (arrays[f"{name}_{what}"].astype("float64") for what in ("mean", "std", "noise"))
    return ValuePredictive(mean, std, draws, noise=noise)
