"""Which weights a forward pass uses: draws in training and the mean else, unless a scope asks for draws or fixes them.

What a scope asks for is traced into compiled functions. JAX keeps a program for each set of posteriors that draw,
because the set is part of the key of what it has compiled. TensorFlow has no such key: a source remembers the layers
that were called around it while they were traced, so that their compiled functions can be made again.
"""

import contextlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import keras
from keras.src.backend.common.global_state import get_global_attribute

_FIXED: ContextVar[Mapping[int, Any]] = ContextVar("singularbayes_fixed", default=MappingProxyType({}))
_DRAWN: ContextVar[frozenset[int]] = ContextVar("singularbayes_drawn", default=frozenset())
_TRACED_IN: WeakKeyDictionary[Any, WeakSet[keras.layers.Layer]] = WeakKeyDictionary()


def _key_of_compiled():
    """Returns a context whose value is part of the key of what the backend has compiled."""
    if keras.backend.backend() != "jax":
        return lambda value: contextlib.nullcontext()
    import jax

    return jax.make_user_context(default_value=frozenset())


_compiled_for = _key_of_compiled()


class Source:
    """A layer whose noise a draw fixes for a whole pass: `draw(key)` gives its arrays, `fixed_draw` the choice."""

    random = True  # whether draws differ
    components = 1  # from which draws are made in turn

    @abstractmethod
    def draw(self, key) -> tuple:
        """Returns the arrays of one draw."""

    def draw_number(self, key, number) -> tuple:
        """Returns the arrays of draw `number` of several, with its noise from `key`.

        Only a source with several components looks at the number: draw s is of component s mod `components`.
        """
        return self.draw(key)

    @property
    def draw_size(self) -> int:
        """How many values a draw has, at most."""
        return 0


def fixed_draw(source: Source) -> Any:
    """Returns the arrays of the draw that a source is fixed to, or None."""
    return _FIXED.get().get(id(source))


@contextmanager
def fix_draws(draws: dict[int, Any]) -> Iterator[None]:
    """Fixes sources, by identity, to the arrays of a draw, inside a `with` block."""
    token = _FIXED.set({**_FIXED.get(), **draws})
    try:
        yield
    finally:
        _FIXED.reset(token)


def draws_now(source: Source) -> bool:
    """Returns whether a pass outside training draws a source instead of taking its mean."""
    if keras.backend.backend() == "tensorflow":
        _remember_trace(source)
    return id(source) in _DRAWN.get()


@contextmanager
def drawing(sources: Iterable[Source]) -> Iterator[None]:
    """Makes passes outside training draw these sources, and those of the scopes around, inside a `with` block."""
    ids = _DRAWN.get() | {id(source) for source in sources}
    token = _DRAWN.set(ids)
    try:
        with _compiled_for(ids):
            yield
    finally:
        _DRAWN.reset(token)


def traced_in(sources: Iterable[Source]) -> set[keras.layers.Layer]:
    """Returns the layers that TensorFlow traced with any of the sources inside."""
    return {layer for source in sources for layer in _TRACED_IN.get(source, ())}


def _remember_trace(source: Source) -> None:
    import tensorflow

    current = get_global_attribute("current_call_ctx")
    if current is not None and not tensorflow.executing_eagerly():
        _TRACED_IN.setdefault(source, WeakSet()).add(current.entry_layer)


def entry_layer() -> Any:
    """Returns the layer whose call is the outermost of those that are under way, often the model, or None."""
    current = get_global_attribute("current_call_ctx")
    return None if current is None else current.entry_layer


def forward_pass() -> Any:
    """Returns an object that stands for the current forward pass, or None outside any.

    Keras keeps one call context from the outermost `__call__` to its end. Its JAX trainer does not call the model but
    evaluates `model.call` inside a stateless scope, one per pass. Where shapes are sought, one scope serves several.
    """
    stateless = get_global_attribute("stateless_scope")
    if stateless is not None and get_global_attribute("symbolic_scope") is None:
        return stateless
    return get_global_attribute("current_call_ctx")


def once_per_pass(owner: Any, make: Any) -> Any:
    """Returns `make()`, made once per forward pass for `owner`: a layer used twice uses one and the same draw."""
    current = forward_pass()
    if current is None:
        return make()
    made = current.__dict__.setdefault("singularbayes_draws", {})
    if id(owner) not in made:
        made[id(owner)] = make()
    return made[id(owner)]


def trains_in_pass(owner: Any, training: Any) -> bool:
    """Returns whether this call or an earlier one of `owner` in the current forward pass trains."""
    current = forward_pass()
    trained = set() if current is None else current.__dict__.setdefault("singularbayes_trained", set())
    if training:
        trained.add(id(owner))
    return id(owner) in trained


def keras_getattr(layer: keras.layers.Layer, name: str) -> Any:
    """Returns what Keras finds where a layer has no attribute of that name: on torch its parts; raises else."""
    if hasattr(keras.layers.Layer, "__getattr__"):
        return keras.layers.Layer.__getattr__(layer, name)
    raise AttributeError(f"{type(layer).__name__!r} object has no attribute {name!r}", name=name, obj=layer)
