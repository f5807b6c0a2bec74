"""How many parameters a model has."""

import math

import keras

from singularbayes.models.traversal import find_random_posteriors


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
    factors = [factor for posterior in posteriors for factor in posterior.factors]
    unused = {id(posterior.kl_scale) for posterior in posteriors}
    unused |= {id(part) for factor in factors for part in (factor.reference, factor.memory, factor.live)}
    used = _numbers(weight for weight in model.weights if id(weight) not in unused)
    return used - sum(_switched_off(factor) for factor in factors if factor.live is not None)


def _switched_off(factor) -> int:
    """Returns how many parameters are in the columns that a factor does not use."""
    columns = factor.live.shape[0] - int(keras.ops.convert_to_numpy(factor.live).sum())
    return columns * math.prod(factor.values.shape) // factor.live.shape[0]


def _numbers(weights) -> int:
    return sum(math.prod(weight.shape) for weight in weights)
