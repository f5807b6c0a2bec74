"""Held-out rows: which they are, and what is fitted on their predictions."""

import math

import numpy as np
from scipy import optimize, special

from singularbayes.prediction import ValuePredictive

_TEMPERATURES = (0.2, 5.0)


def split(rows: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Returns a part of every row: 0 is held out, `share` of all, 1 is the others."""
    return (rng.permutation(rows) >= math.ceil(share * rows)).astype(int)


def folds(rows: int, count: int, strata: np.ndarray | None, rng: np.random.Generator) -> np.ndarray:
    """Returns a fold of every row, of like size; rows of one stratum, such as a class, are spread over all folds.

    >>> labels = np.array([0] * 6 + [1] * 3)
    >>> parts = folds(9, 3, labels, np.random.default_rng(0))
    >>> [np.bincount(labels[parts == fold]).tolist() for fold in range(3)]
    [[2, 1], [2, 1], [2, 1]]
    """
    order = rng.permutation(rows)
    if strata is not None:
        order = order[np.argsort(strata[order], kind="stable")]
    parts = np.empty(rows, int)
    parts[order] = np.arange(rows) % count
    return parts


def gaussian_nll(p: ValuePredictive, y: np.ndarray) -> np.ndarray:
    """Returns −log N(y; mean, total variance) of every row, summed over outputs."""
    variance = p.variance("total")
    return 0.5 * ((y - p.mean) ** 2 / variance + np.log(2 * np.pi * variance)).sum(axis=1)


def better_by_one_error(plain: ValuePredictive, head: ValuePredictive, y: np.ndarray) -> bool:
    """Returns whether a noise head is worth it on held-out rows.

    Its NLL has to be lower by more than a standard error of the paired difference, and the error of its mean may not be
    5 % larger: heads that explain errors as noise are known to have worse means.
    """
    gain = gaussian_nll(plain, y) - gaussian_nll(head, y)
    errors = [math.sqrt(np.mean((p.mean - y) ** 2)) for p in (plain, head)]
    return bool(gain.mean() > gain.std(ddof=1) / math.sqrt(len(gain)) and errors[1] < 1.05 * errors[0])


def variance_scale(p: ValuePredictive, y: np.ndarray) -> np.ndarray:
    """Returns, for each output, the factor of the total variance that makes held-out targets most likely.

    It lies in [1/100, 100], so that a few rows that are predicted exactly do not make predictions certain.
    """
    return np.clip(((y - p.mean) ** 2 / p.variance("total")).mean(axis=0), 0.01, 100.0)


def temperature(p: np.ndarray, y: np.ndarray) -> float:
    """Returns the temperature in [0.2, 5] that makes held-out labels most likely.

    Args:
        p: (rows, classes), or (rows, labels) of labels that do not exclude each other.
        y: labels (rows,) or (rows, labels).

    >>> p = np.array([[0.9, 0.1]] * 4)  # confidence 90 %, accuracy 75 %
    >>> round(temperature(p, np.array([0, 0, 0, 1])), 3)
    2.0
    """

    def nll(log_temperature: float) -> float:
        tempered = temper(p, math.exp(log_temperature), exclusive=y.ndim == 1)
        return float(class_nll(tempered, y).mean())

    low, high = np.log(_TEMPERATURES)
    return math.exp(optimize.minimize_scalar(nll, bounds=(low, high), method="bounded", options={"xatol": 1e-6}).x)


def temper(p: np.ndarray, value: float, exclusive: bool = True) -> np.ndarray:
    """Returns probabilities to the power 1/temperature, normalised over classes, or over yes and no."""
    if not exclusive:
        return special.expit(special.logit(np.clip(p, 1e-12, 1 - 1e-12)) / value)
    powers = (p / p.max(axis=-1, keepdims=True)) ** (1 / value)
    return powers / powers.sum(axis=-1, keepdims=True)


def class_nll(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Returns −log p(labels) of every row; probabilities count as at least 1e-12."""
    if y.ndim == 1:
        return -np.log(np.maximum(p[np.arange(len(y)), y], 1e-12))
    return -(np.log(np.maximum(np.where(y == 1, p, 1 - p), 1e-12))).sum(axis=1)
