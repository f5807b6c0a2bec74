"""What a model's outputs mean, and whether its last activation agrees: logits have none, probabilities have one."""

from collections.abc import Callable

import keras
from keras.src.ops.nn import Sigmoid, Softmax

from singularbayes import layers
from singularbayes.likelihoods import likelihood as likelihoods
from singularbayes.likelihoods.likelihood import Bernoulli, Categorical, Likelihood
from singularbayes.models import loss_of, names_of

_ACTIVATED = (
    keras.layers.Activation,
    *(keras.layers.Dense, keras.layers.EinsumDense, keras.layers.Conv1D, keras.layers.Conv2D),
    *(layers.Dense, layers.EinsumDense, layers.Conv1D, layers.Conv2D),
)
_SAME_VALUES = (keras.layers.Reshape, keras.layers.Flatten, keras.layers.Permute, keras.layers.Dropout)


def meaning_of(model: keras.Model, position: int | None, likelihood=None, asked: str = "predict") -> Likelihood:
    """Returns what an output means: `likelihood` or, for None, what the compiled loss says.

    Raises where the model's last activation contradicts it.
    """
    meaning = likelihoods.get(likelihood, loss_of(model, position), model.name, asked)
    _refuse_second_activation(model, position, meaning)
    if likelihood is None:
        _require_activation(model, position, meaning)
    return meaning


def require_heads(model: keras.Model) -> None:
    """Raises where the compiled loss of an output contradicts the activation that the output ends in."""
    for position in range(max(1, len(names_of(model)))):
        meaning = likelihoods.of_loss(loss_of(model, position))
        _refuse_second_activation(model, position, meaning)
        _require_activation(model, position, meaning)


def logits_hint(model: keras.Model) -> str:
    """Returns a sentence about logits where a loss needs probabilities and the layers do not show that they are."""
    for position in range(max(1, len(names_of(model)))):
        meaning = likelihoods.of_loss(loss_of(model, position))
        needed = isinstance(meaning, (Categorical, Bernoulli)) and not meaning.from_logits
        if needed and _last_activation(model, position) not in (keras.activations.sigmoid, keras.activations.softmax):
            return " If the outputs are logits, compile with from_logits=True: the loss needs probabilities."
    return ""


def _refuse_second_activation(model, position, meaning) -> None:
    if not isinstance(meaning, (Categorical, Bernoulli)) or not meaning.from_logits:
        return
    activation = _last_activation(model, position)
    if activation is not None and activation in (keras.activations.sigmoid, keras.activations.softmax):
        second = "sigmoid" if isinstance(meaning, Bernoulli) else "softmax"
        effect = "leave every probability in [0.5, 0.731]" if second == "sigmoid" else "flatten the probabilities"
        raise ValueError(
            f"The outputs of {model.name!r} are declared to be logits (from_logits=True), but they already went "
            f"through a {activation.__name__}, and a second {second} would {effect}. Remove the activation of the last "
            "layer, or compile with from_logits=False, and train again."
        )


def _require_activation(model, position, meaning) -> None:
    if not isinstance(meaning, (Categorical, Bernoulli)) or meaning.from_logits:
        return
    if _last_activation(model, position) is keras.activations.linear:
        binary = isinstance(meaning, Bernoulli)
        name = "BinaryCrossentropy" if binary else "SparseCategoricalCrossentropy"
        raise ValueError(
            f"The loss of {model.name!r} needs probabilities, but its last layer has no activation, so the outputs are "
            f"logits, and training ends in NaN or in nonsense. Compile with keras.losses.{name}(from_logits=True), or "
            f"give the last layer activation={'sigmoid' if binary else 'softmax'!r}."
        )


def _last_activation(model: keras.Model, position: int | None) -> Callable | None:
    """Returns the activation that an output ends in; None where the graph of layers does not show it."""
    outputs = getattr(model, "outputs", None)  # a subclass of Model has none
    return _activation(outputs[position or 0]) if outputs else None


def _activation(tensor) -> Callable | None:
    operation, node, index = tensor._keras_history
    if isinstance(operation, keras.Model):
        return _last_activation(operation, index)
    if isinstance(operation, keras.layers.TimeDistributed):
        operation = operation.layer
    if isinstance(operation, (keras.layers.Softmax, Softmax)):
        return keras.activations.softmax
    if isinstance(operation, Sigmoid):
        return keras.activations.sigmoid
    if isinstance(operation, _SAME_VALUES) or (
        isinstance(operation, keras.layers.Activation) and operation.activation is keras.activations.linear
    ):
        return _activation(operation._inbound_nodes[node].input_tensors[0])
    # A subclass of a user may do more than its activation.
    return operation.activation if type(operation) in _ACTIVATED else None
