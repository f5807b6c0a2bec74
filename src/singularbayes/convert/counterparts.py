"""Which of our layers stands for which Keras layer, and each made from the other."""

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from singularbayes import layers
from singularbayes.convert.layer_matrices import as_float32, find_slots, find_weights, mean_value, require_finite
from singularbayes.layers import hand_down
from singularbayes.posteriors import Posterior

COUNTERPARTS: dict[type[keras.layers.Layer], type[keras.layers.Layer]] = {
    keras.layers.Dense: layers.Dense,
    keras.layers.EinsumDense: layers.EinsumDense,
    keras.layers.Embedding: layers.Embedding,
    keras.layers.ReversibleEmbedding: layers.ReversibleEmbedding,
    keras.layers.LSTM: layers.LSTM,
    keras.layers.GRU: layers.GRU,
    keras.layers.MultiHeadAttention: layers.MultiHeadAttention,
    keras.layers.Conv1D: layers.Conv1D,
    keras.layers.Conv2D: layers.Conv2D,
    keras.layers.Conv3D: layers.Conv3D,
    keras.layers.Conv2DTranspose: layers.Conv2DTranspose,
    keras.layers.SeparableConv1D: layers.SeparableConv1D,
    keras.layers.SeparableConv2D: layers.SeparableConv2D,
}
PLAIN = {ours: theirs for theirs, ours in COUNTERPARTS.items()}

# Arguments that mean nothing for a posterior; the layers refuse them.
_KERNELS = ("kernel", "recurrent", "embeddings", "pointwise")
_DROPPED = {f"{kernel}_{what}" for kernel in _KERNELS for what in ("regularizer", "constraint")}
_POINT = {"lora_rank", "lora_alpha", "quantization_config", "gptq_unpacked_column_size"}
_DROPPED |= _POINT
_OURS = {"posterior", "recurrent_posterior", "bias_posterior", "per_head"}


def counterpart_class(layer: keras.layers.Layer) -> type[keras.layers.Layer] | None:
    """Returns the class of ours that stands for a Keras layer, or None.

    A subclass that adds code of its own may compute anything, so it has none; one that only adds a name has.
    """
    for base in type(layer).__mro__:
        if base in COUNTERPARTS:
            return COUNTERPARTS[base]
        if any(callable(value) or isinstance(value, (property, classmethod)) for value in vars(base).values()):
            return None
    return None


def plain_class(layer: keras.layers.Layer) -> type[keras.layers.Layer] | None:
    """Returns the Keras class that one of our layers stands for, or None for any other layer."""
    return PLAIN.get(type(layer))


def refusal(layer: keras.layers.Layer) -> str | None:
    """Returns why a layer of a class that has a counterpart cannot have one itself, or None."""
    if not layer.built:
        return "it was never built: no call reached it"
    if getattr(layer, "quantization_mode", None):
        return f"it is quantised ({layer.quantization_mode})"
    if isinstance(layer, keras.layers.EinsumDense):
        left, _, y = layer.equation.replace(" ", "").partition("->")
        x, _, w = left.partition(",")
        letters = [part.replace("...", "") for part in (x, w, y)]
        if any(len(set(part)) < len(part) for part in letters) or set(x) & set(w) & set(y) - {"."}:
            return f"its kernel is not one matrix (equation {layer.equation!r})"
    return None


def is_convertible(layer: keras.layers.Layer) -> bool:
    """Whether a Keras layer has a Bayesian counterpart and can be replaced by it."""
    return counterpart_class(layer) is not None and refusal(layer) is None


def changes(layer: keras.layers.Layer) -> list[str]:
    """Returns what becomes of the Keras arguments that are set and that the counterpart cannot take."""
    given = sorted(name for name, value in layer.get_config().items() if name in _DROPPED and value is not None)
    lost = [f"{name} dropped: the prior takes its place" for name in given if name not in _POINT]
    # The kernel that Keras gives is the sum of the two.
    return [*lost, *(["LoRA merged into the weight"] if "lora_rank" in given else [])]


