"""Forward passes outside training that draw, and compiled functions made anew."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import keras

from singularbayes.models.programs import fetch_state
from singularbayes.posteriors import find_sources, flat_layers, scope

_EVALUATION = ("test_function", "predict_function")


@contextmanager
def draw_weights(model: keras.layers.Layer) -> Iterator[keras.layers.Layer]:
    """Makes every forward pass of `model` draw its weights, inside a `with` block; else only training draws.

    Each pass has a draw of its own, so each batch of `model.predict` has too: `sb.predict` is the one whose draws are
    the same for all the data. It holds in every model that shares these layers, compiled before or not; functions that
    you compiled yourself follow it on JAX only.

    >>> import keras, numpy as np, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> with draw_weights(model):
    ...     a, b = model(np.ones((1, 4))), model(np.ones((1, 4)))
    >>> bool((a == b).all()), bool((model(np.ones((1, 4))) == model(np.ones((1, 4)))).all())
    (False, True)
    """
    sources = find_sources(model)
    fetch_state(model)
    _renew_around(model, sources)
    try:
        with scope.drawing(sources):
            yield model
    finally:
        _renew_around(model, sources)


def drawing_test_function(model: keras.Model) -> Callable:
    """Returns a compiled step of `evaluate` that draws the weights, beside the one that the model has."""
    own = model.test_function
    model.make_test_function(force=True)
    step, model.test_function = model.test_function, own
    sources = find_sources(model)

    def drawing_step(*arguments):
        with scope.drawing(sources):
            return step(*arguments)

    return drawing_step


def forget_compiled(model: keras.layers.Layer) -> None:
    """Makes Keras compile the functions of a model anew when they are next called."""
    for name in ("train_function", *_EVALUATION):
        if getattr(model, name, None) is not None:
            setattr(model, name, None)


def _renew_around(model, sources) -> None:
    # On JAX programs are kept by what draws (see `scope`). Made anew instead of forgotten: a loop may be under way.
    if keras.backend.backend() == "jax":
        return
    for around in {*flat_layers(model), *scope.traced_in(sources)}:
        for name in _EVALUATION:
            if getattr(around, name, None) is not None:
                getattr(around, f"make_{name}")(force=True)
