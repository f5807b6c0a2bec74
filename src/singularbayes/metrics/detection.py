"""How well an uncertainty detects out-of-distribution inputs and wrong predictions.

`inside` and `outside` are the uncertainties of in-distribution and out-of-distribution (OOD) examples. Areas are
of the ROC curve, where ties count half, or average precision. Higher is better, except for `fpr_at_tpr`.
"""

import numpy as np

from singularbayes.checks import one_per_example, require_share, weights_of


def ood_scores(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """Returns every score of this uncertainty as a detector of OOD examples, by name.

    >>> scores = ood_scores(np.array([0.1, 0.2, 0.3]), np.array([0.25, 0.8]))
    >>> {name: round(value, 3) for name, value in scores.items()}
    {'auroc_ood': 0.833, 'aupr_ood': 0.833, 'aupr_in': 0.917, 'fpr_at_95_tpr': 0.333, 'tpr_at_5_fpr': 0.5}
    """
    return {
        "auroc_ood": auroc_ood(inside, outside),
        "aupr_ood": aupr_ood(inside, outside),
        "aupr_in": aupr_in(inside, outside),
        "fpr_at_95_tpr": fpr_at_tpr(inside, outside, 0.95),
        "tpr_at_5_fpr": tpr_at_fpr(inside, outside, 0.05),
    }


def auroc_ood(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns the chance that an OOD example is more uncertain than an in-distribution one: 1 is perfect, ½ is blind.

    >>> auroc_ood(np.array([0.1, 0.2]), np.array([0.15, 0.9]))
    0.75
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_ood_labels("auroc_ood", inside, outside)))


def aupr_ood(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns the average precision with OOD as the positive class; a blind score gets the share of OOD examples.

    >>> aupr_ood(np.zeros(3), np.zeros(1))
    0.25
    """
    return _precision(*_ood_labels("aupr_ood", inside, outside))


def aupr_in(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns the average precision with in-distribution as the positive class, the most certain first.

    >>> round(aupr_in(np.array([0.1, 0.3]), np.array([0.2, 0.9])), 3)
    0.833
    """
    is_ood, uncertainty = _ood_labels("aupr_in", inside, outside)
    return _precision(1 - is_ood, -uncertainty)


def fpr_at_tpr(inside: np.ndarray, outside: np.ndarray, tpr: float = 0.95) -> float:
    """Returns the least share of in-distribution examples that is flagged when at least `tpr` of the OOD ones are.

    >>> fpr_at_tpr(np.array([0.1, 0.3]), np.array([0.2, 0.9]))  # both OOD examples are flagged, and one other
    0.5
    """
    require_share("fpr_at_tpr", tpr=tpr)
    false, true = _rates(*_ood_labels("fpr_at_tpr", inside, outside))
    return float(false[true >= tpr].min())


def tpr_at_fpr(inside: np.ndarray, outside: np.ndarray, fpr: float = 0.05) -> float:
    """Returns the largest share of OOD examples that is flagged when at most `fpr` of the in-distribution ones are.

    >>> tpr_at_fpr(np.array([0.1, 0.3]), np.array([0.2, 0.9]))
    0.5
    """
    require_share("tpr_at_fpr", fpr=fpr)
    false, true = _rates(*_ood_labels("tpr_at_fpr", inside, outside))
    return float(true[false <= fpr].max())


def aupr_err(uncertainty: np.ndarray, wrong: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the average precision with wrong predictions as the positive class, the most uncertain first.

    A blind uncertainty gets the share of wrong predictions, so it compares only models with the same accuracy.

    >>> round(aupr_err(np.array([0.1, 0.7, 0.5]), np.array([False, True, True])), 3)
    1.0
    """
    uncertainty, errors = _errors("aupr_err", uncertainty, wrong)
    return _precision(errors, uncertainty, weights_of("aupr_err", sample_weight, len(errors)))


def aupr_succ(uncertainty: np.ndarray, wrong: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Returns the average precision with right predictions as the positive class, the most certain first.

    >>> aupr_succ(np.array([0.1, 0.7, 0.5]), np.array([False, True, True]))
    1.0
    """
    uncertainty, errors = _errors("aupr_succ", uncertainty, wrong)
    return _precision(~errors, -uncertainty, weights_of("aupr_succ", sample_weight, len(errors)))


def _ood_labels(name: str, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (within,), (beyond,) = one_per_example(name, inside=inside), one_per_example(name, outside=outside)
    is_ood = np.concatenate([np.zeros(len(within), int), np.ones(len(beyond), int)])
    return is_ood, np.concatenate([within, beyond])


def _errors(name: str, uncertainty: np.ndarray, wrong: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    uncertainty, errors = one_per_example(name, uncertainty=uncertainty, wrong=wrong)
    if not np.isin(errors, (0, 1)).all() or errors.min() == errors.max():
        raise ValueError(
            f"{name} needs wrong to be 0 or 1 per example, and examples of both; got {np.unique(errors)[:5].tolist()}."
        )
    return uncertainty, errors == 1


# scikit-learn is imported where it is used: to import this library takes less time without it.


def _precision(positive: np.ndarray, score: np.ndarray, weights: np.ndarray | None = None) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(positive, score, sample_weight=weights))


def _rates(positive: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rates of false and of true alarms at every threshold."""
    from sklearn.metrics import roc_curve

    return roc_curve(positive, score, drop_intermediate=False)[:2]
