"""Forward passes outside training that draw, and compiled functions made again."""

from collections.abc import Iterator
from contextlib import contextmanager

import keras

from singularbayes.checks import require_integer
from singularbayes.models.programs import fetch_state
from singularbayes.posteriors import draw_keys, draw_sources, find_sources, flat_layers, noise, scope

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


@contextmanager
def fixed_draw(model: keras.layers.Layer, draw: int = 0, seed: int = 0) -> Iterator[keras.layers.Layer]:
    """Makes every forward pass of `model` use one and the same draw of its weights, inside a `with` block.

    It is the draw of that number of `sb.predict(model, …, seed=seed)`. A language model generates a whole text with one
    network that way: `with sb.fixed_draw(model, 3): model.generate("…")`. What Keras has compiled for this model is
    compiled again for the block and after it.

    >>> import keras, numpy as np, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((4,)), sb.layers.Dense(3, posterior=sb.LowRank(2))])
    >>> x = np.ones((1, 4), "float32")
    >>> draws = sb.predict(model, x, draws=2, likelihood="gaussian", keep_draws=True).draws
    >>> with fixed_draw(model, 1):
    ...     bool(np.allclose(model.predict(x, verbose=0), draws[1]))
    True
    """
    require_integer("fixed_draw", 0, draw=draw, seed=seed)
    sources = find_sources(model)
    fetch_state(model)
    arrays = draw_sources(sources, noise.as_keys(draw_keys(seed, draw + 1)[draw]))
    step = getattr(model, "train_function", None)
    _renew_functions(model)
    try:
        with scope.fix_draws(dict(zip(map(id, sources), arrays, strict=True))):
            yield model
    finally:
        _renew_functions(model)
        if getattr(model, "train_function", None) is not step:  # it was made for the fixed draw
            model.train_function = None


def _renew_functions(model) -> None:
    _renew_evaluation(model)
    if getattr(model, "generate_function", None) is not None:  # of a language model of KerasHub
        model.generate_function = None


def forget_compiled(model: keras.layers.Layer) -> None:
    """Makes Keras compile the functions of a model again when they are next called."""
    for name in ("train_function", *_EVALUATION):
        if getattr(model, name, None) is not None:
            setattr(model, name, None)


def _renew_around(model, sources) -> None:
    if keras.backend.backend() == "jax":  # where programs are kept by what draws (see `scope`)
        return
    for around in {*flat_layers(model), *scope.traced_in(sources)}:
        _renew_evaluation(around)


def _renew_evaluation(layer) -> None:
    """Compiles the functions of a model again that are not steps of training; a loop may be under way."""
    for name in _EVALUATION:
        if getattr(layer, name, None) is not None:
            getattr(layer, f"make_{name}")(force=True)
