"""The posteriors of a model, and their draws."""

from collections.abc import Sequence
from typing import cast

import keras
import numpy as np

from singularbayes.posteriors import noise
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.scope import Source
from singularbayes.posteriors.variational import Variational


def find_posteriors(model: keras.layers.Layer) -> list[Posterior]:
    """Returns every posterior of a model or layer once, however deep it is nested, in a fixed order.

    >>> import keras, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, posterior=sb.LowRank(2))])
    >>> [posterior.rank for posterior in sb.find_posteriors(model)]
    [2]
    """
    return [source for source in find_sources(model) if isinstance(source, Posterior)]


def find_random_posteriors(model: keras.layers.Layer) -> list[Variational]:
    """Returns the posteriors of a model or layer whose draws differ: those with a prior and a KL."""
    return [cast(Variational, posterior) for posterior in find_posteriors(model) if posterior.random]


def find_sources(model: keras.layers.Layer) -> list[Source]:
    """Returns all that a draw fixes in a model or layer: its posteriors, and other layers with noise of this kind."""
    sources = [layer for layer in flat_layers(model) if isinstance(layer, Source)]
    return sources


def flat_layers(model: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns a model or layer and every layer in it, however deep."""
    # Keras has no public function that walks over nested layers.
    return list(model._flatten_layers())


def draw_keys(seed: int, draws: int) -> np.ndarray:
    """Returns one key per draw, (draws, 3): two words for its noise, and its number."""
    # A hash of (seed, position); keys of 31 bits suit every backend's generator.
    words = (np.random.SeedSequence(seed).generate_state(2 * draws) >> 1).reshape(draws, 2)
    return np.concatenate([words, np.arange(draws, dtype=words.dtype)[:, None]], axis=1)


def draw_sources(sources: Sequence[Source], key) -> list[tuple]:
    """Returns the arrays of one draw of every source; `key` is one of `draw_keys`."""
    own = zip(sources, noise.split(key[:2], len(sources)), strict=True)
    return [source.draw_number(words, key[2]) for source, words in own]
