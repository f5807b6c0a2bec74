"""The deterministic pass at the posterior mean."""

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
    _forget_compiled(model)
    try:
        with scope.fix({id(posterior): scope.MEAN for posterior in find_posteriors(model)}):
            yield model
    finally:
        _forget_compiled(model)


def _forget_compiled(model) -> None:
    # A compiled function has its kind of weights traced into it.
    for name in _COMPILED:
        if getattr(model, name, None) is not None:
            setattr(model, name, None)
