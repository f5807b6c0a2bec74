"""The deterministic pass at the posterior mean."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import keras

from singularbayes.inference.find import find_posteriors
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
    _forget_around(posteriors)
    try:
        with scope.fix({id(posterior): scope.MEAN for posterior in posteriors}):
            yield model
    finally:
        _forget_around(posteriors)


def forget_compiled(model: keras.layers.Layer) -> None:
    """Makes Keras compile the functions of a model anew when they are next called."""
    for name in _COMPILED:
        if getattr(model, name, None) is not None:
            setattr(model, name, None)


def _forget_around(posteriors) -> None:
    # A compiled function has its kind of weights traced into it, and any model around a posterior may have one. A
    # posterior does not know the models around it, so all that live are looked through.
    wanted = set(map(id, posteriors))
    models = [thing for thing in gc.get_objects() if issubclass(type(thing), keras.Model)]
    for model in models:
        whole = hasattr(model, "_layers")  # not where a constructor failed, or has not run yet
        if whole and wanted & set(map(id, find_posteriors(model))):
            forget_compiled(model)
