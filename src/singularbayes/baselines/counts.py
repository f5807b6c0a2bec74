"""How many numbers a model has."""

import math

import keras


def count_trained(model: keras.Model) -> int:
    """Returns how many numbers of a model are trained.

    >>> count_trained(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))
    8
    """
    return sum(math.prod(weight.shape) for weight in model.trainable_weights)
