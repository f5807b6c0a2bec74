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


def by_component(draws: np.ndarray, components: int) -> np.ndarray:
    """Returns draws (draws of a component, components, …) of draws (draws, …), of which s is of component s mod K."""
    return draws.reshape(-1, components, *draws.shape[1:])


def of_unseen(each: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Returns, for every row, the mean over the components that did not see it.

    Args:
        each: (components, rows, outputs).
        held_out: (rows, components).
    """
    return np.einsum("nk,kno->no", held_out, each) / held_out.sum(axis=1)[:, None]


def pooled_error(squares: np.ndarray, between: np.ndarray, count: np.ndarray, components: int) -> np.ndarray:
    """Returns the factor of the errors of `count` components that makes them those of all, for each output.

    The mean of m components has the error of infinitely many plus the variance between components over m (Krogh and
    Vedelsby, 1995).
    """
    less = (between * (1 / count - 1 / components)[:, None]).mean(axis=0)
    return np.sqrt(np.clip(1 - less / np.maximum(squares.mean(axis=0), 1e-30), 0.25, 1.0))


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
