"""Scores of predictions, by the names that records have.

In tuning: accuracy, NLL and so on of validation examples, `proxy_ood` (the AUROC by which uncertainty tells perturbed
training inputs from them) and `without_inputs` (the NLL of a prediction that ignores the inputs). In results: those of
test examples, with "name/score" for every set of out-of-distribution inputs.
"""

import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
from scipy import optimize
from sklearn.metrics import average_precision_score

from singularbayes import metrics
from singularbayes.convert import spectrum
from singularbayes.evaluation import evaluate
from singularbayes.posteriors import find_posteriors
from singularbayes.prediction import ClassPredictive, ValuePredictive, recalibrate
from singularbayes.training import kl

BINS = (10, 15, 20, 30)
LEVEL = 0.95
PERTURBED = 2000  # training inputs that are perturbed for the proxy OOD score
RETAINED = (0.9, 0.8, 0.7)
Scores = dict[str, float]
Arrays = dict[str, np.ndarray]


def prefixed(prefix: str, scores: Mapping[str, float]) -> Scores:
    """Returns scores of one set of examples under names with that of the set."""
    return {f"{prefix}_{name}": value for name, value in scores.items()}


def finite(p) -> bool:
    """Whether predictions are numbers: training that diverged is scored by `without_inputs` alone."""
    return bool(np.isfinite(p.mean).all() and np.isfinite(p.std).all())


def histograms(values: Mapping[str, np.ndarray]) -> Arrays:
    """Returns the percentages of examples in 25 bins, the same for all sets; what is above most goes to the last."""
    most = max(float(np.quantile(np.concatenate(list(values.values())), 0.99)), 1e-3)
    bins = np.linspace(0.0, most, 26)
    found = {name: np.histogram(np.minimum(own, most), bins)[0] / len(own) for name, own in values.items()}
    return {f"histograms/{name}": np.stack([bins[:-1], 100 * shares]) for name, shares in found.items()}


# -- classes -----------------------------------------------------------------------------------------------------------


def class_quality(p: ClassPredictive, labels: np.ndarray) -> Scores:
    """Returns how good the averaged probabilities are."""
    return {
        "accuracy": metrics.accuracy(p.mean, labels),
        "nll": metrics.negative_log_likelihood(p.mean, labels),
        "brier": metrics.brier(p.mean, labels),
        "ece": metrics.expected_calibration_error(p.mean, labels),
    }


def class_frequencies(labels: np.ndarray, known: np.ndarray) -> Scores:
    """Returns the NLL of the class frequencies of the training labels `known`."""
    shares = np.bincount(known, minlength=int(known.max()) + 1) / len(known)
    nll = metrics.negative_log_likelihood(np.broadcast_to(shares, (len(labels), len(shares))), labels)
    return {"without_inputs": nll}


def class_tuning(p: ClassPredictive, labels: np.ndarray, perturbed: ClassPredictive, known: np.ndarray) -> Scores:
    """Returns what a configuration is chosen by."""
    found = class_frequencies(labels, known)
    if not (finite(p) and finite(perturbed)):
        return found
    proxy = metrics.auroc_ood(metrics.entropy(p.mean), metrics.entropy(perturbed.mean))
    return found | class_quality(p, labels) | {"proxy_ood": proxy}


def class_result(
    p: ClassPredictive,
    labels: np.ndarray,
    ood: Mapping[str, ClassPredictive],
    known: np.ndarray,
    validation: tuple[ClassPredictive, np.ndarray] | None = None,
) -> Scores:
    """Returns every score of `evaluate` that has a value, the calibration error under all binnings, and more.

    Of two classes there is `auprc`, the average precision with class 1 as the positive one. With validation
    predictions there are their quality and the test quality at the temperature that is best on them.
    """
    found = class_frequencies(labels, known)
    if not all(finite(each) for each in (p, *ood.values())):
        return found
    found |= evaluate(p, labels, ood=dict(ood) or None).metrics
    found |= prefixed("ece", metrics.calibration_errors(p.mean, labels, BINS))
    if p.mean.shape[1] == 2 and np.any(labels):
        found["auprc"] = float(average_precision_score(labels, p.mean[:, 1]))
    if validation is not None:
        found |= prefixed("validation", class_quality(*validation)) | recalibrated(p, labels, *validation)
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


