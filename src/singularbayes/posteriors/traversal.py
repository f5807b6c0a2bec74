"""The posteriors of a model, and their draws."""

import functools
from collections.abc import Callable, Sequence
from typing import cast

import keras
import numpy as np

from singularbayes.posteriors import noise, scope
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.random_posterior import RandomPosterior
from singularbayes.posteriors.scope import Source


def find_posteriors(model: keras.layers.Layer) -> list[Posterior]:
    """Returns every posterior of a model or layer once, however deep it is nested, in a fixed order.

    >>> import keras, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, posterior=sb.LowRank(2))])
    >>> [posterior.rank for posterior in sb.find_posteriors(model)]
    [2]
    """
    return [source for source in find_sources(model) if isinstance(source, Posterior)]


def find_random_posteriors(model: keras.layers.Layer) -> list[RandomPosterior]:
    """Returns the posteriors of a model or layer whose draws differ: those with a prior and a KL."""
    return [cast(RandomPosterior, posterior) for posterior in find_posteriors(model) if posterior.random]


def find_sources(model: keras.layers.Layer) -> list[Source]:
    """Returns all that a draw fixes in a model or layer: its posteriors, and other layers with noise of this kind."""
    sources = [layer for layer in flat_layers(model) if isinstance(layer, Source)]
    wrapped = {id(part) for q in sources if isinstance(q, Posterior) for part in flat_layers(q)[1:]}
    return [source for source in sources if id(source) not in wrapped]  # a wrapper draws for the one inside


def flat_layers(model: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Returns a model or layer and every layer in it, however deep."""
    # Keras has no public function that walks over nested layers.
    return list(model._flatten_layers())


def draw_keys(seed: int, draws: int) -> np.ndarray:
    """Returns one key per draw, (draws, 3): two words for its noise, and its number."""
    # A hash of (seed, position); keys of 31 bits suit every backend's generator.
    words = (np.random.SeedSequence(seed).generate_state(2 * draws) >> 1).reshape(draws, 2)
    return np.concatenate([words, np.arange(draws, dtype=words.dtype)[:, None]], axis=1)


def draw_sources(sources: Sequence[Source], key) -> list[tuple]:
    """Returns the arrays of one draw of every source; `key` is one of `draw_keys`."""
    own = zip(sources, noise.split(key[:2], len(sources)), strict=True)
    return [source.draw_number(words, key[2]) for source, words in own]


def rematerialized(layer: keras.layers.Layer, remat: Callable, call: Callable, *args, **kwargs) -> Callable:
    """Returns the call of a layer under `keras.RematScope`, which computes it again for its gradient.

    The second time has to draw the same weights, so that their keys are chosen now. Flags such as `training` are no
    arguments of what is computed twice: JAX would make arrays of them.

    Args:
        remat: Keras's method, which gets a call and its arguments.
    """
    flags = {name: value for name, value in kwargs.items() if value is None or isinstance(value, (bool, str))}
    arrays = {name: value for name, value in kwargs.items() if name not in flags}
    call = functools.partial(_with_keys_chosen(layer, call), **flags)
    states = [generator.state for part in flat_layers(layer) for generator in part._seed_generators]
    updated = list({id(variable): variable for variable in (*layer.non_trainable_variables, *states)}.values())
    if keras.backend.backend() != "jax" or not updated:
        again = remat(call, *args, **arrays)
        return lambda *args, **_: again(*args, **arrays)

    again = remat(_with_updates_returned(layer, updated, call), *args, **arrays)

    def call_and_assign(*args, **_):
        outputs, values = again(*args, **arrays)
        for i, value in values.items():
            updated[i].assign(value)
        return outputs

    return call_and_assign


def _with_updates_returned(layer: keras.layers.Layer, updated: Sequence, call: Callable) -> Callable:
    """Returns a call that returns new values of variables by their number, of seeds and moving means, and sets none.

    What JAX computes twice must not leave values of its own in variables.
    """
    known = {id(variable): variable for variable in (*layer.variables, *updated)}

    def pure_call(*args, **kwargs):
        before = {key: variable.value for key, variable in known.items()}
        with keras.StatelessScope(state_mapping=[(known[key], value) for key, value in before.items()]) as inner:
            outputs = call(*args, **kwargs)
        after = [inner.get_current_value(variable) for variable in updated]
        return outputs, {i: value for i, value in enumerate(after) if value is not before[id(updated[i])]}

    return pure_call


def _with_keys_chosen(layer: keras.layers.Layer, call: Callable) -> Callable:
    """Returns a call of a layer whose draws have keys that are chosen now, before the call."""
    keys: dict = {}
    around = scope.current_call()
    for posterior in find_random_posteriors(layer):
        if posterior.components > 1:
            raise ValueError(
                f"keras.RematScope needs posteriors of one component; got {posterior!r} in {layer.name!r}."
            )
        key = scope.given_key(posterior)
        key = noise.next_key(posterior.seed_generator) if key is None else key
        keys |= {id(part): key for part in flat_layers(posterior)}

    def call_with_keys(*args, **kwargs):
        with scope.with_keys(keys), scope.in_call(around):
            return call(*args, **kwargs)

    return call_with_keys
