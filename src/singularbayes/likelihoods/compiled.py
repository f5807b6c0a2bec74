"""The likelihood of a model's output, and whether its last activation agrees: logits have none, probabilities one."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src.ops.nn import HardSigmoid, Sigmoid, Softmax

from singularbayes import layers
from singularbayes.likelihoods.base import Classification, Likelihood, as_loss, kind_of_loss
from singularbayes.likelihoods.table import find_likelihood, likelihood_of_loss
from singularbayes.models import loss_of, names_of

_ACTIVATED = (
    keras.layers.Activation,
    *(keras.layers.Dense, keras.layers.EinsumDense, keras.layers.Conv1D, keras.layers.Conv2D, keras.layers.Conv3D),
    *(keras.layers.Conv2DTranspose, keras.layers.SeparableConv1D, keras.layers.SeparableConv2D),
    *(layers.Dense, layers.EinsumDense, layers.Conv1D, layers.Conv2D, layers.Conv3D),
    *(layers.Conv2DTranspose, layers.SeparableConv1D, layers.SeparableConv2D),
)
_SAME_VALUES = (keras.layers.Reshape, keras.layers.Flatten, keras.layers.Permute, keras.layers.Dropout)
_TO_PROBABILITIES = (keras.activations.sigmoid, keras.activations.softmax)


def likelihood_of_output(
    model: keras.Model, position: int | None, identifier: Any = None, caller: str = "predict"
) -> Likelihood:
    """Returns the likelihood of an output: the one of `identifier` or, for None, the one of the compiled loss.

    Args:
        identifier: a likelihood, its name, or a dict or list of them with one for each of several outputs.

    Raises where the model's last activation contradicts it.
    """
    identifier = _of_output(model, position, identifier, caller)
    likelihood = find_likelihood(identifier, loss_of(model, position), model.name, caller)
    _refuse_second_activation(model, position, likelihood)
    if identifier is None:
        _require_activation(model, position, likelihood)
        _refuse_softmax_of_labels(model, position, likelihood)
    return likelihood


def _of_output(model, position, identifier, caller: str) -> Likelihood | str | None:
    """Returns the likelihood of one output where there is one for each; an output without one is read from its loss."""
    names = names_of(model)
    if isinstance(identifier, Mapping):
        unknown = sorted(set(identifier) - set(names))
        if unknown:
            raise ValueError(f"{caller} needs likelihood= for outputs of {names}; got {unknown}.")
        return identifier.get(names[position or 0])
    if isinstance(identifier, (list, tuple)):
        if len(identifier) != max(1, len(names)):
            raise ValueError(f"{caller} needs a likelihood for each of the outputs {names}; got {len(identifier)}.")
        return identifier[position or 0]
    return identifier


def require_activations(model: keras.Model) -> None:
    """Raises where the compiled loss of an output contradicts the activation that the output ends in."""
    for position, likelihood in _classifications(model):
        _refuse_second_activation(model, position, likelihood)
        _require_activation(model, position, likelihood)
        _refuse_softmax_of_labels(model, position, likelihood)


def logits_hint(model: keras.Model) -> str:
    """Returns a sentence about logits where a loss needs probabilities and the layers do not show that they are."""
    for position, likelihood in _classifications(model):
        if not likelihood.from_logits and _last_activation(model, position) not in _TO_PROBABILITIES:
            return " If the outputs are logits, compile with from_logits=True: the loss needs probabilities."
    return ""


def _classifications(model: keras.Model) -> list[tuple[int, Classification]]:
    """Returns position and likelihood of the outputs whose compiled loss is one of classification."""
    positions = range(max(1, len(names_of(model))))
    found = [(position, likelihood_of_loss(loss_of(model, position))) for position in positions]
    return [(position, likelihood) for position, likelihood in found if isinstance(likelihood, Classification)]


def _refuse_second_activation(model, position, likelihood) -> None:
    activation = _last_activation(model, position) if likelihood.from_logits else None
    if activation is not None and activation in _TO_PROBABILITIES:
        raise ValueError(
            f"The outputs of {model.name!r} are declared to be logits (from_logits=True), but they already went "
            f"through a {activation.__name__}, and a second {likelihood.activation.__name__} would flatten the "
            "probabilities. Remove the activation of the last layer, or compile with from_logits=False, and train "
            "again."
        )


def _require_activation(model, position, likelihood) -> None:
    if likelihood.from_logits is False and _last_activation(model, position) is keras.activations.linear:
        kind = kind_of_loss(as_loss(loss_of(model, position)))
        loss = "".join(part[:1].upper() + part[1:] for part in kind.__name__.split("_"))  # the class of a function
        raise ValueError(
            f"The loss of {model.name!r} needs probabilities, but its last layer has no activation, so the outputs are "
            "logits, and training ends in NaN or in nonsense. Compile with "
            f"{loss}(from_logits=True), or give the last layer "
            f"activation={likelihood.activation.__name__!r}."
        )


def _refuse_softmax_of_labels(model, position, likelihood) -> None:
    """Refuses one yes-or-no label per output where the outputs sum to 1."""
    of_labels = likelihood.from_logits is False and likelihood.activation is keras.activations.sigmoid
    if of_labels and _last_activation(model, position) is keras.activations.softmax:
        raise ValueError(
            f"The loss of {model.name!r} is a binary cross-entropy, which needs an output of its own for every "
            "yes-or-no label; got a softmax, whose outputs sum to 1. For classes that exclude each other compile with "
            'SparseCategoricalCrossentropy() (CategoricalCrossentropy() for one-hot y); for labels use "sigmoid".'
        )


def _last_activation(model: keras.Model, position: int | None) -> Callable | None:
    """Returns the activation that an output ends in; None where the graph of layers does not show it."""
    outputs = getattr(model, "outputs", None)  # a subclass of Model has none
    return _activation(outputs[position or 0]) if outputs else None


def _activation(tensor) -> Callable | None:
    operation, node, index = tensor._keras_history
    layer = operation
    while isinstance(layer, keras.layers.TimeDistributed):
        layer = layer.layer
    if isinstance(layer, keras.Model):
        return _last_activation(layer, index)
    if isinstance(layer, (keras.layers.Softmax, Softmax)):
        return keras.activations.softmax
    if isinstance(layer, (Sigmoid, HardSigmoid)):
        return keras.activations.sigmoid
    if isinstance(layer, _SAME_VALUES) or (
        isinstance(layer, keras.layers.Activation) and layer.activation is keras.activations.linear
    ):
        return _activation(operation._inbound_nodes[node].input_tensors[0])
    # A subclass of a user may do more than its activation.
    return _named_by_values(layer.activation) if type(layer) in _ACTIVATED else None


def _named_by_values(activation: Callable) -> Callable:
    """Returns Keras's sigmoid or softmax for a function that has values like theirs, else the function itself."""
    if activation in (keras.activations.linear, *_TO_PROBABILITIES) or isinstance(activation, keras.layers.Layer):
        return activation
    try:
        probes = ops.convert_to_tensor([[-80.0, -20.0, 0.0, 20.0, 80.0], [1.0, 2.0, 3.0, 4.0, 5.0]])
        values = np.asarray(ops.convert_to_numpy(activation(probes)), "float64").reshape(2, 5)
    except Exception:  # it needs another shape, or more than values
        return activation
    if not (values.min() >= 0 and values.max() <= 1 + 1e-6):
        return activation
    if np.abs(values.sum(-1) - 1).max() < 1e-3:
        return keras.activations.softmax
    lowest, low, middle, high, highest = values[0]
    saturates = highest - lowest < 2 * (high - low)  # a line through these values does not
    if lowest < 0.05 and low < middle < high and highest > 0.95 and saturates:
        return keras.activations.sigmoid
    return activation
