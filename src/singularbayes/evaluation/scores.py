"""Every metric that makes sense for a set of predictions. A score is a number, or the reason why there is none."""

from collections.abc import Callable

import numpy as np

from singularbayes import metrics
from singularbayes.checks import aligned, labelled
from singularbayes.likelihoods import DETERMINISTIC, require_kind, targets_of
from singularbayes.metrics import INTERVAL_LEVEL, RETAINED_SHARE, VARIANCE_SCORES, SelectiveCurve, selective_curve
from singularbayes.prediction import ClassPredictive, Predictive, ValuePredictive

Scores = dict[str, float | str]

_NO_SPREAD = "a prediction has no spread"
_NO_SPREADS = "no prediction has a spread"
_NO_DRAWS = "the draws were not kept; pass keep_draws=True"


def class_scores(p: ClassPredictive, y) -> Scores:
    """Returns the scores of a classification."""
    probabilities, labels = labelled("evaluate", p.mean, y)
    wrong = probabilities.argmax(axis=1) != labels
    every_class = len(np.unique(labels)) == probabilities.shape[1]
    found: Scores = {
        "accuracy": metrics.accuracy(probabilities, labels),
        "auroc": metrics.auroc(probabilities, labels) if every_class else "a class has no test example",
        "nll": metrics.negative_log_likelihood(probabilities, labels),
        "brier": metrics.brier(probabilities, labels),
        "ece": metrics.expected_calibration_error(probabilities, labels),
    }
    found |= {f"ece_{name}": value for name, value in metrics.calibration_errors(probabilities, labels).items()}
    both = 0 < wrong.sum() < len(wrong)
    for by, uncertainty in p.uncertainties().items():
        if isinstance(uncertainty, str):
            found |= dict.fromkeys((f"mean_{by}", *_names(_ERRORS, by), *_names(_SELECTIVE, by)), uncertainty)
            continue
        found[f"mean_{by}"] = float(uncertainty.mean())
        found |= {
            f"{name}_{by}": score(uncertainty, wrong) if both else "predictions are all right, or all wrong"
            for name, score in _ERRORS.items()
        }
        found |= _selective(uncertainty, wrong, by)
    return found


def regression_scores(p: ValuePredictive, y, rng: np.random.Generator) -> Scores:
    """Returns the scores of a regression; those of a spread once for the epistemic and once for the total variance.

    Args:
        rng: where the noise comes from that `crps_sample_total` adds to the draws.
    """
    mean, targets = aligned("evaluate", mean=p.mean, targets=y)
    flat = targets.reshape(len(targets), -1)
    found: Scores = {
        "mae": metrics.mean_absolute_error(mean, targets),
        "rmse": metrics.root_mean_square_error(mean, targets),
        "r2": "the targets are all one" if (flat == flat[0]).all(axis=0).any() else metrics.r_squared(mean, targets),
    }
    for kind in ("epistemic", "aleatoric", "total"):
        found[f"variance_{kind}"] = p.why_no_variance(kind) or float(p.variance(kind).mean())
    for kind in ("epistemic", "total"):
        found |= {f"{name}_{kind}": score for name, score in _of_variance(p, targets, kind, rng).items()}
    errors = np.abs(mean - targets).reshape(len(targets), -1).mean(axis=1)
    for by, uncertainty in p.uncertainties().items():
        if isinstance(uncertainty, str):
            found |= dict.fromkeys(_names(_SELECTIVE, by), uncertainty)
        else:
            found |= _selective(uncertainty, errors, by)
    return found


def ood_detection_scores(p: Predictive, ood: Predictive) -> Scores:
    """Returns how well each uncertainty tells out-of-distribution examples from in-distribution ones."""
    inside, outside = p.uncertainties(), ood.uncertainties()
    found: Scores = {}
    for by, within in inside.items():
        beyond = outside[by]
        if isinstance(within, str):
            found |= dict.fromkeys(_names(_DETECTION, by), within)
        elif isinstance(beyond, str):
            found |= dict.fromkeys(_names(_DETECTION, by), beyond)
        else:
            found |= {f"{name}_{by}": value for name, value in metrics.ood_scores(within, beyond).items()}
    return found | (_mi_ratio(inside["mi"], outside["mi"]) if "mi" in inside else _iqr(p, ood))