def recalibrated(p: ClassPredictive, labels: np.ndarray, held: ClassPredictive, known: np.ndarray) -> Scores:
    """Returns the quality at the temperature that is best on validation, and that temperature; nothing without one."""
    try:
        temperature: Any = recalibrate(held, known)
    except ValueError:  # probabilities that know nothing, or that are never wrong
        return {}
    return prefixed("recalibrated", {"temperature": temperature.value, **class_quality(temperature(p), labels)})


def class_arrays(p: ClassPredictive, labels: np.ndarray) -> Arrays:
    """Returns accuracy against confidence, and the error of the examples of least entropy by the share that is kept."""
    reliability = metrics.reliability_curve(p.mean, labels)
    shares, wrong = np.linspace(1 / len(p), 1.0, 101), (p.mean.argmax(axis=1) != labels).astype("float64")
    return {
        "reliability/test": np.stack([reliability.confidence, reliability.accuracy]),
        "selective/error": np.stack([shares, metrics.selective_curve(p.entropy, wrong).at(shares)]),
    }


# -- values ------------------------------------------------------------------------------------------------------------


def in_units(p: ValuePredictive, mean: float, std: float) -> ValuePredictive:
    """Returns predictions of standardised numbers in the units of the numbers themselves, one an example.

    >>> p = in_units(ValuePredictive(np.array([[1.0]]), np.array([[0.1]]), 5, noise=0.2), mean=100.0, std=90.0)
    >>> p.mean, p.std, p.noise
    (array([190.]), array([9.]), array([18.]))
    """
    noise = np.broadcast_to(0.0 if p.noise is None else p.noise, p.mean.shape)
    values, spread, around = (part.reshape(len(p)) for part in (p.mean, p.std, noise))
    return ValuePredictive(mean + std * values, std * spread, p.num_draws, noise=std * around)


def value_quality(p: ValuePredictive, y: np.ndarray) -> Scores:
    """Returns errors, the NLL of the total variance, and coverage and width of its 95 % interval."""
    lower, upper = p.interval(LEVEL, variance="total")
    return {
        "mae": metrics.mean_absolute_error(p.mean, y),
        "rmse": metrics.root_mean_square_error(p.mean, y),
        "nll": metrics.gaussian_nll(p.mean, np.sqrt(p.variance("total")), y),
        "coverage": metrics.interval_coverage(lower, upper, y),
        "width": metrics.interval_width(lower, upper),
    }


def one_gaussian(y: np.ndarray, known: np.ndarray) -> Scores:
    """Returns the NLL of one Gaussian, that of the training targets `known`."""
    mean, std = np.full(len(y), known.mean()), np.full(len(y), known.std())
    return {"without_inputs": metrics.gaussian_nll(mean, std, y)}


def value_tuning(p: ValuePredictive, y: np.ndarray, perturbed: ValuePredictive, known: np.ndarray) -> Scores:
    """Returns what a configuration is chosen by."""
    found = one_gaussian(y, known)
    if not (finite(p) and finite(perturbed)):
        return found
    spread = [np.sqrt(each.variance("total")) for each in (p, perturbed)]
    return found | value_quality(p, y) | {"proxy_ood": metrics.auroc_ood(*spread)}


def value_result(p: ValuePredictive, y: np.ndarray, ood: Mapping[str, ValuePredictive], known: np.ndarray) -> Scores:
    """Returns every score of `evaluate` that has a value, and the error of what is kept at several shares."""
    found = one_gaussian(y, known)
    if not all(finite(each) for each in (p, *ood.values())):
        return found
    found |= evaluate(p, y, ood=dict(ood) or None).metrics | value_quality(p, y) | selective(p, y)
    return {name: float(value) for name, value in found.items() if math.isfinite(value)}


