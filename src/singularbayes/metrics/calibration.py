"""Whether stated confidence is the accuracy. Errors are better when lower.

`probabilities` and `labels` are as in `scoring`. Confidence is the probability of the predicted class. Bins are
"equal_mass", which hold equally many examples, or "equal_width", ((b − 1)/B, b/B]. `sample_weight` is how much each
example counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from singularbayes.checks import labelled, require_integer, weights_of

SCHEMES = ("equal_mass", "equal_width")


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

    >>> curve = reliability_curve(np.array([[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [1.0, 0.0]]), np.array([1, 0, 0, 0]), 2)
    >>> curve.confidence, curve.accuracy
    (array([0.65, 0.9 ]), array([0.5, 1. ]))
    """
    return _curve("reliability_curve", probabilities, labels, bins, scheme, sample_weight)


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
    return _curve("expected_calibration_error", probabilities, labels, bins, scheme, sample_weight).error


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
        f"{scheme}_{b}": _curve("calibration_errors", probabilities, labels, b, scheme, sample_weight).error
        for scheme in SCHEMES
        for b in bins
    }


def optimistic_configuration(errors: Mapping[str, Mapping[str, float]]) -> str:
    """Returns the configuration with the least mean error over models: the paper's search, which chooses on test data.

    It makes every model look better calibrated than it is. Report `calibration_errors` whole instead.

    Args:
        errors: what `calibration_errors` returned, by model.

    >>> optimistic_configuration({"one": {"equal_mass_15": 0.03, "equal_width_10": 0.02}})
    'equal_width_10'
    """
    configurations = [set(found) for found in errors.values()]
    if not configurations or not configurations[0] or any(found != configurations[0] for found in configurations):
        raise ValueError(
            "optimistic_configuration needs the same configurations of every model, at least one; got "
            f"{ {model: sorted(found) for model, found in errors.items()} }."
        )
    if not all(np.isfinite(error) for found in errors.values() for error in found.values()):
        raise ValueError(f"optimistic_configuration needs finite errors; got {errors}.")
    first = next(iter(errors.values()))
    return min(first, key=lambda name: float(np.mean([found[name] for found in errors.values()])))


def _curve(
    name: str, probabilities: np.ndarray, labels: np.ndarray, bins: int, scheme: str, sample_weight
) -> ReliabilityCurve:
    p, y = labelled(name, probabilities, labels)
    require_integer(name, bins=bins)
    if scheme not in SCHEMES:
        raise ValueError(f"{name} needs scheme to be one of {list(SCHEMES)}; got scheme={scheme!r}.")
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == y
    given = weights_of(name, sample_weight, len(y))
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
