"""The deterministic pass at the posterior mean."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras

from singularbayes.models.traversal import find_posteriors, flat_layers
from singularbayes.posteriors import scope

_COMPILED = ("train_function", "test_function", "predict_function")


@contextmanager
def mean_weights(model: keras.Model) -> Iterator[keras.Model]:
    """Makes every forward pass of `model` use E[W] instead of a draw, inside a `with` block.

    >>> import keras, numpy as np, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> with mean_weights(model):
    ...     a, b = model(np.ones((1, 4))), model(np.ones((1, 4)))
    >>> bool((a == b).all())
    True
    """
    posteriors = find_posteriors(model)
    _forget_around(model, posteriors)
    try:
        with scope.fix({id(posterior): scope.MEAN for posterior in posteriors}):
            yield model
    finally:
        _forget_around(model, posteriors)


def forget_compiled(model: keras.layers.Layer) -> None:
    """Makes Keras compile the functions of a model anew when they are next called."""
    for name in _COMPILED:
        if getattr(model, name, None) is not None:
            setattr(model, name, None)


def _forget_around(model, posteriors) -> None:
    # A compiled function has its kind of weights traced into it.
    for around in {*flat_layers(model), *scope.compiled_around(posteriors)}:
        forget_compiled(around)
