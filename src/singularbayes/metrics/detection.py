"""How well an uncertainty tells foreign inputs from known ones, and wrong answers from right ones.

`inside` and `outside` are the uncertainties of known and of foreign examples: the larger, the more foreign. Areas are
of the ROC curve, where ties count half, or average precision. Higher is better, except for `fpr_at_tpr`.
"""

import numpy as np

from singularbayes.checks import one_per_example


def ood_scores(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """Returns every score of this uncertainty as a detector of foreign examples, by name.

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
    """Returns the chance that a foreign example is more uncertain than a known one: 1 is perfect, ½ is blind.

    >>> auroc_ood(np.array([0.1, 0.2]), np.array([0.15, 0.9]))
    0.75
    """
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(*_foreign("auroc_ood", inside, outside)))


def aupr_ood(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns the average precision with foreign as the positive class; a blind score gets the share of foreign ones.

    >>> aupr_ood(np.zeros(3), np.zeros(1))
    0.25
    """
    return _precision(*_foreign("aupr_ood", inside, outside))


def aupr_in(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns the average precision with known as the positive class, the most certain first."""
    foreign, uncertainty = _foreign("aupr_in", inside, outside)
    return _precision(1 - foreign, -uncertainty)


def fpr_at_tpr(inside: np.ndarray, outside: np.ndarray, tpr: float = 0.95) -> float:
    """Returns the least share of known examples that is flagged when at least `tpr` of the foreign ones are."""
    _require_rate("fpr_at_tpr", "tpr", tpr)
    false, true = _rates(*_foreign("fpr_at_tpr", inside, outside))
    return float(false[true >= tpr].min())


def tpr_at_fpr(inside: np.ndarray, outside: np.ndarray, fpr: float = 0.05) -> float:
    """Returns the largest share of foreign examples that is flagged when at most `fpr` of the known ones are."""
    _require_rate("tpr_at_fpr", "fpr", fpr)
    false, true = _rates(*_foreign("tpr_at_fpr", inside, outside))
    return float(true[false <= fpr].max())


def aupr_err(uncertainty: np.ndarray, wrong: np.ndarray) -> float:
    """Returns the average precision with wrong answers as the positive class, the most uncertain first.

    A blind uncertainty gets the share of wrong answers, so it compares only models with the same accuracy.

    >>> round(aupr_err(np.array([0.1, 0.7, 0.5]), np.array([False, True, True])), 3)
    1.0
    """
    uncertainty, errors = _answers("aupr_err", uncertainty, wrong)
    return _precision(errors, uncertainty)


def aupr_succ(uncertainty: np.ndarray, wrong: np.ndarray) -> float:
    """Returns the average precision with right answers as the positive class, the most certain first."""
    uncertainty, errors = _answers("aupr_succ", uncertainty, wrong)
    return _precision(~errors, -uncertainty)


def _foreign(name: str, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    (known,), (strange,) = one_per_example(name, inside=inside), one_per_example(name, outside=outside)
    foreign = np.concatenate([np.zeros(len(known), int), np.ones(len(strange), int)])
    return foreign, np.concatenate([known, strange])


def _answers(name: str, uncertainty: np.ndarray, wrong: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    uncertainty, errors = one_per_example(name, uncertainty=uncertainty, wrong=wrong)
    if not np.isin(errors, (0, 1)).all() or errors.min() == errors.max():
        raise ValueError(
            f"{name} needs wrong to be 0 or 1 an example, and examples of both; got {np.unique(errors)[:5].tolist()}."
        )
    return uncertainty, errors == 1


# scikit-learn is imported where it is used: to import this library takes less time without it.


def _precision(positive: np.ndarray, score: np.ndarray) -> float:
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(positive, score))


def _rates(positive: np.ndarray, score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rates of false and of true alarms at every threshold."""
    from sklearn.metrics import roc_curve

    return roc_curve(positive, score, drop_intermediate=False)[:2]


def _require_rate(name: str, what: str, rate: float) -> None:
    if not 0 < rate < 1:
        raise ValueError(f"{name} needs 0 < {what} < 1; got {what}={rate!r}.")
