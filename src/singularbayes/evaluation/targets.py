"""The test data of an evaluation: examples, targets and weights of one output, and out-of-distribution sets."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from singularbayes.likelihoods import ClassPredictive, position_weights
from singularbayes.models.data import is_stream
from singularbayes.models.outputs import loss_of, names_of, position_of
from singularbayes.prediction import Predictive


def targets_alone(p: Predictive, test):
    """Returns the targets of predictions; (x, y) is refused, unless it can be the targets of two examples."""
    if test is None:
        return None
    if isinstance(test, tuple) and len(test) == 2 and (len(p) != 2 or np.shape(test[0]) != np.shape(test[1])):
        raise ValueError("evaluate needs y alone for a Predictive; got test=(x, y).")
    return test


def split_test(test):
    """Returns examples, targets and weights; None for those that are in the batches of a stream."""
    if is_stream(test):
        return test, None, None
    if not isinstance(test, (tuple, list)) or len(test) not in (2, 3):
        raise ValueError(
            f"evaluate needs test=(x, y), or batches (x, y); got {type(test).__name__}. Put both in brackets: "
            "evaluate(model, (x, y)), and out-of-distribution inputs after them: ood=x_ood."
        )
    if is_stream(test[0]):
        raise ValueError(
            f"evaluate needs the targets inside the batches of a {type(test[0]).__name__}, test=dataset with batches "
            "(x, y), because it may come in another order; got test=(dataset, y)."
        )
    return (*test, None)[:3]


def weights_of_output(method, weight, output):
    """Returns the weights of one output, where those of several are given by name or in order."""
    if not isinstance(method, keras.Model) or not isinstance(weight, (Mapping, list, tuple)):
        return weight
    names, position = names_of(method), position_of(method, output, "evaluate") or 0
    if isinstance(weight, Mapping):
        return weight.get(names[position])
    return weight[position] if len(weight) == len(names) > 1 else weight


def ignore_labels(method, y, p: Predictive, weight, output):
    """Returns the weights without positions whose label the compiled loss ignores."""
    ignored = None
    if isinstance(method, keras.Model) and isinstance(p, ClassPredictive):
        ignored = getattr(loss_of(method, position_of(method, output)), "ignore_class", None)
    if ignored is None:
        return weight
    counts = np.reshape(np.asarray(y) != ignored, p.position_shape).astype("float64")
    return position_weights(dataclasses.replace(p, weights=counts), weight)


def targets_of_output(method, y, output):
    """Returns the targets of one output, where those of several are given by name or in order."""
    if isinstance(y, np.ndarray):
        return y
    if output is None or not isinstance(method, keras.Model):
        raise ValueError(f"evaluate needs the targets of one output; got those of {_keys(y)}. Pass output=.")
    names = names_of(method)
    position = position_of(method, output, "evaluate")
    assert position is not None
    if not isinstance(y, dict):
        if position >= len(y):
            raise ValueError(f"evaluate needs targets of output={output!r}; got {len(y)} arrays.")
        return y[position]
    name = names[position] if names else output
    if name not in y:
        raise ValueError(f"evaluate needs targets of the output {name!r}; got those of {_keys(y)}.")
    return y[name]


def _keys(y) -> list:
    return sorted(y) if isinstance(y, dict) else [f"{len(y)} outputs"]


def named_sets(ood) -> dict[str, Any]:
    """Returns the out-of-distribution sets by name, "" for one set without."""
    if ood is None:
        return {}
    if isinstance(ood, Mapping):
        if not ood or not all(isinstance(name, str) and name and "/" not in name for name in ood):
            raise ValueError(f"evaluate needs names without / for the examples of ood; got {list(ood)}.")
        return dict(ood)
    return {"": ood}