def selective(p: ValuePredictive, y: np.ndarray) -> Scores:
    """Returns the mean absolute error of the most certain predictions, by either spread, at several shares kept."""
    errors = np.abs(p.mean - y)
    kinds = ("epistemic", "total") if p.num_draws > 1 else ("total",)
    curves = {kind: metrics.selective_curve(np.sqrt(p.variance(kind)), errors) for kind in kinds}
    return {
        f"risk_at_{100 * share:.0f}_{kind}": float(curve.at(share))
        for kind, curve in curves.items()
        for share in RETAINED
    }


def value_arrays(p: ValuePredictive, y: np.ndarray) -> Arrays:
    """Returns the share of targets in central intervals by their level, and of several draws what selection gives."""
    kinds = ("epistemic", "total") if p.num_draws > 1 else ("total",)
    curves = {
        kind: metrics.interval_calibration_curve(p.mean, np.sqrt(p.variance(kind)), y)
        for kind in kinds
        if p.variance(kind).min() > 0
    }
    found = {f"intervals/{kind}": np.stack([curve.levels, curve.observed]) for kind, curve in curves.items()}
    if "epistemic" not in kinds:
        return found
    shares = np.linspace(1 / len(p), 1.0, 101)
    return found | {"selective/mae": np.stack([shares, metrics.selective_curve(p.std, np.abs(p.mean - y)).at(shares)])}


def noise_weights(p: ValuePredictive, y: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """Returns w >= 0 so that with the noise `kinds` @ w the Gaussian of the total variance has the least NLL on `y`.

    Args:
        kinds: (examples, kinds), numbers >= 0 known before the target that the noise may grow with; a column of ones is
            a noise for all, the noise that a network predicts is one that is multiplied by a factor.

    >>> errors = np.array([-2.0, 2.0, -2.0, 2.0])
    >>> p = ValuePredictive(np.zeros(4), np.ones(4), 9, noise=1.0)
    >>> noise_weights(p, errors, np.ones((4, 1))).round(4)  # 1² + w² = 2²
    array([1.7321])
    """
    squares, epistemic = (y - p.mean) ** 2, p.std**2
    size = np.sqrt(squares.mean()) / kinds.mean(axis=0)  # of every kind, if the noise were of it alone

    def nll(shares: np.ndarray) -> tuple[float, np.ndarray]:
        noise = kinds @ (size * shares)
        variance = epistemic + noise**2
        slope = (1 / variance - squares / variance**2) * noise  # of the NLL by the noise
        value = (np.log(variance) + squares / variance).mean() / 2
        return float(value), size * (slope[:, None] * kinds).mean(axis=0)

    start = np.full(kinds.shape[1], 1 / kinds.shape[1])
    least = [(1e-4, None)] + [(0.0, None)] * (kinds.shape[1] - 1)  # a variance is above 0
    found = optimize.minimize(nll, start, jac=True, method="L-BFGS-B", bounds=least, options={"ftol": 1e-12})
    return size * found.x


# -- weights -----------------------------------------------------------------------------------------------------------


def posterior_scores(models: list[keras.Model]) -> Scores:
    """Returns the KL of a model in nats and how wide its posteriors are; means over models.

    `signal` is the median of |mean| / sd over the random weights; `pruned` the share of those whose mean is within one
    sd of 0, whose sign the posterior leaves open.
    """
    factors = [factor for model in models for q in find_posteriors(model) for factor in q.factors]
    if not factors:
        return {}
    pairs = [(f.loc, f.variance**0.5) for f in factors]
    means, deviations = (np.concatenate([np.ravel(each) for each in part]) for part in zip(*pairs, strict=True))
    low, middle, high = np.quantile(deviations, [0.05, 0.5, 0.95])
    signal = np.abs(means) / deviations
    total = sum(float(keras.ops.convert_to_numpy(kl(model))) for model in models)
    found = {"kl": total / len(models), "sd_05": low, "sd_median": middle, "sd_95": high}
    found |= {"signal": np.median(signal), "pruned": (signal < 1).mean()}
    return {f"posterior_{name}": float(value) for name, value in found.items()}


def singular_values(model: keras.Model) -> Arrays:
    """Returns the singular values of the mean of every weight matrix, by "singular_values/" and its path."""
    return {f"singular_values/{row.name}": row.values.astype("float32") for row in spectrum(model).rows}
