"""How good predicted numbers and their intervals are.

`r_squared` is better when higher, coverage at its level, every other score when lower. Arrays have one shape:
(examples,), (examples, 1) or (examples, outputs). Scores are means over all of it. `std` is the standard deviation of
what is predicted: with the noise (`Predictive.variance("total")`) for targets. `sample_weight` is how much each example
counts; doubling all of them changes nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from singularbayes.checks import aligned, require_finite, require_share, weighted_mean, weights_of

LEVELS = tuple(level / 20 for level in range(1, 20))


def mean_absolute_error(predictions: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns mean |prediction − target|.

    >>> mean_absolute_error(np.array([1.0, 2.0]), np.array([1.0, 4.0]))
    1.0
    """
    p, y = aligned("mean_absolute_error", predictions=predictions, targets=targets)
    return weighted_mean("mean_absolute_error", np.abs(p - y), sample_weight)


def root_mean_square_error(
    predictions: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Returns √mean (prediction − target)².

    >>> round(root_mean_square_error(np.array([1.0, 2.0]), np.array([1.0, 4.0])), 3)
    1.414
    """
    p, y = aligned("root_mean_square_error", predictions=predictions, targets=targets)
    return math.sqrt(weighted_mean("root_mean_square_error", (p - y) ** 2, sample_weight))


def r_squared(predictions: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the share of the targets' variance that is predicted: 1 is perfect, the targets' own mean gets 0.

    Of several outputs it is the mean over them.

    >>> round(r_squared(np.array([1.0, 2.0]), np.array([1.0, 4.0])), 3)
    0.111
    """
    from sklearn.metrics import r2_score

    p, y = (array.reshape(len(array), -1) for array in aligned("r_squared", predictions=predictions, targets=targets))
    if (y == y[0]).all(axis=0).any():
        raise ValueError(f"r_squared needs targets that differ, in every output; got {len(y)} of one value.")
    return float(r2_score(y, p, sample_weight=weights_of("r_squared", sample_weight, len(y))))


def gaussian_nll_of_each(mean: np.ndarray, std: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns −log N(target; mean, std²) of every target, in nats. Arrays are not checked.

    >>> gaussian_nll_of_each(np.array([0.8, 1.0]), np.array([0.5, 0.5]), np.ones(2)).round(4).tolist()
    [0.3058, 0.2258]
    """
    return 0.5 * math.log(2 * math.pi) + np.log(std) + 0.5 * ((targets - mean) / std) ** 2


def gaussian_nll(
    mean: np.ndarray, std: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Returns the mean of −log N(target; mean, std²), in nats.

    >>> round(gaussian_nll(np.array([0.8]), np.array([0.5]), np.array([1.0])), 6)
    0.305791
    """
    m, s, y = predicted("gaussian_nll", mean, std, targets)
    with np.errstate(over="ignore"):  # infinite where a target is impossible
        nll = gaussian_nll_of_each(m, s, y)
    return weighted_mean("gaussian_nll", nll, sample_weight)


def crps_sample(draws: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the mean continuous ranked probability score of the distribution that the draws come from, fair.

    CRPS = mean |draw − target| − ½ mean |draw − draw′| over all pairs of different draws. So its expectation does not
    depend on the number of draws, and methods with few and with many can be compared (Ferro 2014); where draws agree
    with each other more than with the target by chance it may be negative. One draw is a point: its absolute error.
    Draws of the mean lack the noise: add it first.

    >>> crps_sample(np.array([[0.0], [2.0]]), np.array([1.0])), crps_sample(np.array([[2.0]]), np.array([1.0]))
    (0.0, 1.0)

    Args:
        draws: (draws, examples, …), targets (examples, …).
    """
    import scoringrules

    values = np.asarray(draws, "float64")
    if values.ndim < 2 or not values.size:
        raise ValueError(f"crps_sample needs draws of shape (draws, examples, …), not empty; got {values.shape}.")
    require_finite("crps_sample", draws=values)
    _, y = aligned("crps_sample", **{"the first draw": values[0], "targets": targets})
    values = values.reshape(len(values), *y.shape)
    if len(values) == 1:
        return weighted_mean("crps_sample", np.abs(values[0] - y), sample_weight)
    # By sorted draws, M ln M instead of M² of them: the same number as its estimator "fair".
    crps = scoringrules.crps_ensemble(y, values, m_axis=0, estimator="pwm")
    return weighted_mean("crps_sample", np.reshape(crps, y.shape), sample_weight)


def predicted(name: str, mean: np.ndarray, std: np.ndarray, targets: np.ndarray) -> list[np.ndarray]:
    """Returns the three in one shape, where every `std` is above 0."""
    values = aligned(name, mean=mean, std=std, targets=targets)
    if values[1].min() <= 0:
        raise ValueError(
            f"{name} needs std > 0; got {values[1].min():.3g}. A prediction without spread has no density: add the "
            'noise (variance="total").'
        )
    return values


def interval_coverage(
    lower: np.ndarray, upper: np.ndarray, targets: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Returns the share of targets in their closed interval (PICP).

    >>> interval_coverage(np.array([0.0, 0.0]), np.array([2.0, 2.0]), np.array([1.0, 3.0]))
    0.5
    """
    low, high, y = _intervals("interval_coverage", lower=lower, upper=upper, targets=targets)
    return weighted_mean("interval_coverage", (low <= y) & (y <= high), sample_weight)


def interval_width(lower: np.ndarray, upper: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the mean width (MPIW), in the units of the targets.

    >>> interval_width(np.array([0.0, 0.0]), np.array([2.0, 2.0]))
    2.0
    """
    low, high = _intervals("interval_width", lower=lower, upper=upper)
    return weighted_mean("interval_width", high - low, sample_weight)


def interval_score(
    lower: np.ndarray,
    upper: np.ndarray,
    targets: np.ndarray,
    level: float = 0.95,
    sample_weight: np.ndarray | None = None,
) -> float:
    """Returns the mean of width + 2/(1 − level) · (distance to a target outside), which the true quantiles minimise.

    >>> round(
    ...     interval_score(np.array([0.0, 0.0]), np.array([2.0, 2.0]), np.array([1.0, 3.0]), level=0.9), 2
    ... )  # 2 and 2 + 20 · 1
    12.0
    """
    import scoringrules

    low, high, y = _intervals("interval_score", lower=lower, upper=upper, targets=targets)
    require_share("interval_score", level=level)
    scores = np.reshape(scoringrules.interval_score(y, low, high, 1 - level), y.shape)
    return weighted_mean("interval_score", scores, sample_weight)


@dataclass(frozen=True)
class IntervalCalibration:
    """The share of targets in the central intervals of every level.

    >>> curve = interval_calibration_curve(np.zeros(4), np.ones(4), np.array([-3.0, -0.1, 0.2, 0.4]), levels=[0.5, 0.9])
    >>> curve.levels, curve.observed
    (array([0.5, 0.9]), array([0.75, 0.75]))
    """

    levels: np.ndarray
    observed: np.ndarray


def interval_calibration_curve(
    mean: np.ndarray, std: np.ndarray, targets: np.ndarray, levels: Sequence[float] = LEVELS
) -> IntervalCalibration:
    """Returns the coverage of mean ∓ z_level · std at every level; a calibrated prediction lies on the diagonal.

    >>> curve = interval_calibration_curve(np.zeros(4), np.ones(4), np.array([0.1, -0.5, 1.0, 3.0]), levels=(0.5, 0.95))
    >>> curve.observed
    array([0.5 , 0.75])
    """
    name = "interval_calibration_curve"
    m, s, y = predicted(name, mean, std, targets)
    needed = np.sort(special.erf(np.abs(y - m) / s / np.sqrt(2)), axis=None)  # of the interval that just reaches it
    grid = np.asarray(levels, "float64")
    if grid.ndim != 1 or not grid.size or not ((grid > 0) & (grid < 1)).all():
        raise ValueError(f"{name} needs levels between 0 and 1; got levels={levels!r}.")
    return IntervalCalibration(grid, np.searchsorted(needed, grid, side="right") / len(needed))


def calibration_of_levels(needed: np.ndarray, sample_weight: np.ndarray | None = None) -> dict[str, float]:
    """Returns the "error" and the "area" of interval calibration for intervals of any distribution.

    Args:
        needed: the level of the smallest interval that contains the target, (examples, …): |2 F(target) − 1| of a
            continuous distribution.

    >>> found = calibration_of_levels(np.array([0.0, 0.25, 0.5, 0.75]))
    >>> {name: round(value, 4) for name, value in found.items()}
    {'error': 0.1447, 'area': 0.125}
    """
    values = np.asarray(needed, "float64")
    weights = weights_of("calibration_of_levels", sample_weight, len(values))
    each = (
        np.ones(values.shape)
        if weights is None
        else weights.reshape(-1, *[1] * (values.ndim - 1)) * np.ones(values.shape)
    )
    order = np.argsort(values, axis=None)
    sorted_levels, coverage = values.ravel()[order], np.concatenate([[0.0], each.ravel()[order].cumsum()])
    coverage = coverage / coverage[-1]
    observed = coverage[np.searchsorted(sorted_levels, LEVELS, side="right")]
    edges = np.concatenate([[0.0], sorted_levels, [1.0]])
    after, before = edges[1:] - coverage, edges[:-1] - coverage
    area = (after * np.abs(after) - before * np.abs(before)).sum() / 2  # d/dt t|t|/2 = |t|
    return {"error": float(np.abs(observed - LEVELS).mean()), "area": float(area)}


def _intervals(name: str, **arrays: np.ndarray) -> list[np.ndarray]:
    values = aligned(name, **arrays)
    wrong = int((values[0] > values[1]).sum())
    if wrong:
        raise ValueError(f"{name} needs lower <= upper; got {wrong} of {values[0].size} the other way round.")
    return values
