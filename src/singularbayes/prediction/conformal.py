"""Split-conformal intervals and sets: they contain new targets at least as often as promised, whatever the model.

The promise is about the average over held-out and new examples that come in no special order (exchangeable), not about
each kind of input, and not about out-of-distribution ones. The held-out examples must serve neither training nor
recalibration.
"""

import math
from dataclasses import dataclass

import numpy as np

from singularbayes.checks import labelled, require_finite, require_share
from singularbayes.likelihoods import (
    ClassPredictive,
    LabelPredictive,
    ValuePredictive,
    by_position,
    position_weights,
    require_kind,
    targets_of,
)

VARIANCES = ("total", "epistemic", "constant")


@dataclass(frozen=True)
class ConformalIntervals:
    """Intervals mean ∓ `quantile` · sd that contain new targets with probability >= `level`, for every output.

    `variance` names what sd is: of the "total" or "epistemic" variance, or 1 for all ("constant").

    >>> p = ValuePredictive(np.zeros((1, 1)), np.ones((1, 1)), 10)
    >>> ConformalIntervals(0.9, np.array([2.0]), "epistemic")(p)
    (array([[-2.]]), array([[2.]]))
    """

    level: float
    quantile: np.ndarray
    variance: str = "total"

    def __call__(self, p: ValuePredictive) -> tuple[np.ndarray, np.ndarray]:
        """Returns the lower and the upper ends, each in the shape of `p.mean`."""
        half = self.quantile * _scale("ConformalIntervals", p, self.variance)
        return p.mean - half, p.mean + half


@dataclass(frozen=True)
class ConformalSets:
    """Sets of all classes with probability >= `threshold`, which contain new labels with probability >= `level`.

    >>> p = ClassPredictive(np.array([[0.5, 0.4, 0.1]]), np.zeros((1, 3)), 1)
    >>> ConformalSets(0.9, threshold=0.3)(p)
    array([[ True,  True, False]])
    """

    level: float
    threshold: float

    def __call__(self, p: ClassPredictive) -> np.ndarray:
        """Returns, (examples, …, classes), which classes are in the set; it may be empty where no class is probable.

        Of labels that do not exclude each other every label has a set of absent and present, (examples, labels, 2).
        """
        if isinstance(p, LabelPredictive):
            p = p.by_class()
        require_kind("ConformalSets", p, ClassPredictive)
        return p.mean >= self.threshold


def conformal_intervals(
    p: ValuePredictive, y=None, level: float = 0.9, variance: str = "total", *, sample_weight=None
) -> ConformalIntervals:
    """Returns intervals of the held-out predictions `p` of `y`; call them on other predictions of the model.

    The quantile is the ⌈(n + 1) level⌉-th smallest of |y − mean|/sd over the n held-out examples, of each output.

    Args:
        y: None takes `p.targets`, those of the data that were predicted.
        variance: what widens an interval: the "total" variance, which needs the noise, the "epistemic" one, or nothing
            ("constant": one width for all).
        sample_weight: 0 or 1, a mask: per example, or per position (examples, length). Positions of weight 1 then share
            one quantile, and the promise is about a position drawn at random from a new example.

    >>> p = ValuePredictive(np.zeros((9, 1)), np.ones((9, 1)), 10)
    >>> intervals = conformal_intervals(p, np.arange(9.0)[:, None] - 4, level=0.5, variance="epistemic")
    >>> intervals.quantile
    array([2.])
    """
    scale = _scale("conformal_intervals", p, variance)
    targets = np.asarray(targets_of("conformal_intervals", p, y), "float64")
    if targets.size != p.mean.size or len(targets) != len(p):
        raise ValueError(
            f"conformal_intervals needs targets in the shape of the predictions, {p.mean.shape}; got {targets.shape}."
        )
    targets = targets.reshape(p.mean.shape)
    sample_weight = position_weights(p, sample_weight)
    if sample_weight is None:
        require_finite("conformal_intervals", targets=targets)
    scores = np.abs(targets - p.mean) / scale
    return ConformalIntervals(level, _quantile("conformal_intervals", scores, level, sample_weight), variance)


