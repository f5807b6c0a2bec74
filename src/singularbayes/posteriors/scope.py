"""Which weights a forward pass uses: fresh draws, unless a scope sets the mean or the draws."""

import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import keras
from keras.src.backend.common.global_state import get_global_attribute
from keras.src.backend.common.stateless_scope import in_stateless_scope

MEAN = object()
_FIXED: ContextVar[Mapping[int, Any]] = ContextVar("singularbayes_fixed", default=MappingProxyType({}))
_COMPILED_AROUND: WeakKeyDictionary[Any, WeakSet[keras.Model]] = WeakKeyDictionary()


class Source:
    """A layer whose noise a draw fixes for a whole pass: `draw(key)` gives its arrays, `fixed(self)` the choice."""

    random = True  # whether draws differ
    components = 1  # from which draws are made in turn
    repeats = False  # whether all of them train on every example

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


def fixed(source: Source) -> Any:
    """Returns what a source is fixed to: MEAN, the arrays of a draw, or None."""
    if _compiling():
        _COMPILED_AROUND.setdefault(source, WeakSet()).update(_models_on_stack())
    return _FIXED.get().get(id(source))


@contextmanager
def fix(choices: dict[int, Any]) -> Iterator[None]:
    """Fixes sources, by identity, to MEAN or to the arrays of a draw."""
    token = _FIXED.set({**_FIXED.get(), **choices})
    try:
        yield
    finally:
        _FIXED.reset(token)


def compiled_around(sources: Iterable[Source]) -> set[keras.Model]:
    """Returns the models that were compiled around any of the sources, with its choice traced into them."""
    return {model for source in sources for model in _COMPILED_AROUND.get(source, ())}


def _compiling() -> bool:
    """Returns whether Keras may be tracing a model for a compiled function."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow

        return not tensorflow.executing_eagerly()
    return keras.backend.backend() == "jax" and in_stateless_scope()


def _models_on_stack() -> Iterator[keras.Model]:
    # A layer knows nothing about the models around it; while one is traced, it is among the callers.
    frame = sys._getframe()
    while frame is not None:
        if isinstance(owner := frame.f_locals.get("self"), keras.Model):
            yield owner
        frame = frame.f_back  # type: ignore[assignment]


def forward_pass() -> Any:
    """Returns an object that stands for the current forward pass, or None outside any.

    Keras keeps one call context from the outermost `__call__` to its end. Its JAX trainer does not call the model but
    evaluates `model.call` inside a stateless scope, one per pass. Where shapes are sought, one scope serves several.
    """
    stateless = get_global_attribute("stateless_scope")
    if stateless is not None and get_global_attribute("symbolic_scope") is None:
        return stateless
    return get_global_attribute("current_call_ctx")


def once(owner: Any, make: Any) -> Any:
    """Returns `make()`, made once per forward pass for `owner`: a layer used twice uses one and the same draw."""
    current = forward_pass()
    if current is None:
        return make()
    made = current.__dict__.setdefault("singularbayes_draws", {})
    if id(owner) not in made:
        made[id(owner)] = make()
    return made[id(owner)]
