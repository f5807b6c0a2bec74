"""The posteriors of a model, and their draws."""

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
