"""Every metric that makes sense for a set of predictions. A score is a number, or the reason why there is none."""

from collections.abc import Callable

import numpy as np

from singularbayes import metrics
from singularbayes.checks import aligned, labelled, weighted_mean
from singularbayes.likelihoods import (
    DETERMINISTIC,
    LabelPredictive,
    by_position,
    position_weights,
    require_kind,
    targets_of,
)
from singularbayes.metrics.catalogue import INTERVAL_LEVEL, RETAINED_SHARE, VARIANCE_SCORES
from singularbayes.prediction import ClassPredictive, Predictive, ValuePredictive

Scores = dict[str, float | str]

_NO_SPREAD = "a prediction has no spread"
_NO_SPREADS = "no prediction has a spread"
_NO_DRAWS = "the draws were not kept; pass keep_draws=True"


def class_scores(p: ClassPredictive, y, weights: np.ndarray | None = None) -> Scores:
    """Returns the scores of a classification with one row per prediction."""
    probabilities, labels = labelled("evaluate", p.mean, y)
    wrong = probabilities.argmax(axis=1) != labels
    every_class = len(np.unique(labels)) == probabilities.shape[1]
    found: Scores = {
        "accuracy": metrics.accuracy(probabilities, labels, weights),
        "auroc": metrics.auroc(probabilities, labels, weights) if every_class else "a class has no test example",
        "nll": metrics.negative_log_likelihood(probabilities, labels, weights),
        "brier": metrics.brier(probabilities, labels, weights),
        "ece": metrics.expected_calibration_error(probabilities, labels, sample_weight=weights),
    }
    errors = metrics.calibration_errors(probabilities, labels, sample_weight=weights)
    found |= {f"ece_{name}": value for name, value in errors.items()}
    both = 0 < wrong.sum() < len(wrong)
    for by, uncertainty in p.uncertainties().items():
        if isinstance(uncertainty, str):
            found |= dict.fromkeys((f"mean_{by}", *_names(_ERRORS, by), *_names(_SELECTIVE, by)), uncertainty)
            continue
        found[f"mean_{by}"] = weighted_mean("evaluate", uncertainty, weights)
        found |= {
            f"{name}_{by}": score(uncertainty, wrong, weights) if both else "predictions are all right, or all wrong"
            for name, score in _ERRORS.items()
        }
        found |= _selective(uncertainty, wrong, by, weights)
    return found


def label_scores(p: LabelPredictive, y, weights) -> Scores:
    """Returns the share of examples whose labels are all right, and the scores of every label on its own.

    Those of label k are called "label k/score".
    """
    labels = np.asarray(y)
    counted = np.ones(p.mean.shape, bool) if weights is None else np.asarray(weights) > 0
    counted = counted.reshape(counted.shape + (1,) * (p.mean.ndim - counted.ndim))
    right = ((p.predicted_labels == labels) | ~counted).all(axis=-1)
    found: Scores = {"subset_accuracy": float(right[np.broadcast_to(counted, p.mean.shape).any(axis=-1)].mean())}
    for k in range(p.mean.shape[-1]):
        own = None if weights is None else np.broadcast_to(_expanded(weights, p.mean.ndim), p.mean.shape)[..., k]
        if own is not None and not own.any():
            found |= {f"label {k}/{name}": "the label has no test example" for name in _OF_LABELS}
            continue
        scores = class_scores(*by_position("evaluate", p.label(k), labels[..., k], own))
        found |= {f"label {k}/{name}": scores[name] for name in _OF_LABELS}
    return found


def _expanded(weights, axes: int) -> np.ndarray:
    array = np.asarray(weights, "float64")
    return array.reshape(array.shape + (1,) * (axes - array.ndim))


def regression_scores(p: ValuePredictive, y, rng: np.random.Generator, weights: np.ndarray | None = None) -> Scores:
    """Returns the scores of a regression; those of a spread once for the epistemic and once for the total variance.

    Args:
        rng: where the noise comes from that `crps_sample_total` adds to the draws.
    """
    mean, targets = aligned("evaluate", mean=p.mean, targets=y)
    flat = targets.reshape(len(targets), -1)
    found: Scores = {
        "mae": metrics.mean_absolute_error(mean, targets, weights),
        "rmse": metrics.root_mean_square_error(mean, targets, weights),
        "r2": "the targets are all one"
        if (flat == flat[0]).all(axis=0).any()
        else metrics.r_squared(mean, targets, weights),
    }
    for kind in ("epistemic", "aleatoric", "total"):
        found[f"variance_{kind}"] = p.why_no_variance(kind) or weighted_mean("evaluate", p.variance(kind), weights)
    for kind in ("epistemic", "total"):
        found |= {f"{name}_{kind}": score for name, score in _of_variance(p, targets, kind, rng, weights).items()}
    errors = np.abs(mean - targets).reshape(len(targets), -1).mean(axis=1)
    for by, uncertainty in p.uncertainties().items():
        if isinstance(uncertainty, str):
            found |= dict.fromkeys(_names(_SELECTIVE, by), uncertainty)
        else:
            found |= _selective(uncertainty, errors, by, weights)
    return found


