"""How good predicted classes are. `accuracy` and `auroc` are better when higher, the others when lower.

`probabilities` are (examples, classes), averaged over draws: two columns for two classes, as `predict` returns them.
`labels` are integers from 0, (examples,) or (examples, 1). Logarithms are natural.
`sample_weight` is how much each example counts; doubling all of them changes nothing.
"""

import numpy as np

from singularbayes.checks import labelled, weighted_mean, weights_of


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