def selective(p: Predictive, y=None, by: str | None = None) -> SelectiveCurve:
    """Returns the risk of keeping only the most certain predictions, with the thresholds to deploy.

    The risk of a classification is the error rate, of a regression the mean absolute error (over outputs too). The
    curve's `for_error(0.01)` and `for_coverage(0.8)` give the threshold: keep what has `uncertainty <= threshold`.

    Args:
        y: None takes `p.targets`, those of the data that were predicted.
        by: the uncertainty: of a classification "entropy" (default), "mi" or "std", the last two over draws; of a
            regression the "total" (default) or "epistemic" standard deviation.

    >>> import singularbayes as sb
    >>> p = sb.ClassPredictive(np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.5, 0.5]]), np.zeros((4, 2)), 1)
    >>> curve = selective(p, [0, 1, 0, 1])
    >>> curve.for_error(0.0)
    OperatingPoint(keep uncertainty <= 0.673012: 75.0 % kept, risk 0)
    """
    require_kind("selective", p, Predictive)
    found = p.uncertainties()
    chosen = ("entropy" if p.task == "classification" else "total") if by is None else by
    if chosen not in found:
        raise ValueError(f"selective needs by= to be one of {list(found)} for {type(p).__name__}; got by={by!r}.")
    uncertainty = found[chosen]
    if isinstance(uncertainty, str):
        raise ValueError(f"selective has no uncertainty by={chosen!r}: {uncertainty}. Others are {_others(found)}.")
    return selective_curve(uncertainty, _losses(p, targets_of("selective", p, y)))


def _losses(p: Predictive, y) -> np.ndarray:
    if p.task == "classification":
        probabilities, labels = labelled("selective", p.mean, y)
        return probabilities.argmax(axis=1) != labels
    mean, targets = aligned("selective", mean=p.mean, targets=y)
    return np.abs(mean - targets).reshape(len(targets), -1).mean(axis=1)


def _others(found) -> list[str]:
    return [name for name, uncertainty in found.items() if not isinstance(uncertainty, str)]


def _of_variance(p: ValuePredictive, targets: np.ndarray, kind: str, rng: np.random.Generator) -> Scores:
    lacking = p.why_no_variance(kind)
    if lacking is None and not p.variance(kind).any():
        lacking = _NO_SPREADS  # an interval without width would be the narrowest
    if lacking is not None:
        return dict.fromkeys(_SPREAD_SCORES, lacking)
    std = np.sqrt(p.variance(kind))
    lower, upper = p.interval(INTERVAL_LEVEL, variance=kind)
    spread = std.min() > 0

    def if_spread(score: Callable[..., float]) -> float | str:
        return score(p.mean, std, targets) if spread else _NO_SPREAD

    draws = p.draws
    if draws is not None and kind == "total":
        draws = draws + np.sqrt(p.variance("aleatoric")) * rng.standard_normal(draws.shape)
    return {
        "nll": if_spread(metrics.gaussian_nll),
        "crps": metrics.crps_gaussian(p.mean, std, targets),
        "crps_sample": _NO_DRAWS if draws is None else metrics.crps_sample(draws, targets),
        "picp_95": metrics.interval_coverage(lower, upper, targets),
        "mpiw_95": metrics.interval_width(lower, upper),
        "interval_score_95": metrics.interval_score(lower, upper, targets, INTERVAL_LEVEL),
        "calibration_error": if_spread(metrics.interval_calibration_error),
        "calibration_area": if_spread(metrics.interval_calibration_area),
    }


_SPREAD_SCORES = tuple(name for name, *_ in VARIANCE_SCORES)
_ERRORS = {"aupr_err": metrics.aupr_err, "aupr_succ": metrics.aupr_succ}
_SELECTIVE = ("aurc", "risk_at_80")
_DETECTION = ("auroc_ood", "aupr_ood", "aupr_in", "fpr_at_95_tpr", "tpr_at_5_fpr")


def _names(names, by: str) -> list[str]:
    return [f"{name}_{by}" for name in names]


def _selective(uncertainty: np.ndarray, losses: np.ndarray, by: str) -> Scores:
    curve = selective_curve(uncertainty, losses)
    return {f"aurc_{by}": curve.area, f"risk_at_80_{by}": float(curve.at(RETAINED_SHARE))}


def _mi_ratio(inside: np.ndarray | str, outside: np.ndarray | str) -> Scores:
    if isinstance(inside, str):
        return {"mi_ratio": inside}
    if isinstance(outside, str):
        return {"mi_ratio": outside}
    ratio = metrics.mi_ratio(inside, outside)
    return {"mi_ratio": "there is no mutual information" if np.isnan(ratio) else ratio}


def _iqr(p, ood) -> Scores:
    names = ("iqr_inside", "iqr_outside", "iqr_ratio")
    if p.num_draws == 1 or ood.num_draws == 1:
        return dict.fromkeys(names, DETERMINISTIC)
    if p.draws is None or ood.draws is None:
        return dict.fromkeys(names, _NO_DRAWS)
    widths = (metrics.epistemic_iqr(part.draws).reshape(len(part), -1).mean(axis=1) for part in (p, ood))
    found = metrics.iqr_scores(*widths)
    return {name: "the band has no width" if np.isnan(value) else value for name, value in found.items()}
