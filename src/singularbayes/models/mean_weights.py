"""The deterministic pass at the posterior mean."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import compress

import keras

from singularbayes.models.traversal import find_posteriors
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
    for name in _compiled(model):
        setattr(model, name, None)


def _compiled(model) -> list[str]:
    return [name for name in _COMPILED if getattr(model, name, None) is not None]


def _forget_around(posteriors) -> None:
    # A compiled function has its kind of weights traced into it, and any model around a posterior may have one. A
    # posterior does not know the models around it, so all that live and have one are looked through. One whose
    # constructor failed, or has not run yet, has none.
    wanted = set(map(id, posteriors))
    for model in _live_models():
        if _compiled(model) and wanted & set(map(id, find_posteriors(model))):
            forget_compiled(model)


def _live_models() -> list[keras.Model]:
    # Without a step of Python for each of the millions of things that live.
    kinds, things = _with_subclasses(keras.Model), gc.get_objects()
    return list(compress(things, map(kinds.__contains__, map(type, things))))


def _with_subclasses(kind: type) -> set[type]:
    return {kind}.union(*map(_with_subclasses, kind.__subclasses__()))
