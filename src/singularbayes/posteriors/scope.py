"""Which weights a forward pass uses: fresh draws, unless a scope says the mean or gives the draws."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

MEAN = object()
_FIXED: ContextVar[Mapping[int, Any]] = ContextVar("singularbayes_fixed", default=MappingProxyType({}))


class Source:
    """A layer whose noise a draw fixes for a whole pass: `draw(key)` gives its arrays, `fixed(self)` the choice."""

    random = True  # whether draws differ

    @abstractmethod
    def draw(self, key) -> tuple:
        """Returns the arrays of one draw."""

    @property
    def draw_size(self) -> int:
        """How many numbers a draw has, at most."""
        return 0


def fixed(source: Source) -> Any:
    """Returns what a source is fixed to: MEAN, the arrays of a draw, or None."""
    return _FIXED.get().get(id(source))


@contextmanager
def fix(choices: dict[int, Any]) -> Iterator[None]:
    """Fixes sources, by identity, to MEAN or to the arrays of a draw."""
    token = _FIXED.set({**_FIXED.get(), **choices})
    try:
        yield
    finally:
        _FIXED.reset(token)
