"""Which output of a model is meant, the loss that it was compiled with, and how many parameters it has."""

import math
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src.backend import get_keras_mask

from singularbayes.posteriors import find_random_posteriors, flat_layers


def names_of(model: keras.Model) -> list[str]:
    """Returns the names of the outputs in the order in which they are flattened; none where they are not known yet."""
    structure = getattr(model, "_outputs_struct", None)
    if isinstance(structure, dict):
        return sorted(structure)
    return list(getattr(model, "output_names", None) or [])


def position_of(model: keras.Model, output: str | int | None, caller: str = "predict") -> int | None:
    """Returns the position of the output that is named or counted; None where it is not known to be one of several.

    Args:
        caller: the function that errors name.
    """
    names = names_of(model)
    if output is None and len(names) > 1:
        raise ValueError(f"{caller} needs output= to be one of {names} or a position; got output=None.")
    if output is None:
        return None
    if isinstance(output, str):
        if output not in names:
            raise ValueError(f"{caller} needs output= to be one of {names} or a position; got output={output!r}.")
        return names.index(output)
    number = len(names or getattr(model, "outputs", None) or [])  # a Sequential model has outputs without names
    if isinstance(output, bool) or not isinstance(output, int) or (number and not 0 <= output < number):
        known = f"0 to {number - 1}" if number else "from 0 on"
        raise ValueError(f"{caller} needs output= to be a name or a position {known}; got output={output!r}.")
    return output


def loss_of(model: keras.Model, position: int | None) -> Any:
    """Returns the compiled loss of one output, or None."""
    loss = getattr(model, "loss", None)
    if isinstance(loss, dict):
        names = names_of(model)
        return loss.get(names[position or 0]) if names else None
    if isinstance(loss, (list, tuple)):
        return loss[position or 0] if (position or 0) < len(loss) else None
    return loss


def output_mask(model: keras.Model, x, position: int | None, batch_size: int = 256) -> np.ndarray | None:
    """Returns which positions of an output count, (examples, length), by the model's own masks; None without masks.

    A mask comes from a `Masking` layer or an embedding with `mask_zero=True`, and layers hand it on.

    Args:
        x: arrays in the order of the model's inputs.
    """
    if not any(isinstance(layer, keras.layers.Masking) or _masks(layer) for layer in flat_layers(model)):
        return None
    examples, found = len(keras.tree.flatten(x)[0]), []
    for start in range(0, examples, batch_size):
        batch = keras.tree.map_structure(lambda array: array[start : start + batch_size], x)  # noqa: B023
        output = keras.tree.flatten(model(batch, training=False))[position or 0]
        mask = get_keras_mask(output)
        if mask is None or tuple(mask.shape) != tuple(output.shape[:-1]):
            return None
        found.append(np.asarray(ops.convert_to_numpy(mask), bool))
    return np.concatenate(found)


def _masks(layer) -> bool:
    return bool(getattr(layer, "mask_zero", False))


def count_trained(model: keras.Model) -> int:
    """Returns how many parameters of a model are trainable.

    >>> count_trained(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))
    8
    """
    return _numbers(model.trainable_weights)


def count_stored(model: keras.Model) -> int:
    """Returns how many parameters a model predicts from: with frozen weights and statistics, without what the KL needs.

    Of a rank that is learned the columns in use count.

    >>> count_stored(keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()]))
    12
    """
    posteriors = find_random_posteriors(model)
    unused = {id(weight) for posterior in posteriors for weight in posterior.training_weights}
    used = _numbers(weight for weight in model.weights if id(weight) not in unused)
    return used - sum(posterior.num_switched_off() for posterior in posteriors)


def _numbers(weights) -> int:
    return sum(math.prod(weight.shape) for weight in weights)
