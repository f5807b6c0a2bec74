"""The likelihood of a model's output, and whether its last activation agrees: logits have none, probabilities one."""

from collections.abc import Callable

import keras
from keras.src.ops.nn import Sigmoid, Softmax

from singularbayes import layers
from singularbayes.likelihoods.base import Classification, Likelihood
from singularbayes.likelihoods.table import find_likelihood, likelihood_of_loss
from singularbayes.models import loss_of, names_of

_ACTIVATED = (
    keras.layers.Activation,
    *(keras.layers.Dense, keras.layers.EinsumDense, keras.layers.Conv1D, keras.layers.Conv2D),
    *(layers.Dense, layers.EinsumDense, layers.Conv1D, layers.Conv2D),
)
_SAME_VALUES = (keras.layers.Reshape, keras.layers.Flatten, keras.layers.Permute, keras.layers.Dropout)
_TO_PROBABILITIES = (keras.activations.sigmoid, keras.activations.softmax)


def likelihood_of_output(
    model: keras.Model, position: int | None, identifier: Likelihood | str | None = None, caller: str = "predict"
) -> Likelihood:
    """Returns the likelihood of an output: the one of `identifier` or, for None, the one of the compiled loss.

    Raises where the model's last activation contradicts it.
    """
    likelihood = find_likelihood(identifier, loss_of(model, position), model.name, caller)
    _refuse_second_activation(model, position, likelihood)
    if identifier is None:
        _require_activation(model, position, likelihood)
    return likelihood


def require_activations(model: keras.Model) -> None:
    """Raises where the compiled loss of an output contradicts the activation that the output ends in."""
    for position, likelihood in _classifications(model):
        _refuse_second_activation(model, position, likelihood)
        _require_activation(model, position, likelihood)


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
        raise ValueError(
            f"The loss of {model.name!r} needs probabilities, but its last layer has no activation, so the outputs are "
            "logits, and training ends in NaN or in nonsense. Compile with "
            f"keras.losses.{likelihood.logits_loss}(from_logits=True), or give the last layer "
            f"activation={likelihood.activation.__name__!r}."
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
