"""Scores of classifiers of images, from the logits of draws (draws, images, classes)."""

import numpy as np
from scipy import special

from singularbayes import metrics


def probabilities(logits: np.ndarray) -> np.ndarray:
    return special.softmax(logits.astype("float64"), axis=-1)


def quality(logits: np.ndarray, labels: np.ndarray) -> dict[str, float] | None:
    """Returns the scores of the averaged probabilities of draws; None where a logit is no number."""
    if not np.isfinite(logits).all():
        return None
    mean = np.maximum(probabilities(logits).mean(axis=0), 1e-30)
    return {
        "accuracy": metrics.accuracy(mean, labels),
        "nll": metrics.negative_log_likelihood(mean, labels),
        "brier": metrics.brier(mean, labels),
        "ece": metrics.expected_calibration_error(mean, labels),
    }


def detection(logits: np.ndarray, inside: np.ndarray) -> dict[str, float]:
    """Returns how well entropy and, of several draws, mutual information tell the images of held-out classes."""
    p = probabilities(logits)
    total = special.entr(p.mean(axis=0)).sum(axis=-1)
    found = {"auroc_entropy": metrics.auroc_ood(total[inside], total[~inside])}
    if len(p) > 1:
        shared = total - special.entr(p).sum(axis=-1).mean(axis=0)
        found["auroc_mi"] = metrics.auroc_ood(shared[inside], shared[~inside])
    return found