def conformal_sets(
    p: ClassPredictive | LabelPredictive, y=None, level: float = 0.9, *, sample_weight=None
) -> ConformalSets:
    """Returns sets of classes from the held-out predictions `p` of `y`; call them on other predictions of the model.

    The threshold is the ⌈(n + 1) level⌉-th largest probability of a label among the n held-out examples; `y=None` takes
    `p.targets`. Of outputs per token, pixel or label the examples come in no special order, not their positions: each
    position counts as 1/(number of positions of its example), and the promise is about a position drawn at random from
    a new example.

    Args:
        sample_weight: 0 or 1, a mask: per example, or per position. Padding that the model masks does not count.

    >>> p = ClassPredictive(np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]), np.zeros((4, 2)), 1)
    >>> sets = conformal_sets(p, [0, 0, 1, 1], level=0.8)
    >>> sets.threshold, sets(p)[0], sets(p)[3]
    (0.4, array([ True, False]), array([ True,  True]))
    """
    if not isinstance(p, LabelPredictive):
        require_kind("conformal_sets", p, ClassPredictive)
    sample_weight = position_weights(p, sample_weight)
    each, labels, _ = by_position("conformal_sets", p, targets_of("conformal_sets", p, y), sample_weight)
    probabilities, labels = labelled("conformal_sets", each.mean, labels)
    shape = p.position_shape
    counted = np.ones(shape) if sample_weight is None else _mask("conformal_sets", sample_weight)
    counted = np.broadcast_to(counted.reshape(counted.shape + (1,) * (len(shape) - counted.ndim)), shape)
    scores = np.zeros(shape)
    scores[counted > 0] = -probabilities[np.arange(len(labels)), labels]
    return ConformalSets(level, -float(_quantile("conformal_sets", scores, level, counted)))


def _mask(name: str, sample_weight) -> np.ndarray:
    mask = np.asarray(sample_weight, "float64")
    mask = mask[..., 0] if mask.ndim > 1 and mask.shape[-1] == 1 else mask
    if not np.isin(mask, (0, 1)).all():
        raise ValueError(
            f"{name} needs a sample_weight of 0 or 1, a mask: its promise is about examples that count the same; got "
            f"values from {mask.min():.3g} to {mask.max():.3g}."
        )
    return mask


def _quantile(name: str, scores: np.ndarray, level: float, sample_weight) -> np.ndarray:
    """Returns the least score that a share `level` of n + 1 examples does not exceed; the new one counts as infinite.

    An example counts as the mean over its positions (Lee, Barber and Willett, 2023); with one position each it is the
    ⌈(n + 1) level⌉-th smallest. `scores` (examples, …) keep the axes that the mask does not have.
    """
    require_share(name, level=level)
    mask = np.ones(len(scores)) if sample_weight is None else _mask(name, sample_weight)
    if mask.shape != scores.shape[: mask.ndim]:
        raise ValueError(f"{name} needs a sample_weight in the shape of the targets, {scores.shape}; got {mask.shape}.")
    positions = mask.reshape(len(mask), -1).sum(axis=1)
    _require_enough(name, int((positions > 0).sum()), level)
    share = mask / np.maximum(positions, 1).reshape(-1, *[1] * (mask.ndim - 1))
    counted, weights = scores[mask > 0], share[mask > 0]
    require_finite(name, targets=counted)
    order = np.argsort(counted, axis=0, kind="stable")
    reached = weights[order].cumsum(axis=0)
    first = (reached < ((positions > 0).sum() + 1) * level - 1e-9).sum(axis=0)  # 100 · 0.07 is above 7
    return np.take_along_axis(np.take_along_axis(counted, order, axis=0), np.expand_dims(first, 0), axis=0)[0]


def _require_enough(name: str, examples: int, level: float) -> None:
    if math.ceil((examples + 1) * level - 1e-9) > examples:
        needed = math.ceil(level / (1 - level) - 1e-9)
        raise ValueError(
            f"{name} needs at least {needed} held-out examples for level={level}: with fewer only an unbounded "
            f"interval or set keeps the promise; got {examples}."
        )


def _scale(name: str, p: ValuePredictive, variance: str) -> np.ndarray:
    require_kind(name, p, ValuePredictive)
    if variance not in VARIANCES:
        raise ValueError(f"{name} needs variance to be one of {list(VARIANCES)}; got variance={variance!r}.")
    if variance == "constant":
        return np.ones_like(p.mean)
    scale = np.sqrt(p.variance(variance))
    if scale.size and scale.min() <= 0:
        raise ValueError(f'{name} needs a variance above 0 everywhere; got 0. Use variance="constant".')
    return scale
