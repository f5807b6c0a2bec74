"""How many parameters a model has."""

import math

import keras

from singularbayes.posteriors import find_random_posteriors


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
