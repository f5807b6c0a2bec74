"""The posteriors of a model."""

import keras

from singularbayes.posteriors import Posterior


def find_posteriors(model: keras.layers.Layer) -> list[Posterior]:
    """Returns every posterior of a model or layer once, however deep it is nested, in a fixed order."""
    # The one private Keras call: there is no public walk over nested layers.
    return [layer for layer in model._flatten_layers() if isinstance(layer, Posterior)]
