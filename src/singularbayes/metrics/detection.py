"""How well an uncertainty tells foreign inputs from known ones. Higher is better; ties count half.

`inside` and `outside` are the uncertainties of known and of foreign examples: the larger, the more foreign.
"""

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score


def auroc_ood(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns the chance that a foreign example is more uncertain than a known one: 1 is perfect, ½ is blind.

    >>> auroc_ood(np.array([0.1, 0.2]), np.array([0.15, 0.9]))
    0.75
    """
    return float(roc_auc_score(*_labelled("auroc_ood", inside, outside)))


def aupr_ood(inside: np.ndarray, outside: np.ndarray) -> float:
    """Returns the average precision with foreign as the positive class; a blind score gets the share of foreign ones.

    >>> aupr_ood(np.zeros(3), np.zeros(1))
    0.25
    """
    return float(average_precision_score(*_labelled("aupr_ood", inside, outside)))


def _labelled(name: str, inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if inside.ndim != 1 or outside.ndim != 1 or not len(inside) or not len(outside):
        raise ValueError(
            f"{name} needs one uncertainty an example, and examples of both kinds; got shapes {inside.shape} and "
            f"{outside.shape}."
        )
    foreign = np.concatenate([np.zeros(len(inside), int), np.ones(len(outside), int)])
    return foreign, np.concatenate([inside, outside])
