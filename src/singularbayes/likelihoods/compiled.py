"""The likelihood of a model's output: by name, by the compiled loss; and whether the last activation agrees with it."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
from keras import losses

from singularbayes.likelihoods.base import Classification, Likelihood
from singularbayes.likelihoods.classes import Bernoulli, Categorical
from singularbayes.likelihoods.counts import NegativeBinomial, Poisson
from singularbayes.likelihoods.values import Gaussian, LaplaceNoise, MeanScale, StudentTNoise
from singularbayes.models.outputs import loss_of, names_of

LIKELIHOODS: dict[str, Likelihood] = {
    "categorical_logits": Categorical(),
    "categorical": Categorical(from_logits=False),
    "bernoulli_logits": Bernoulli(),
    "bernoulli": Bernoulli(from_logits=False),
    "gaussian": Gaussian(),
    "mean_scale": MeanScale(),
    "laplace": LaplaceNoise(),
    "student_t": StudentTNoise(),
    "poisson_log": Poisson(),
    "poisson": Poisson(log_rate=False),
    "negative_binomial": NegativeBinomial(),
}
_FOCAL: dict[Any, type[Classification]] = {  # which are no negative log-likelihoods
    **dict.fromkeys((losses.BinaryFocalCrossentropy, losses.binary_focal_crossentropy), Bernoulli),
    **dict.fromkeys((losses.CategoricalFocalCrossentropy, losses.categorical_focal_crossentropy), Categorical),
}
_WITH_LABELS = (losses.SparseCategoricalCrossentropy, losses.sparse_categorical_crossentropy)
_CLASSES: dict[Any, type[Classification]] = {
    **dict.fromkeys((losses.BinaryCrossentropy, losses.binary_crossentropy), Bernoulli),
    **dict.fromkeys((losses.CategoricalCrossentropy, losses.categorical_crossentropy, *_WITH_LABELS), Categorical),
    **_FOCAL,
}
# The noise that a loss without one implies for the weight of the KL, per output; Keras averages over k outputs, which
# makes the implied noise of a squared error √k times as large.
_VALUES: dict[Any, Likelihood] = {
    **dict.fromkeys(
        (losses.MeanSquaredError, losses.mean_squared_error),
        Gaussian(implied="Gaussian noise of standard deviation √½ (0.71)"),
    ),
    **dict.fromkeys(
        (losses.Huber, losses.huber), Gaussian(implied="Gaussian noise of standard deviation 1 for small errors")
    ),
    **dict.fromkeys(
        (losses.MeanAbsoluteError, losses.mean_absolute_error), Gaussian(implied="Laplace noise of scale 1")
    ),
    **dict.fromkeys((losses.Poisson, losses.poisson), Poisson(log_rate=False)),
}


def find_likelihood(
    identifier: Likelihood | str | None, loss=None, model: str = "model", caller: str = "predict"
) -> Likelihood:
    """Returns a likelihood from itself, its name, or, for None, from the loss that the model was compiled with.

    Args:
        caller: the function that errors name.
    """
    if isinstance(identifier, Likelihood):
        return identifier
    names = sorted(LIKELIHOODS)
    if identifier is not None:
        if isinstance(identifier, str) and identifier in LIKELIHOODS:
            return LIKELIHOODS[identifier]
        raise ValueError(
            f"{caller} needs likelihood to be a Likelihood or one of {names}; got likelihood={identifier!r}."
        )
    found = likelihood_of_loss(loss)
    if found is None:
        fix = "Compile the model with its loss, or pass" if loss is None else "Pass"
        raise ValueError(
            f"{caller} needs to know what the outputs mean, and the loss of {model!r} does not specify it; got "
            f"loss={loss!r}. {fix} likelihood= one of {names}."
        )
    return found


def likelihood_of_loss(loss) -> Likelihood | None:
    """Returns the likelihood that a compiled loss is, or stands for if it is Keras's own; None otherwise."""
    loss = _as_loss(loss)
    if isinstance(loss, Likelihood):
        return loss
    kind = _kind_of(loss)
    if kind in _CLASSES:
        return _CLASSES[kind](getattr(loss, "from_logits", False))  # the functions take probabilities
    return _VALUES.get(kind)


def why_no_elbo(loss) -> str | None:
    """Returns why the objective with a compiled loss is no ELBO, in words; None where it is one.

    >>> why_no_elbo(keras.losses.BinaryFocalCrossentropy())
    'BinaryFocalCrossentropy is no negative log-likelihood, so the objective of training was no ELBO'
    >>> why_no_elbo("mse") is None
    True
    """
    loss = _as_loss(loss)
    if loss is None:
        return None
    kind, smoothing = _kind_of(loss), getattr(loss, "label_smoothing", 0)
    name, found = getattr(kind, "__name__", repr(loss)), likelihood_of_loss(loss)
    if found is None or kind in _FOCAL or not found.log_likelihood:
        which = "not known to be a log-likelihood" if found is None else "no negative log-likelihood"
        return f"{name} is {which}, so the objective of training was no ELBO"
    if smoothing:
        return f"{name} has label_smoothing={smoothing:g}, so the objective of training was no ELBO of the labels"
    return None


