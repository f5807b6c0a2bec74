"""Whether intervals hold the targets and how wide they are; whether Gaussian ones hold the share of their level.

Arrays have one shape, examples first, as in `regression`. Widths, scores, errors and areas are better when lower;
coverage is best at the level.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from singularbayes.checks import aligned, require_share, weighted_mean, weights_of
from singularbayes.metrics.regression import predicted

LEVELS = tuple(level / 20 for level in range(1, 20))


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
    return _curve("interval_calibration_curve", mean, std, targets, levels)


def interval_calibration_error(
    mean: np.ndarray, std: np.ndarray, targets: np.ndarray, levels: Sequence[float] = LEVELS
) -> float:
    """Returns the mean over levels of |coverage − level|, the ECE of regression.

    >>> round(interval_calibration_error(np.zeros(2), np.ones(2), np.zeros(2), levels=(0.5,)), 2)  # all are inside
    0.5
    """
    curve = _curve("interval_calibration_error", mean, std, targets, levels)
    return float(np.abs(curve.observed - curve.levels).mean())


def interval_calibration_area(mean: np.ndarray, std: np.ndarray, targets: np.ndarray) -> float:
    """Returns ∫₀¹ |coverage(level) − level| dlevel, the area between the curve of all levels and the diagonal.

    It is exact: no grid is chosen. From 0 to ½.

    >>> round(interval_calibration_area(np.zeros(2), np.ones(2), np.zeros(2)), 2)
    0.5
    """
    return calibration_of_levels(_needed_levels("interval_calibration_area", mean, std, targets))["area"]


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


def _curve(name: str, mean: np.ndarray, std: np.ndarray, targets: np.ndarray, levels: Sequence[float]):
    needed = np.sort(_needed_levels(name, mean, std, targets), axis=None)
    grid = np.asarray(levels, "float64")
    if grid.ndim != 1 or not grid.size or not ((grid > 0) & (grid < 1)).all():
        raise ValueError(f"{name} needs levels between 0 and 1; got levels={levels!r}.")
    return IntervalCalibration(grid, np.searchsorted(needed, grid, side="right") / len(needed))


def _needed_levels(name: str, mean: np.ndarray, std: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns the level whose central interval just reaches the target: P(|Z| ≤ |target − mean|/std)."""
    m, s, y = predicted(name, mean, std, targets)
    return special.erf(np.abs(y - m) / s / np.sqrt(2))


def _intervals(name: str, **arrays: np.ndarray) -> list[np.ndarray]:
    values = aligned(name, **arrays)
    wrong = int((values[0] > values[1]).sum())
    if wrong:
        raise ValueError(f"{name} needs lower <= upper; got {wrong} of {values[0].size} the other way round.")
    return values
