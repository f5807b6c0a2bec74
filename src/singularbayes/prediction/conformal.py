"""Split-conformal intervals and sets: they contain new targets at least as often as promised, whatever the model.

The promise is about the average over held-out and new examples that come in no special order (exchangeable), not about
each kind of input, and not about out-of-distribution ones. The held-out examples must serve neither training nor
recalibration.
"""

import math
from dataclasses import dataclass

import numpy as np

from singularbayes.checks import aligned, labelled
from singularbayes.likelihoods import ClassPredictive, ValuePredictive, require_kind, targets_of

VARIANCES = ("total", "epistemic", "constant")


@dataclass(frozen=True)
class ConformalIntervals:
    """Intervals mean ∓ `quantile` · sd that contain new targets with probability >= `level`, for every output.

    `variance` names what sd is: of the "total" or "epistemic" variance, or 1 for all ("constant").
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
    """Sets of all classes with probability >= `threshold`, which contain new labels with probability >= `level`."""

    level: float
    threshold: float

    def __call__(self, p: ClassPredictive) -> np.ndarray:
        """Returns, (examples, classes), which classes are in the set; it may be empty where no class is probable."""
        require_kind("ConformalSets", p, ClassPredictive)
        return p.mean >= self.threshold


def conformal_intervals(p: ValuePredictive, y=None, level: float = 0.9, variance: str = "total") -> ConformalIntervals:
    """Returns intervals of the held-out predictions `p` of `y`; call them on other predictions of the model.

    The quantile is the ⌈(n + 1) level⌉-th smallest of |y − mean|/sd over the n held-out examples, of each output.

    Args:
        y: None takes `p.targets`, those of the data that were predicted.
        variance: what widens an interval: the "total" variance, which needs the noise, the "epistemic" one, or nothing
            ("constant": one width for all).

    >>> p = ValuePredictive(np.zeros((9, 1)), np.ones((9, 1)), 10)
    >>> intervals = conformal_intervals(p, np.arange(9.0)[:, None] - 4, level=0.5, variance="epistemic")
    >>> intervals.quantile
    array([2.])
    """
    scale = _scale("conformal_intervals", p, variance)
    _, targets = aligned("conformal_intervals", mean=p.mean, targets=targets_of("conformal_intervals", p, y))
    targets = targets.reshape(p.mean.shape)
    rank = _rank("conformal_intervals", len(targets), level)
    scores = np.abs(targets - p.mean) / scale
    return ConformalIntervals(level, np.partition(scores, rank - 1, axis=0)[rank - 1], variance)


def conformal_sets(p: ClassPredictive, y=None, level: float = 0.9) -> ConformalSets:
    """Returns sets of classes from the held-out predictions `p` of `y`; call them on other predictions of the model.

    The threshold is the ⌈(n + 1) level⌉-th largest probability of a label among the n held-out examples; `y=None` takes
    `p.targets`.

    >>> p = ClassPredictive(np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]), np.zeros((4, 2)), 1)
    >>> sets = conformal_sets(p, [0, 0, 1, 1], level=0.8)
    >>> sets.threshold, sets(p)[0], sets(p)[3]
    (0.4, array([ True, False]), array([ True,  True]))
    """
    require_kind("conformal_sets", p, ClassPredictive)
    probabilities, labels = labelled("conformal_sets", p.mean, targets_of("conformal_sets", p, y))
    rank = _rank("conformal_sets", len(labels), level)
    chosen = np.sort(probabilities[np.arange(len(labels)), labels])[::-1]
    return ConformalSets(level, float(chosen[rank - 1]))


def _rank(name: str, examples: int, level: float) -> int:
    """Returns ⌈(n + 1) level⌉: a new score is among so many smallest of n + 1 with probability >= level."""
    if not 0 < level < 1:
        raise ValueError(f"{name} needs 0 < level < 1; got level={level!r}.")
    rank = math.ceil((examples + 1) * level - 1e-9)  # 100 · 0.07 is above 7
    if rank > examples:
        needed = math.ceil(level / (1 - level) - 1e-9)
        raise ValueError(
            f"{name} needs at least {needed} held-out examples for level={level}: with fewer only an unbounded "
            f"interval or set keeps the promise; got {examples}."
        )
    return rank


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