def make_counterpart(
    layer: keras.layers.Layer,
    posteriors: Posterior | Mapping[str, Posterior],
    bias_posterior: Posterior | None = None,
    per_head: bool = False,
) -> keras.layers.Layer:
    """Returns our layer for a Keras layer: same arguments, built, with fresh weights.

    Args:
        posteriors: one for all matrices, or one for each by name; only recurrent layers use more than the first.
    """
    ours = counterpart_class(layer)
    if ours is None:
        raise ValueError(f"make_counterpart needs one of {[cls.__name__ for cls in COUNTERPARTS]}; got {layer!r}.")
    named = {"kernel": posteriors} if isinstance(posteriors, Posterior) else posteriors
    dtype = next(slot.dtype for slot in find_slots(layer, per_head).values() if slot.is_matrix)
    named = {name: posterior.on_base(dtype) for name, posterior in named.items()}
    arguments = {**_arguments(layer), "posterior": next(iter(named.values()))}
    if isinstance(layer, (keras.layers.LSTM, keras.layers.GRU)):
        arguments["recurrent_posterior"] = named.get("recurrent_kernel")
    if not isinstance(layer, keras.layers.Embedding):
        arguments["bias_posterior"] = bias_posterior
    if isinstance(layer, keras.layers.MultiHeadAttention):
        arguments["per_head"] = per_head
    return built_like(ours(**arguments), layer)


def make_plain(layer: keras.layers.Layer) -> keras.layers.Layer:
    """Returns the Keras layer for one of ours, built, with the posterior means as its weights."""
    theirs = plain_class(layer)
    if theirs is None:
        raise ValueError(f"make_plain needs one of {[cls.__name__ for cls in PLAIN]}; got {layer!r}.")
    arguments = _arguments(layer)
    for name in ("kernel_initializer", "pointwise_initializer", "implementation"):
        if name in arguments and (arguments[name] is None or name == "implementation"):
            del arguments[name]
    plain = built_like(theirs(**arguments), layer)
    found = find_weights(layer)
    for name, slot in find_slots(plain, getattr(layer, "per_head", False)).items():
        slot.write(mean_value(found[name]))
    return plain


def trained_in_float32(layer: keras.layers.Layer) -> keras.layers.Layer:
    """Returns the Keras layer with weights in float32: the layer itself, or a copy of a 16-bit one."""
    if layer.variable_dtype not in ("bfloat16", "float16"):
        return layer
    made = built_like(type(layer).from_config({**layer.get_config(), "dtype": f"mixed_{layer.variable_dtype}"}), layer)
    made.exchanged = True  # so that a file has it: the config of the model describes the other
    made.set_weights([as_float32(weight) for weight in layer.weights])
    return made


def start_from(counterpart: keras.layers.Layer, *given: keras.layers.Layer, equal: bool = False) -> None:
    """Moves the means of the counterpart to the weights of a Keras layer, or to their best approximation.

    Args:
        given: one layer, or one for every component of a mixture.
        equal: of one layer, start all components at the same weights; else all but the first start around them.
    """
    found, per_head = find_weights(counterpart), getattr(counterpart, "per_head", False)
    places = [find_slots(layer, per_head) for layer in given]
    for name in places[0]:
        weight, read = found[name], [own[name].read() for own in places]
        for layer, matrix in zip(given, read, strict=True):
            require_finite(matrix, f"{layer.path or layer.name}/{name}")
        if not isinstance(weight, Posterior):  # one, or one for every component
            copies = math.prod(weight.shape) // read[0].size
            weight.assign(np.reshape(read * (copies if len(read) == 1 else 1), weight.shape))
        elif len(read) == 1 and not equal:
            weight.center(read[0])
        else:
            weight.center_components(read * (weight.components if len(read) == 1 else 1))


def _arguments(layer) -> dict[str, Any]:
    """Returns the arguments that a layer was made with and that its counterpart, or its Keras layer, takes too."""
    config = {name: v for name, v in layer.get_config().items() if name not in _DROPPED | _OURS}
    # The functions themselves: one of the user has no name to be found by. Keras's Dense forgets its regularizer.
    for name in ("activation", "recurrent_activation"):
        if name in config:
            config[name] = getattr(layer, name)
    return {**config, "activity_regularizer": layer.activity_regularizer}


def built_like(new, old):
    """Returns the new layer, built as the old one was and under the same path."""
    shapes = old.get_build_config()
    if not shapes:
        raise ValueError(f"Conversion needs a built layer; got {type(old).__name__} {old.name!r}, which is not.")
    with contextlib.ExitStack() as scopes:
        for scope in (old.path or "").split("/")[:-1]:
            scopes.enter_context(keras.name_scope(scope))
        new.build_from_config(shapes)
    hand_down(new, old.trainable)  # again, for it reaches what was built only now
    return new
