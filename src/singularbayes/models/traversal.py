"""The posteriors of a model, their draws, and how many parameters it has."""

import math
from typing import cast

import keras
import numpy as np

from singularbayes.posteriors import Posterior, Source, Variational, noise


def find_posteriors(model: keras.layers.Layer) -> list[Posterior]:
    """Returns every posterior of a model or layer once, however deep it is nested, in a fixed order."""
    return [source for source in find_sources(model) if isinstance(source, Posterior)]


def find_random_posteriors(model: keras.layers.Layer) -> list[Variational]:
    """Returns the posteriors of a model or layer whose draws differ: those with a prior and a KL."""
    return [cast(Variational, posterior) for posterior in find_posteriors(model) if posterior.random]


def find_sources(model: keras.layers.Layer) -> list[Source]:
    """Returns all that a draw fixes in a model or layer: its posteriors, and other layers with noise of this kind."""
    sources = [layer for layer in flat_layers(model) if isinstance(layer, Source)]
    wrapped = {id(part) for q in sources if isinstance(q, Posterior) for part in flat_layers(q)[1:]}
    return [source for source in sources if id(source) not in wrapped]  # a wrapper draws for the one inside


def flat_layers(model: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns a model or layer and every layer in it, however deep."""
    # There is no public walk over nested layers.
    return list(model._flatten_layers())


def draw_keys(seed: int, draws: int) -> np.ndarray:
    """Returns one key per draw, (draws, 2)."""
    # A hash of (seed, position); keys of 31 bits suit every backend's generator.
    return (np.random.SeedSequence(seed).generate_state(2 * draws) >> 1).reshape(draws, 2)


def draw_sources(sources: list[Source], key) -> list[tuple]:
    """Returns the arrays of one draw of every source."""
    return [source.draw(key) for source, key in zip(sources, noise.split(key, len(sources)), strict=True)]


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
