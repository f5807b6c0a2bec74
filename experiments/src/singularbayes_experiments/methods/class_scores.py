"""What is measured of a classifier, and the arrays from which any other score can be made later."""

import math
from collections.abc import Mapping

import numpy as np
from sklearn.metrics import average_precision_score

from singularbayes import metrics
from singularbayes.evaluation import evaluate
from singularbayes.prediction import ClassPredictive, Temperature, recalibrate
from singularbayes_experiments.methods.study import prefixed

_BINS = (10, 15, 20, 30)
_TINY = float(np.finfo("float32").tiny)


def quality(p: ClassPredictive, labels: np.ndarray) -> dict[str, float]:
    """Returns how good the averaged probabilities are."""
    return {
        "accuracy": metrics.accuracy(p.mean, labels),
        "nll": metrics.negative_log_likelihood(p.mean, labels),
        "brier": metrics.brier(p.mean, labels),
        "ece": metrics.expected_calibration_error(p.mean, labels),
    }


def of_test(
    p: ClassPredictive, labels: np.ndarray, ood: Mapping[str, ClassPredictive] | ClassPredictive | None
) -> dict[str, float]:
    """Returns every score of `evaluate` that has a value, and the calibration error under all binnings.

    Scores of out-of-distribution examples are called "name/score", or "score" where there is one set without a name. Of
    two classes there is also `auprc`, the average precision with class 1 as the positive one: a blind classifier gets
    that class's share.
    """
    ood = (dict(ood) or None) if isinstance(ood, Mapping) else ood
    found = evaluate(p, labels, ood=ood).metrics
    found |= prefixed("ece", metrics.calibration_errors(p.mean, labels, _BINS))
    if p.mean.shape[1] == 2 and np.any(labels):
        found["auprc"] = float(average_precision_score(labels, p.mean[:, 1]))
    return {name: value for name, value in found.items() if math.isfinite(value)}


def recalibrated(
    p: ClassPredictive, labels: np.ndarray, validation: ClassPredictive, known: np.ndarray
) -> dict[str, float]:
    """Returns the quality with the temperature that is best on validation, and that temperature.

    Nothing where there is no best one: probabilities that know nothing, or that are never wrong.
    """
    try:
        temperature = recalibrate(validation, known)
    except ValueError:
        return {}
    assert isinstance(temperature, Temperature)
    return prefixed("recalibrated", {"temperature": temperature.value, **quality(temperature(p), labels)})


def stored(name: str, p: ClassPredictive, labels: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Returns the arrays of one set of examples: mean probabilities, entropy, and, of several draws, MI and sd."""
    found = {"mean": np.maximum(p.mean, _TINY), "entropy": p.entropy}  # float32 has no smaller probability
    if p.num_draws > 1:
        found["mi"] = p.mutual_information
        found["std"] = np.take_along_axis(p.std, p.predicted_labels[:, None], axis=1)[:, 0]  # of the predicted class
    arrays = {f"{name}_{what}": values.astype("float32") for what, values in found.items()}
    return arrays if labels is None else arrays | {f"{name}_labels": labels.astype("uint8")}


def read_back(name: str, arrays: Mapping[str, np.ndarray], draws: int) -> ClassPredictive:
    """Returns predictions as `evaluate` takes them from the arrays that `stored` made; `std` is the predicted class's.

    >>> p = ClassPredictive.of_draws([[[0.9, 0.1]], [[0.5, 0.5]]])
    >>> read_back("test", stored("test", p), draws=2).mutual_information.round(3)
    array([0.102])
    """
    mean = arrays[f"{name}_mean"].astype("float64")
    if f"{name}_mi" not in arrays:
        return ClassPredictive(mean, np.zeros_like(mean), 1)
    std = np.broadcast_to(arrays[f"{name}_std"][:, None].astype("float64"), mean.shape)
    expected = metrics.entropy(mean) - arrays[f"{name}_mi"]
    return ClassPredictive(mean, std, draws, expected_entropy=expected)
