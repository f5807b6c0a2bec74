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
    """Returns how many numbers a model predicts from: frozen weights and statistics too, not what the KL alone needs.

    >>> count_stored(keras.Sequential([keras.Input((3,)), keras.layers.BatchNormalization()]))
    12
    """
    posteriors = [posterior for posterior in find_posteriors(model) if posterior.random]
    unused = {id(posterior.kl_scale) for posterior in posteriors}
    unused |= {id(factor.reference) for posterior in posteriors for factor in posterior.factors}
    return _numbers(weight for weight in model.weights if id(weight) not in unused)


def _numbers(weights) -> int:
    return sum(math.prod(weight.shape) for weight in weights)