def highest_label(loss, width: int | None) -> int | None:
    """Returns the highest label that a loss takes for an output of that width; None where targets are not labels.

    >>> highest_label("sparse_categorical_crossentropy", 3), highest_label("binary_crossentropy", 1)
    (2, 1)
    """
    loss, found = _as_loss(loss), likelihood_of_loss(loss)
    if width is None or found is None or (_kind_of(loss) in _CLASSES and _one_hot(loss, found)):
        return None
    return found.highest_label(width)


def _one_hot(loss, found: Likelihood) -> bool:
    return isinstance(found, Categorical) and _kind_of(loss) not in _WITH_LABELS


def _as_loss(loss):
    """Returns a loss that `compile` was given as a name or a class as the object that Keras makes of it."""
    return losses.get(loss) if isinstance(loss, (str, type)) else loss


def _kind_of(loss):
    """Returns the class of a loss object, or the function that a loss is."""
    return type(loss) if isinstance(loss, losses.Loss) else loss


_TO_PROBABILITIES = (keras.activations.sigmoid, keras.activations.softmax)

# -- of an output of a model -------------------------------------------------------------------------------------------


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
    _require_activation(model, position, likelihood, compiled=identifier is None)
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
        _require_activation(model, position, likelihood, compiled=True)


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


def _require_activation(model, position, likelihood: Likelihood, compiled: bool) -> None:
    """Raises where logits have an activation, or probabilities of the compiled loss have none or another one."""
    if not isinstance(likelihood, Classification):
        return
    activation, own = _last_activation(model, position), likelihood.activation
    if likelihood.from_logits and activation in _TO_PROBABILITIES:
        raise ValueError(
            f"The outputs of {model.name!r} are declared to be logits (from_logits=True), but they already went "
            f"through a {own.__name__}, and a second one would flatten the probabilities. Remove the activation of the "
            "last layer, or compile with from_logits=False, and train again."
        )
    if likelihood.from_logits is not False or not compiled:
        return
    if activation is keras.activations.linear:
        loss = getattr(_kind_of(_as_loss(loss_of(model, position))), "__name__", "")
        loss = "".join(part[:1].upper() + part[1:] for part in loss.split("_"))  # the class of a function
        raise ValueError(
            f"The loss of {model.name!r} needs probabilities, but its last layer has no activation, so the outputs are "
            "logits, and training ends in NaN or in nonsense. Compile with "
            f"{loss}(from_logits=True), or give the last layer activation={own.__name__!r}."
        )
    if own is keras.activations.sigmoid and activation is keras.activations.softmax:
        raise ValueError(
            f"The loss of {model.name!r} is a binary cross-entropy, which needs an output of its own for every "
            "yes-or-no label; got a softmax, whose outputs sum to 1. For classes that exclude each other compile with "
            'SparseCategoricalCrossentropy() (CategoricalCrossentropy() for one-hot y); for labels use "sigmoid".'
        )


_SAME_VALUES = (keras.layers.Reshape, keras.layers.Flatten, keras.layers.Permute, keras.layers.Dropout)


def _last_activation(model: keras.Model, position: int | None) -> Callable | None:
    """Returns the activation of the layer that gives an output; None where there is none, or it is a user's layer."""
    if isinstance(model, keras.Sequential):
        layers = [layer for layer in model.layers if not isinstance(layer, _SAME_VALUES)]
    else:
        names = getattr(model, "output_names", None) or [None]
        layers = [layer for layer in model.layers if layer.name == names[position or 0]]
    if not layers:
        return None
    layer = layers[-1]
    while isinstance(layer, keras.layers.TimeDistributed):
        layer = layer.layer
    if isinstance(layer, keras.Model):
        return _last_activation(layer, None)
    if isinstance(layer, keras.layers.Softmax):
        return keras.activations.softmax
    # A layer of a user may do more than its activation.
    return (
        getattr(layer, "activation", None) if type(layer).__module__.startswith(("keras.", "singularbayes.")) else None
    )


def require_labels(name: str, model: keras.Model, y, weight=None) -> None:
    """Raises where labels that count do not fit the compiled loss and the width of the model's outputs.

    On JAX and partly on torch a label out of range has the loss 0, so training continues without it, or on classes that
    are off by one. The outputs of a subclass of Model are not known.
    """
    outputs = getattr(model, "outputs", None) or []
    targets = [y.get(key) for key in names_of(model)] if isinstance(y, dict) else keras.tree.flatten(y)
    for position, (given, output) in enumerate(zip(targets, outputs, strict=False)):
        loss = loss_of(model, position)
        highest = highest_label(loss, output.shape[-1])
        if given is None or highest is None:
            continue
        labels = np.asarray(given, "float64")
        wrong = ~((labels >= 0) & (labels <= highest)) & (labels != getattr(loss, "ignore_class", None))
        if weight is not None:
            counts = np.asarray(weight, bool)
            counts = counts.reshape(labels.shape if counts.size == labels.size else (-1, *[1] * (labels.ndim - 1)))
            wrong &= counts
        if wrong.any():
            found = labels[wrong]
            raise ValueError(
                f"{name}: {model.name!r} needs labels from 0 to {highest}; got {found.min():g} to {found.max():g} "
                f"among {len(found)} out of range. {_FIX[highest == 1]}"
            )


_FIX = {
    False: "Subtract 1 from labels that count from 1, or give the last layer a unit for every class.",
    True: "Take (y + 1) / 2 of labels -1 and 1; for more classes, give the last layer a unit for each and compile with "
    "SparseCategoricalCrossentropy.",
}
