"""The posteriors of a model."""

import keras

from singularbayes.posteriors import Posterior, Source


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
