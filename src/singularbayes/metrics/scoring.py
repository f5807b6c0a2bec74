"""How good predictions are. `accuracy` is better when higher, every other score when lower.

`probabilities` are (examples, classes), averaged over draws; `labels` are whole numbers from 0. Logarithms are natural.
"""

import numpy as np


def accuracy(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the share of examples whose most probable class is the label; of a tie the first class counts."""
    _require_classes("accuracy", probabilities, labels)
    return float((probabilities.argmax(axis=1) == labels).mean())


def negative_log_likelihood(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean of −log p(label), in nats; infinite where a label was called impossible."""
    _require_classes("negative_log_likelihood", probabilities, labels)
    with np.errstate(divide="ignore"):
        return float(-np.log(probabilities[np.arange(len(labels)), labels]).mean())


def brier(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Returns the mean of Σ_c (p_c − [c = label])²: the sum over classes, from 0 to 2."""
    _require_classes("brier", probabilities, labels)
    return float(((probabilities - np.eye(probabilities.shape[1])[labels]) ** 2).sum(axis=1).mean())


def expected_calibration_error(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Returns the mean gap between confidence and accuracy over bins that hold equally many examples.

    ECE = Σ_b n_b/n · |accuracy_b − confidence_b|, bins over the sorted probability of the predicted class.
    """
    _require_classes("expected_calibration_error", probabilities, labels)
    if bins < 1:
        raise ValueError(f"expected_calibration_error needs bins >= 1; got bins={bins!r}.")
    confidence = probabilities.max(axis=1)
    correct = probabilities.argmax(axis=1) == labels
    # Equal confidences share their mean accuracy, so that a bin's edge among them does not depend on their order.
    _, group, size = np.unique(confidence, return_inverse=True, return_counts=True)
    gaps = (np.bincount(group, correct) / size)[group] - confidence
    return float(sum(abs(part.sum()) for part in np.array_split(gaps[np.argsort(confidence)], bins)) / len(labels))


def root_mean_square_error(predictions: np.ndarray, targets: np.ndarray) -> float:
    """Returns √mean (prediction − target)²."""
    if predictions.shape != targets.shape:
        raise ValueError(
            f"root_mean_square_error needs predictions and targets of one shape; got {predictions.shape} and "
            f"{targets.shape}."
        )
    return float(np.sqrt(((predictions - targets) ** 2).mean()))


def _require_classes(name: str, probabilities: np.ndarray, labels: np.ndarray) -> None:
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[:1] or not len(labels):
        raise ValueError(
            f"{name} needs probabilities of shape (examples, classes) and one label an example; got shapes "
            f"{probabilities.shape} and {labels.shape}."
        )
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= probabilities.shape[1]:
        raise ValueError(
            f"{name} needs labels that are whole numbers from 0 to {probabilities.shape[1] - 1}; got {labels.dtype} "
            f"from {labels.min()} to {labels.max()}."
        )
