"""Answering only when certain, from predictions."""

import numpy as np

from singularbayes.checks import aligned, labelled
from singularbayes.likelihoods import require_kind
from singularbayes.metrics import SelectiveCurve, selective_curve
from singularbayes.prediction import Predictive


def selective(p: Predictive, y, by: str | None = None) -> SelectiveCurve:
    """Returns the risk of keeping only the most certain predictions, with the thresholds to deploy.

    Of classes the risk is the error rate, of numbers the mean absolute error (over outputs too). The curve's
    `for_error(0.01)` and `for_coverage(0.8)` give the threshold: keep what has `uncertainty <= threshold`.

    Args:
        by: the uncertainty: for classes "entropy" (default), "mi" or "std", the last two over draws; for numbers the
            "total" (default) or "epistemic" standard deviation.

    >>> import singularbayes as sb
    >>> p = sb.ClassPredictive(np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.5, 0.5]]), np.zeros((4, 2)), 1)
    >>> curve = selective(p, [0, 1, 0, 1])
    >>> curve.for_error(0.0)
    OperatingPoint(keep uncertainty <= 0.673012: 75.0 % kept, risk 0)
    """
    require_kind("selective", p, Predictive)
    known = p.uncertainties()
    chosen = ("entropy" if p.task == "classification" else "total") if by is None else by
    if chosen not in known:
        raise ValueError(f"selective needs by= to be one of {list(known)} for {type(p).__name__}; got by={by!r}.")
    uncertainty = known[chosen]
    if isinstance(uncertainty, str):
        raise ValueError(f"selective has no uncertainty by={chosen!r}: {uncertainty}. Others are {_others(known)}.")
    return selective_curve(uncertainty, _losses(p, y))


def _losses(p: Predictive, y) -> np.ndarray:
    if p.task == "classification":
        probabilities, labels = labelled("selective", p.mean, y)
        return probabilities.argmax(axis=1) != labels
    mean, targets = aligned("selective", mean=p.mean, targets=y)
    return np.abs(mean - targets).reshape(len(targets), -1).mean(axis=1)


def _others(known) -> list[str]:
    return [name for name, uncertainty in known.items() if not isinstance(uncertainty, str)]
