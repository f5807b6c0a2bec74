"""Uncertainties of a deterministic network, for comparison: from its logits, its probabilities or its features.

Each is one number per example, larger for an example that looks less like the training set; `auroc_ood` and the other
scores of `detection.py` take them.
"""

import numpy as np
from scipy import special

from singularbayes.checks import class_probabilities


def least_confidence(probabilities: np.ndarray) -> np.ndarray:
    """Returns 1 − max p of every example, (examples,), from probabilities (examples, classes): the max-softmax score.

    >>> least_confidence(np.array([[0.9, 0.1], [0.5, 0.5]])).round(3).tolist()
    [0.1, 0.5]
    """
    return 1.0 - class_probabilities("least_confidence", probabilities).max(axis=1)


def energy_score(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """Returns the energy −T ln Σ exp(logit / T) of every example, (examples,), from logits (examples, classes).

    Unlike the max-softmax score it changes when all logits of an example grow by the same number.

    >>> energy_score(np.array([[0.0, 0.0], [5.0, 0.0]])).round(3).tolist()
    [-0.693, -5.007]
    """
    if not temperature > 0:
        raise ValueError(f"energy_score needs temperature > 0; got {temperature!r}.")
    return -temperature * special.logsumexp(_matrix("energy_score", "logits", logits) / temperature, axis=1)


class MahalanobisDistance:
    """The distance of features to the nearest class: one mean per class, and the covariance that all classes share.

    Directions in which the features do not vary within classes are left out (pseudo-inverse).

    Args:
        features: of training examples, (examples, features), for example the outputs of the last hidden layer.
        labels: their classes, (examples,).

    >>> features = np.array([[0.0, -1.0], [0.0, 1.0], [9.0, -1.0], [9.0, 1.0]])
    >>> distance = MahalanobisDistance(features, np.array([0, 0, 1, 1]))
    >>> distance(np.array([[0.0, 3.0], [9.0, 0.0]])).round(3).tolist()
    [3.0, 0.0]
    """

    def __init__(self, features: np.ndarray, labels: np.ndarray):
        features, labels = _matrix("MahalanobisDistance", "features", features), np.asarray(labels)
        if labels.shape != (len(features),):
            raise ValueError(
                f"MahalanobisDistance needs one label per example, ({len(features)},); got shape {labels.shape}."
            )
        classes, places = np.unique(labels, return_inverse=True)
        self.means = np.stack([features[places == i].mean(axis=0) for i in range(len(classes))])
        within = features - self.means[places]
        values, vectors = np.linalg.eigh(within.T @ within / len(features))
        kept = values > values[-1] * len(values) * np.finfo("float64").eps
        self.whitening = vectors[:, kept] / np.sqrt(values[kept])  # (features, kept)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Returns the distance of every example to the nearest class mean, (examples,)."""
        features = _matrix("MahalanobisDistance", "features", features)
        if features.shape[1] != self.means.shape[1]:
            raise ValueError(
                f"MahalanobisDistance needs {self.means.shape[1]} features, as those it was made with; got shape "
                f"{features.shape}."
            )
        white, means = features @ self.whitening, self.means @ self.whitening
        return np.min([np.linalg.norm(white - mean, axis=1) for mean in means], axis=0)


def _matrix(name: str, what: str, array: np.ndarray) -> np.ndarray:
    found = np.asarray(array, "float64")
    if found.ndim != 2 or not found.size or not np.isfinite(found).all():
        raise ValueError(f"{name} needs {what} of shape (examples, …), all finite; got shape {found.shape}.")
    return found
