"""How many numbers a model has."""

import math

import keras

from singularbayes.inference.find import find_posteriors


def count_trained(model: keras.Model) -> int:
    """Returns how many numbers of a model are trained.

    >>> count_trained(keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]))
    8
    """
    return _numbers(model.trainable_weights)


def count_stored(model: keras.Model) -> int:
    """Returns how many numbers a model predicts from: frozen weights and statistics too, but not the KL's weight.

    >>> count_stored(keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()]))
    12
    """
    unused = {id(posterior.kl_scale) for posterior in find_posteriors(model) if posterior.random}
    return _numbers(weight for weight in model.weights if id(weight) not in unused)


def _numbers(weights) -> int:
    return sum(math.prod(weight.shape) for weight in weights)
