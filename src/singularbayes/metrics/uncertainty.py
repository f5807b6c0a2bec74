"""How uncertain predictions are, and how well an uncertainty detects strange inputs and wrong predictions.

`draws` are what single draws of the weights predict, draws first: (draws, examples, classes) of probabilities that sum
to 1, or (draws, examples, …) of values. `inside` and `outside` are the uncertainties of in-distribution and
out-of-distribution (OOD) examples, one number each. Logarithms are natural.
"""

import math

import numpy as np
from scipy import special

from singularbayes.checks import class_probabilities, one_per_example, require_finite, require_positive, weights_of

_ROUNDING = 1e-12  # nats; what identical draws may differ by


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Returns −Σ_c p_c log p_c of every example, from 0 to log(classes): all uncertainty about the label.

    >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).round(3).tolist()
    [0.693, 0.0]
    """
    return special.entr(class_probabilities("entropy", probabilities)).sum(axis=-1)


def mutual_information(draws: np.ndarray) -> np.ndarray:
    """Returns H(mean p) − mean H(p) of every example: how far the draws disagree, from 0 to log(min(draws, classes)).

    >>> mutual_information(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]))  # log 2
    array([0.693147])
    """
    p = class_probabilities("mutual_information", draws, "draws, examples, classes")
    total, expected = special.entr(p.mean(axis=0)).sum(axis=-1), special.entr(p).sum(axis=-1).mean(axis=0)
    return np.maximum(total - expected, 0.0)


def mi_ratio(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns mean outside / mean inside of the mutual information; NaN for a deterministic model, which has none.

    A mean below 1e-12 nats is rounding and counts as 0.

    >>> mi_ratio(np.array([0.1, 0.3]), np.array([0.4, 0.8]))
    3.0
    """
    inner, outer = _uncertainties("mi_ratio", inside, outside)
    within, beyond = (mean if mean > _ROUNDING else 0.0 for mean in (float(inner.mean()), float(outer.mean())))
    return _ratio(within, beyond)


def epistemic_iqr(draws: np.ndarray) -> np.ndarray:
    """Returns the distance from the 25 % to the 75 % quantile over draws, `(examples, …)`.

    >>> epistemic_iqr(np.arange(5.0)[:, None]).tolist()
    [2.0]
    """
    values = np.asarray(draws, "float64")
    if values.ndim < 2 or not values.size:
        raise ValueError(f"epistemic_iqr needs draws of shape (draws, examples, …), not empty; got {values.shape}.")
    require_finite("epistemic_iqr", draws=values)
    lower, upper = np.quantile(values, [0.25, 0.75], axis=0)
    return upper - lower


