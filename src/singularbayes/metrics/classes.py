"""How good predicted classes are, and whether stated confidence is the accuracy.

`accuracy` and `auroc` are better when higher, the others when lower. `probabilities` are (examples, classes), averaged
over draws: two columns for two classes, as `predict` returns them. `labels` are integers from 0, (examples,) or
(examples, 1). Logarithms are natural. Confidence is the probability of the predicted class. `sample_weight` is how much
each example counts; doubling all of them changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from singularbayes.checks import labelled, require_choice, require_integer, weighted_mean, weights_of

SCHEMES = ("equal_mass", "equal_width")


def accuracy(probabilities: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the share of examples whose most probable class is the label; of a tie the first class counts.

    >>> accuracy(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]))
    0.5
    """
    p, y = labelled("accuracy", probabilities, labels)
    return weighted_mean("accuracy", p.argmax(axis=1) == y, sample_weight)


def auroc(probabilities: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the chance that an example of a class gets more probability for it than another: 1 perfect, ½ blind.

    Ties count half. With more than two classes it is the mean over classes, each against the rest.

    >>> auroc(np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]]), np.array([0, 0, 1, 1]))
    0.75
    """
    from sklearn.metrics import roc_auc_score

    p, y = labelled("auroc", probabilities, labels)
    classes = p.shape[1]
    missing = sorted(set(range(classes)) - set(y.tolist()))
    if missing:
        raise ValueError(f"auroc needs examples of each of the {classes} classes; got none with label {missing}.")
    columns = [1] if classes == 2 else range(classes)
    weights = weights_of("auroc", sample_weight, len(y))
    return float(np.mean([roc_auc_score(y == c, p[:, c], sample_weight=weights) for c in columns]))


def label_nll(probabilities: np.ndarray, labels: np.ndarray, floor: float = 1e-300) -> np.ndarray:
    """Returns −log p(label) of every example, (examples,), in nats; a smaller probability counts as `floor`.

    Arrays are not checked: `checks.labelled` returns those that are fit.

    >>> label_nll(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0])).round(4).tolist()
    [0.1054, 0.9163]
    """
    chosen = np.asarray(probabilities, "float64")[np.arange(len(labels)), labels]
    return -np.log(np.maximum(chosen, floor))


def negative_log_likelihood(
    probabilities: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None = None
) -> float:
    """Returns the mean of −log p(label), in nats; infinite where a label was called impossible.

    >>> round(negative_log_likelihood(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0])), 4)  # −log 0.9 and −log 0.4
    0.5108
    """
    p, y = labelled("negative_log_likelihood", probabilities, labels)
    with np.errstate(divide="ignore"):
        return weighted_mean("negative_log_likelihood", label_nll(p, y, floor=0.0), sample_weight)


def brier(probabilities: np.ndarray, labels: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the mean of Σ_c (p_c − [c = label])²: the sum over classes, from 0 to 2.

    >>> round(brier(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0])), 2)  # (0.02 + 0.72) / 2
    0.37
    """
    p, y = labelled("brier", probabilities, labels)
    return weighted_mean("brier", ((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1), sample_weight)


@dataclass(frozen=True)
class ReliabilityCurve:
    """Mean confidence, accuracy and share of the examples of every bin that holds any, least confident first.

    >>> curve = reliability_curve(np.array([[0.9, 0.1], [0.6, 0.4], [0.8, 0.2]]), np.array([0, 1, 0]), bins=3)
    >>> curve.confidence, curve.accuracy
    (array([0.6, 0.8, 0.9]), array([0., 1., 1.]))
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    share: np.ndarray

    @property
    def error(self) -> float:
        """Σ_b share_b · |accuracy_b − confidence_b|, the expected calibration error of these bins."""
        return float((self.share * np.abs(self.accuracy - self.confidence)).sum())


def reliability_curve(
    probabilities: np.ndarray,
    labels: np.ndarray,
    bins: int = 15,
    scheme: str = "equal_mass",
    sample_weight: np.ndarray | None = None,
) -> ReliabilityCurve:
    """Returns accuracy against confidence, one point per bin.

    Args:
        scheme: "equal_mass", bins that hold equally many examples, or "equal_width", ((b − 1)/B, b/B].

    >>> curve = reliability_curve(np.array([[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [1.0, 0.0]]), np.array([1, 0, 0, 0]), 2)
    >>> curve.confidence, curve.accuracy
    (array([0.65, 0.9 ]), array([0.5, 1. ]))
    """
    p, y = labelled("reliability_curve", probabilities, labels)
    require_integer("reliability_curve", bins=bins)
    require_choice("reliability_curve", SCHEMES, scheme=scheme)
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == y
    given = weights_of("reliability_curve", sample_weight, len(y))
    weights = np.ones(len(y)) if given is None else given
    # Equal confidences share their mean accuracy, so that a bin's edge among them does not depend on their order.
    _, group = np.unique(confidence, return_inverse=True)
    total = np.bincount(group, weights)
    shared = (np.bincount(group, weights * correct) / np.where(total > 0, total, 1))[group]
    order = np.argsort(confidence)
    if scheme == "equal_width":
        cuts = np.searchsorted(confidence[order], np.arange(1, bins) / bins, side="right")
        parts = np.split(order, cuts)
    elif given is None:
        parts = np.array_split(order, bins)
    else:  # an example is in the bin of the middle of its weight
        middle = weights[order].cumsum() - weights[order] / 2
        parts = np.split(order, np.searchsorted(middle, weights.sum() * np.arange(1, bins) / bins))
    parts = [part for part in parts if weights[part].any()]
    return ReliabilityCurve(
        confidence=np.array([np.average(confidence[part], weights=weights[part]) for part in parts]),
        accuracy=np.array([np.average(shared[part], weights=weights[part]) for part in parts]),
        share=np.array([weights[part].sum() / weights.sum() for part in parts]),
    )


def expected_calibration_error(
    probabilities: np.ndarray,
    labels: np.ndarray,
    bins: int = 15,
    scheme: str = "equal_mass",
    sample_weight: np.ndarray | None = None,
) -> float:
    """Returns the mean gap between confidence and accuracy: ECE = Σ_b n_b/n · |accuracy_b − confidence_b|.

    >>> round(
    ...     expected_calibration_error(np.array([[0.9, 0.1], [0.4, 0.6]]), np.array([0, 0]), bins=1), 2
    ... )  # confidence 0.75, accuracy 0.5
    0.25
    """
    return reliability_curve(probabilities, labels, bins, scheme, sample_weight).error


def calibration_errors(
    probabilities: np.ndarray,
    labels: np.ndarray,
    bins: Sequence[int] = (10, 15, 20),
    sample_weight: np.ndarray | None = None,
) -> dict[str, float]:
    """Returns the expected calibration error of both schemes at every number of bins.

    >>> sorted(calibration_errors(np.array([[0.6, 0.4]]), np.array([0]), bins=(5, 10)))
    ['equal_mass_10', 'equal_mass_5', 'equal_width_10', 'equal_width_5']
    """
    return {
        f"{scheme}_{b}": expected_calibration_error(probabilities, labels, b, scheme, sample_weight)
        for scheme in SCHEMES
        for b in bins
    }