def ood_detection_scores(p: Predictive, ood: Predictive) -> Scores:
    """Returns how well each uncertainty separates out-of-distribution from in-distribution examples."""
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


def selective(p: Predictive, y=None, by: str | None = None, *, sample_weight=None) -> metrics.SelectiveCurve:
    """Returns the risk of keeping only the most certain predictions, with the thresholds to deploy.

    The risk of a classification is the error rate, of a regression the mean absolute error (over outputs too). The
    curve's `for_error(0.01)` and `for_coverage(0.8)` give the threshold: keep what has `uncertainty <= threshold`.

    Args:
        y: None takes `p.targets`, those of the data that were predicted.
        by: the uncertainty: of a classification "entropy" (default), "mi" or "std", the last two over draws; of a
            regression the "total" (default) or "epistemic" standard deviation.
        sample_weight: of examples, or of positions (tokens, pixels, labels), each of which is kept or not by itself;
            a mask leaves padding out.

    >>> import singularbayes as sb
    >>> p = sb.ClassPredictive(np.array([[0.9, 0.1], [0.4, 0.6], [0.8, 0.2], [0.5, 0.5]]), np.zeros((4, 2)), 1)
    >>> curve = selective(p, [0, 1, 0, 1])
    >>> curve.for_error(0.0)
    OperatingPoint(keep uncertainty <= 0.673012: 75.0 % kept, risk 0)
    """
    require_kind("selective", p, Predictive)
    p, y, weights = by_position("selective", p, targets_of("selective", p, y), position_weights(p, sample_weight))
    found = p.uncertainties()
    chosen = ("entropy" if p.task == "classification" else "total") if by is None else by
    if chosen not in found:
        raise ValueError(f"selective needs by= to be one of {list(found)} for {type(p).__name__}; got by={by!r}.")
    uncertainty = found[chosen]
    if isinstance(uncertainty, str):
        raise ValueError(f"selective has no uncertainty by={chosen!r}: {uncertainty}. Others are {_others(found)}.")
    return metrics.selective_curve(uncertainty, _losses(p, y), weights)


def _losses(p: Predictive, y) -> np.ndarray:
    if p.task == "classification":
        probabilities, labels = labelled("selective", p.mean, y)
        return probabilities.argmax(axis=1) != labels
    mean, targets = aligned("selective", mean=p.mean, targets=y)
    return np.abs(mean - targets).reshape(len(targets), -1).mean(axis=1)


def _others(found) -> list[str]:
    return [name for name, uncertainty in found.items() if not isinstance(uncertainty, str)]


def _of_variance(p: ValuePredictive, targets: np.ndarray, kind: str, rng: np.random.Generator, weights) -> Scores:
    lacking = p.why_no_variance(kind)
    if lacking is None and not p.variance(kind).any():
        lacking = _NO_SPREADS  # an interval without width would be the narrowest
    if lacking is not None:
        return dict.fromkeys(_SPREAD_SCORES, lacking)
    std, family = np.sqrt(p.variance(kind)), p.family_of(kind)
    lower, upper = p.interval(INTERVAL_LEVEL, variance=kind)
    spread = std.min() > 0

    targets = targets.reshape(p.mean.shape)

    def if_spread(score: Callable[[], float]) -> float | str:
        return score() if spread else _NO_SPREAD

    def mean_of(values: np.ndarray) -> float:
        return weighted_mean("evaluate", values, weights)

    def calibration(name: str) -> float:
        return metrics.calibration_of_levels(family.needed_level(p.mean, std, targets), weights)[name]

    draws = p.draws
    if draws is not None and kind == "total":
        draws = family.add_noise(draws, np.sqrt(p.variance("aleatoric")), rng)
    return {
        "nll": if_spread(lambda: mean_of(family.nll(p.mean, std, targets))),
        "crps": mean_of(family.crps(p.mean, std, targets)),
        "crps_sample": _NO_DRAWS if draws is None else metrics.crps_sample(draws, targets, weights),
        "picp_95": metrics.interval_coverage(lower, upper, targets, weights),
        "mpiw_95": metrics.interval_width(lower, upper, weights),
        "interval_score_95": metrics.interval_score(lower, upper, targets, INTERVAL_LEVEL, weights),
        "calibration_error": if_spread(lambda: calibration("error")),
        "calibration_area": if_spread(lambda: calibration("area")),
    }


_OF_LABELS = ("accuracy", "auroc", "nll", "brier", "ece")
_SPREAD_SCORES = tuple(name for name, *_ in VARIANCE_SCORES)
_ERRORS = {"aupr_err": metrics.aupr_err, "aupr_succ": metrics.aupr_succ}
_SELECTIVE = ("aurc", "risk_at_80")
_DETECTION = ("auroc_ood", "aupr_ood", "aupr_in", "fpr_at_95_tpr", "tpr_at_5_fpr")


def _names(names, by: str) -> list[str]:
    return [f"{name}_{by}" for name in names]


def _selective(uncertainty: np.ndarray, losses: np.ndarray, by: str, weights: np.ndarray | None) -> Scores:
    curve = metrics.selective_curve(uncertainty, losses, weights)
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
