"""The posteriors of a model, and their draws."""

import keras
import numpy as np

from singularbayes.posteriors import Posterior, Source, noise


def find_posteriors(model: keras.layers.Layer) -> list[Posterior]:
    """Returns every posterior of a model or layer once, however deep it is nested, in a fixed order."""
    return [layer for layer in flat_layers(model) if isinstance(layer, Posterior)]


def find_sources(model: keras.layers.Layer) -> list[Source]:
    """Returns all that a draw fixes in a model or layer: its posteriors, and other layers with noise of this kind."""
    return [layer for layer in flat_layers(model) if isinstance(layer, Source)]


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
