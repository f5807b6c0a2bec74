"""Batch normalisation after a change of weights: its running statistics made anew from inputs."""

import keras
import numpy as np
from keras import ops

from singularbayes.models import arranged, compiled, flat_layers

_BATCH = 256


def has_statistics(model: keras.Model) -> bool:
    """Says whether a model has batch normalisation."""
    return bool(_layers(model))


def renew_statistics(model: keras.Model, inputs, batch_size: int = _BATCH) -> None:
    """Sets the running statistics of batch normalisation to those of `inputs`: averages over batches, as in training.

    Every layer sees what those before it give when they normalise by their batch, and dropout is on.
    """
    x = arranged(model, inputs)
    examples = len(keras.tree.flatten(x)[0])
    total: list[np.ndarray] = []
    for first in range(0, examples, batch_size):
        batch = keras.tree.map_structure(lambda array: array[first : first + batch_size], x)  # noqa: B023
        share = min(batch_size, examples - first) / examples
        found = [share * ops.convert_to_numpy(value).astype("float64") for value in compiled(model, _of_batch, batch)]
        total = [a + b for a, b in zip(total, found, strict=True)] if total else found
    for variable, value in zip(_variables(model), total, strict=True):
        variable.assign(value)


def _layers(model) -> list:
    return [layer for layer in flat_layers(model) if isinstance(layer, keras.layers.BatchNormalization)]


def _variables(model) -> list:
    return [variable for layer in _layers(model) for variable in (layer.moving_mean, layer.moving_variance)]


def _of_batch(model, batch):
    """Returns the means and variances of a batch in every layer, as its running statistics with no momentum."""
    layers = _layers(model)
    momenta = [layer.momentum for layer in layers]
    try:
        for layer in layers:
            layer.momentum = 0.0
        model(keras.tree.map_structure(ops.convert_to_tensor, batch), training=True)
        return [ops.convert_to_tensor(variable) for variable in _variables(model)]
    finally:
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