def iqr_scores(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """Returns the median of `epistemic_iqr` inside the domain and outside, and their ratio.

    The ratio is NaN for a deterministic model, whose widths are 0.

    >>> iqr_scores(np.array([1.0, 2.0, 3.0]), np.array([3.0, 5.0]))
    {'iqr_inside': 2.0, 'iqr_outside': 4.0, 'iqr_ratio': 2.0}
    """
    within, beyond = (float(np.median(widths)) for widths in _uncertainties("iqr_scores", inside, outside))
    return {"iqr_inside": within, "iqr_outside": beyond, "iqr_ratio": _ratio(within, beyond)}


def _uncertainties(name: str, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (inner,), (outer,) = one_per_example(name, inside=inside), one_per_example(name, outside=outside)
    least = min(inner.min(), outer.min())
    if least < 0:
        raise ValueError(f"{name} needs uncertainties that are not negative; got {least:.3g}.")
    return inner, outer


def _ratio(within: float, beyond: float) -> float:
    if within == 0:
        return math.nan if beyond == 0 else math.inf
    return beyond / within


# -- detection: scikit-learn is imported where it is used, because to import this library takes less time without it ---


def auroc_ood(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns the chance that an OOD example is more uncertain than an in-distribution one: 1 is perfect, ½ is blind.

    >>> auroc_ood(np.array([0.1, 0.2]), np.array([0.15, 0.9]))
    0.75
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_ood_labels("auroc_ood", inside, outside)))


def ood_scores(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """Returns every score of this uncertainty as a detector of OOD examples, by name.

    The area under the ROC curve, where ties count half; average precision with OOD as the positive class, and with
    in-distribution; the least share of in-distribution examples that is flagged when 95 % of the OOD ones are; and the
    largest share of OOD ones when at most 5 % of the others are. All but the fourth are better when higher.

    >>> scores = ood_scores(np.array([0.1, 0.2, 0.3]), np.array([0.25, 0.8]))
    >>> {name: round(value, 3) for name, value in scores.items()}
    {'auroc_ood': 0.833, 'aupr_ood': 0.833, 'aupr_in': 0.917, 'fpr_at_95_tpr': 0.333, 'tpr_at_5_fpr': 0.5}
    """
    from sklearn.metrics import average_precision_score, roc_curve

    is_ood, uncertainty = _ood_labels("ood_scores", inside, outside)
    false, true, _ = roc_curve(is_ood, uncertainty, drop_intermediate=False)
    return {
        "auroc_ood": auroc_ood(inside, outside),
        "aupr_ood": float(average_precision_score(is_ood, uncertainty)),
        "aupr_in": float(average_precision_score(1 - is_ood, -uncertainty)),
        "fpr_at_95_tpr": float(false[true >= 0.95].min()),
        "tpr_at_5_fpr": float(true[false <= 0.05].max()),
    }


def aupr_err(uncertainty: np.ndarray, wrong: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the average precision with wrong predictions as the positive class, the most uncertain first.

    A blind uncertainty gets the share of wrong predictions, so it compares only models with the same accuracy.

    >>> round(aupr_err(np.array([0.1, 0.7, 0.5]), np.array([False, True, True])), 3)
    1.0
    """
    return _precision("aupr_err", uncertainty, wrong, sample_weight, of_errors=True)


def aupr_succ(uncertainty: np.ndarray, wrong: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the average precision with right predictions as the positive class, the most certain first.

    >>> aupr_succ(np.array([0.1, 0.7, 0.5]), np.array([False, True, True]))
    1.0
    """
    return _precision("aupr_succ", uncertainty, wrong, sample_weight, of_errors=False)


def _precision(name: str, uncertainty, wrong, sample_weight, of_errors: bool) -> float:
    from sklearn.metrics import average_precision_score

    score, errors = one_per_example(name, uncertainty=uncertainty, wrong=wrong)
    if not np.isin(errors, (0, 1)).all() or errors.min() == errors.max():
        raise ValueError(
            f"{name} needs wrong to be 0 or 1 per example, and examples of both; got {np.unique(errors)[:5].tolist()}."
        )
    weights = weights_of(name, sample_weight, len(errors))
    sign = 1 if of_errors else -1
    return float(average_precision_score(errors == of_errors, sign * score, sample_weight=weights))


def _ood_labels(name: str, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (within,), (beyond,) = one_per_example(name, inside=inside), one_per_example(name, outside=outside)
    return np.repeat([0, 1], [len(within), len(beyond)]), np.concatenate([within, beyond])


# -- uncertainties of a deterministic network, for comparison: from its probabilities, its logits or its features ------


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
    require_positive("energy_score", temperature=temperature)
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
        means = np.stack([features[places == i].mean(axis=0) for i in range(len(classes))])
        within = features - means[places]
        values, vectors = np.linalg.eigh(within.T @ within / len(features))
        kept = values > values[-1] * len(values) * np.finfo("float64").eps
        self.whitening = vectors[:, kept] / np.sqrt(values[kept])  # (features, kept)
        self.means = means @ self.whitening

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Returns the distance of every example to the nearest class mean, (examples,)."""
        features = _matrix("MahalanobisDistance", "features", features)
        if features.shape[1] != len(self.whitening):
            raise ValueError(
                f"MahalanobisDistance needs {len(self.whitening)} features, as those it was made with; got shape "
                f"{features.shape}."
            )
        white = features @ self.whitening
        return np.min([np.linalg.norm(white - mean, axis=1) for mean in self.means], axis=0)


def _matrix(name: str, what: str, array: np.ndarray) -> np.ndarray:
    found = np.asarray(array, "float64")
    if found.ndim != 2 or not found.size or not np.isfinite(found).all():
        raise ValueError(f"{name} needs {what} of shape (examples, …), all finite; got shape {found.shape}.")
    return found
