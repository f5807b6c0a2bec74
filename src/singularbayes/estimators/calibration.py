"""Held-out rows: which they are, and what is fitted on their predictions."""

import math

import numpy as np
from scipy import optimize, special

from singularbayes.metrics.classes import label_nll

_TEMPERATURES = (0.2, 5.0)
_PAIRS = 20  # rows that two components did not see; fewer are too few to estimate
_MOST_APART = 4.0  # times the variance between components on rows that most of them saw
_SHARED_ROWS = 100  # by which the error of a component is drawn to that of all
_LEAST = 0.2  # of the squared error of one component that is left to the mean of all


def split(rows: int, share: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows that are held out, `share` of all, and the others."""
    part = rng.permutation(rows) < math.ceil(share * rows)
    return np.flatnonzero(part), np.flatnonzero(~part)


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


def by_component(draws: np.ndarray, components: int) -> np.ndarray:
    """Returns draws (draws of a component, components, …) of draws (draws, …), where draw s is of component s mod K."""
    return draws.reshape(-1, components, *draws.shape[1:])


def mean_of_unseen_components(each: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Returns, for every row, the mean over the components that did not see it.

    Args:
        each: (components, rows, outputs).
        held_out: (rows, components).
    """
    return np.einsum("nk,kno->no", held_out, each) / held_out.sum(axis=1)[:, None]


def second_held_out(held_out: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Returns, (rows, components), a second component that does not see a row, for a share of the rows."""
    rows, components = held_out.shape
    some = rng.permutation(rows)[: round(share * rows)]
    second = np.zeros_like(held_out)
    other = held_out[some].argmax(axis=1) + rng.integers(1, components, len(some))
    second[some, other % components] = True
    return second


def between_components(means: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Returns the variance between components on new rows, for each output, a mean over rows.

    On rows that they were trained on, components agree more. So the variance over all of them is multiplied by what it
    has to be multiplied by on the rows that two or more did not see. A component that is a copy of another is held out
    from no row, and does not count there.

    Args:
        means: (components, rows, outputs).
        held_out: (rows, components).
    """
    over_all, count, own = means.var(axis=0, ddof=1), held_out.sum(axis=1), held_out.any(axis=0)
    twice = count > 1
    if twice.sum() < _PAIRS:
        return over_all.mean(axis=0)
    squares = (means - mean_of_unseen_components(means, held_out)) ** 2
    unseen = (np.einsum("nk,kno->no", held_out, squares)[twice] / (count[twice] - 1)[:, None]).mean(axis=0)
    seen = means[own][:, twice].var(axis=0, ddof=1).mean(axis=0)
    ratio = unseen / np.maximum(seen, 1e-30)
    return over_all.mean(axis=0) * np.clip(ratio, 1.0, _MOST_APART)


def pooled_error(squares: np.ndarray, between: np.ndarray, held_out: np.ndarray) -> np.ndarray:
    """Returns the factors, (rows, outputs), of the errors of components that make them as large as those of all.

    The mean of m components has the mean squared error of one less (1 − 1/m) times the variance between components
    (Krogh and Vedelsby, 1995). Components differ in their errors: each has the mean over the rows that it did not see,
    and of few rows some of the mean over all.

    Args:
        squares: the squared errors, (components, rows, outputs).
        between: the variance between components, (outputs,).
        held_out: (rows, components), which components predict a row.
    """
    components, count = held_out.shape[1], held_out.sum(axis=1)[:, None]
    sums, rows = np.einsum("nk,kno->ko", held_out, squares), held_out.sum(axis=0)[:, None]
    level = np.maximum(sums.sum(axis=0) / rows.sum(), 1e-30)
    each = (sums + _SHARED_ROWS * level) / (rows + _SHARED_ROWS)  # (components, outputs)
    of_row = held_out @ each / count
    pooled = np.maximum(each.mean(axis=0) - (1 - 1 / components) * between, _LEAST * level)
    return np.sqrt(pooled / np.maximum(of_row - (1 - 1 / count) * between, _LEAST * of_row))


def temperature(p: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None) -> float:
    """Returns the temperature in [0.2, 5] that makes held-out labels most likely.

    Args:
        p: (rows, classes), or (rows, labels) of labels that do not exclude each other.
        y: labels (rows,) or (rows, labels).
        weight: how much each row counts; None is all the same.

    >>> p = np.array([[0.9, 0.1]] * 4)  # confidence 90 %, accuracy 75 %
    >>> round(temperature(p, np.array([0, 0, 0, 1])), 3)
    2.0
    """

    def nll(log_temperature: float) -> float:
        tempered = temper(p, math.exp(log_temperature), exclusive=y.ndim == 1)
        return float(np.average(class_nll(tempered, y), weights=weight))

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
        return label_nll(p, y, floor=1e-12)
    return -(np.log(np.maximum(np.where(y == 1, p, 1 - p), 1e-12))).sum(axis=1)
