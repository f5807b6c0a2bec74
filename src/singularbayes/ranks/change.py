"""How far a network can move when something is taken out of its matrices."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from singularbayes import layers
from singularbayes.bounds import ACTIVATIONS, SOFTMAX_LIPSCHITZ, Bound, product_norm
from singularbayes.checks import require_positive
from singularbayes.convert import find_weights
from singularbayes.evaluation import activation_name, flat_layers_in_order
from singularbayes.posteriors import Posterior, find_posteriors

_KINDS = (layers.Dense, layers.Conv1D, layers.Conv2D, keras.layers.Dense, keras.layers.Conv1D, keras.layers.Conv2D)
_STILL = (
    keras.layers.InputLayer,
    keras.layers.Flatten,
    keras.layers.Reshape,
    keras.layers.Permute,
    keras.layers.Dropout,
    keras.layers.GaussianNoise,
    keras.layers.GlobalAveragePooling1D,
    keras.layers.GlobalAveragePooling2D,
    keras.layers.GlobalMaxPooling1D,
    keras.layers.GlobalMaxPooling2D,
)
_POOLS = (
    keras.layers.MaxPooling1D,
    keras.layers.MaxPooling2D,
    keras.layers.AveragePooling1D,
    keras.layers.AveragePooling2D,
)


@dataclass(frozen=True)
class Step:
    """One layer φ(W h + b): norms of W before and after, of what was removed, of b, and φ's constant and ‖φ(0)‖."""

    norm: float
    after: float
    removed: float
    offset: float
    slope: float
    at_zero: float
    # √ of how many patches an input is in: ‖W‖ is that times the norm of its matrix. None where there is no W.
    patches: float | None = None


def bound_change(steps: Iterable[Step], radius: float) -> Bound:
    """Returns a bound of ‖f(x) − f′(x)‖ over ‖x‖ ≤ radius, where f has the matrices before and f′ those after.

    >>> one = Step(norm=2.0, after=2.0, removed=0.0, offset=0.0, slope=1.0, at_zero=0.0)
    >>> cut = Step(norm=3.0, after=3.0, removed=0.1, offset=0.0, slope=1.0, at_zero=0.0)
    >>> round(bound_change([one, cut, one], radius=1.0).value, 6)  # 2 · 0.1 · 2
    0.4
    """
    require_positive("change", radius=radius)
    size, moved = float(radius), 0.0
    for step in steps:
        moved = step.slope * (step.after * moved + step.removed * size)
        size = step.slope * (step.norm * size + step.offset) + step.at_zero
    return Bound(
        "Pruning",
        "change of the mean network's output",
        moved,
        assumptions=(f"‖x‖ ≤ {radius:g}", "mean weights"),
        terms={"‖f(x)‖": size},
    )


Gone = Mapping[int, np.ndarray]  # of a posterior, by id, whether each column goes; none goes of those left out


def read_steps(model: keras.layers.Layer, gone: Gone) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """Returns the steps of a network, or none and the reasons why it has no bound."""
    if type(model) is not keras.Sequential:
        return (), (f"{type(model).__name__} is not a keras.Sequential, whose layers follow one another",)
    steps, reasons = [], []
    for layer in flat_layers_in_order(model):
        found = _step(layer, gone)
        if isinstance(found, str):
            reasons.append(f"layer {layer.name!r} ({type(layer).__name__}) {found}")
        elif found is not None:
            steps.append(found)
    return ((), tuple(reasons)) if reasons else (tuple(steps), ())


def has_step(layer: keras.layers.Layer) -> bool:
    """Whether a layer can move its inputs further apart."""
    return type(layer) not in (*_STILL, *_POOLS)


def _step(layer, gone: Gone) -> Step | str | None:
    """Returns a layer's step; None if the layer moves no two inputs further apart; or why it has no bound."""
    if type(layer) in _STILL:
        return None
    if type(layer) in _POOLS:
        return None if tuple(layer.strides) == tuple(layer.pool_size) else "has windows that overlap"
    if type(layer) is keras.layers.ReLU:
        if layer.negative_slope or layer.threshold:
            return "is a ReLU with a slope below 0 or a threshold, whose steepness is not bounded here"
        return _activation(layer, "relu", None)
    if type(layer) is keras.layers.Activation:
        return _activation(layer, activation_name(layer.activation), None)
    if type(layer) not in _KINDS:
        return "has no norm bound here"
    return _activation(layer, activation_name(layer.activation), gone)


def _activation(layer, name: str, gone: Gone | None) -> Step | str:
    if name not in ACTIVATIONS and name != "softmax":
        return f"has an activation, {name}, whose slope is not bounded here"
    shape = layer.output.shape[1:]
    if None in shape:
        return f"has outputs of unknown size {shape}"
    channels_first = getattr(layer, "data_format", None) == "channels_first"
    positions = math.prod(shape[1:] if channels_first else shape[:-1])  # a bias is added at each of them
    slope, zero = (SOFTMAX_LIPSCHITZ, 1.0 / shape[-1]) if name == "softmax" else ACTIVATIONS[name]
    at_zero = abs(zero) * math.sqrt(math.prod(shape))
    if gone is None:
        return Step(1.0, 1.0, 0.0, 0.0, slope, at_zero)
    # Every input of a convolution is in at most as many patches as the kernel has positions.
    patches = math.sqrt(math.prod(getattr(layer, "kernel_size", (1,))))
    norm, after, lost = (patches * norm for norm in _norms(layer, gone))
    offset = math.sqrt(positions) * float(np.linalg.norm(_bias(layer)))
    return Step(norm, after, lost, offset, slope, at_zero, patches)


def _norms(layer, gone: Gone) -> tuple[float, float, float]:
    """Returns ‖W‖, ‖W − ΔW‖ and ‖ΔW‖ of the mean."""
    kernel = _weight(layer, "kernel")
    if isinstance(kernel, Posterior) and len(kernel.factor_moments()) == 2:
        a, b = factor_means(kernel)
        go = gone.get(id(kernel), np.zeros(a.shape[1], bool))
        return norm_of(a, b), norm_of(a[:, ~go], b[:, ~go]), norm_of(a[:, go], b[:, go])
    w = _mean(kernel)
    norm = float(np.linalg.norm(w.reshape(-1, w.shape[-1]), 2))
    return norm, norm, 0.0


def factor_means(posterior: Posterior) -> tuple[np.ndarray, np.ndarray]:
    """Returns the means of A and B; columns that are switched off are 0 in B."""
    (a, _), (b, _) = posterior.factor_moments()
    return a, b


def norm_of(a: np.ndarray, b: np.ndarray) -> float:
    """Returns ‖A Bᵀ‖₂; 0 for no columns."""
    return float(product_norm(a, b)) if a.shape[1] else 0.0


def _bias(layer) -> np.ndarray:
    if not layer.use_bias:
        return np.zeros(1)
    return _mean(_weight(layer, "bias"))


def _weight(layer, name: str):
    """Returns the posterior over a weight of a layer, or the plain weight."""
    return find_weights(layer)[name] if find_posteriors(layer) else getattr(layer, name)


def _mean(weight) -> np.ndarray:
    value = weight.mean().dense() if isinstance(weight, Posterior) else weight
    return ops.convert_to_numpy(value).astype("float64")
