"""Which weights a forward pass uses: fresh draws, unless a scope says the mean or gives the draws."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

MEAN = object()
_FIXED: ContextVar[Mapping[int, Any]] = ContextVar("singularbayes_fixed", default=MappingProxyType({}))


def fixed(posterior) -> Any:
    """Returns what `posterior` is fixed to: MEAN, the arrays of a draw, or None."""
    return _FIXED.get().get(id(posterior))


@contextmanager
def fix(choices: dict[int, Any]) -> Iterator[None]:
    """Fixes posteriors, by identity, to MEAN or to the arrays of a draw."""
    token = _FIXED.set({**_FIXED.get(), **choices})
    try:
        yield
    finally:
        _FIXED.reset(token)
