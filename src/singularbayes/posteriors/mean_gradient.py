"""A gradient through the mean of a posterior noticed: a step by it would train the mean without noise."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any

import keras
from keras import ops

# What collects the paths of posteriors. Not a context variable: torch may run backward passes in threads of its own.
_COLLECTORS: list[list[str]] = []


@contextmanager
def collected() -> Iterator[list[str]]:
    """Yields a list that gets the paths of posteriors whose mean had a gradient, which is then no warning.

    JAX and TensorFlow notice it where the gradient is traced, torch where it is computed.
    """
    found: list[str] = []
    _COLLECTORS.append(found)
    try:
        yield found
    finally:
        _COLLECTORS.remove(found)


def watched(matrix: Any, path: str) -> Any:
    """Returns a mean of the posterior with that path, whose arrays give notice of a gradient that reaches them."""
    if is_dataclass(matrix):
        parts = {field.name: getattr(matrix, field.name) for field in fields(matrix)}
        return replace(matrix, **{name: watched(part, path) for name, part in parts.items()})  # type: ignore[type-var]
    if isinstance(matrix, (list, tuple)):
        return type(matrix)(watched(part, path) for part in matrix)
    return _WATCH[keras.backend.backend()](matrix, path) if ops.is_tensor(matrix) else matrix


def _notice(path: str) -> None:
    if _COLLECTORS:
        _COLLECTORS[-1].append(path)
        return
    warnings.warn(
        f"A gradient was taken at the posterior mean of {path!r}: a step by it trains the mean without noise, which is "
        "no variational inference. Call the model with training=True, and pass `training` on in a `call` of your own.",
        stacklevel=3,
    )


def _on_jax(array, path: str):
    import jax

    @jax.custom_jvp
    def identity(array):
        return array

    @identity.defjvp
    def _(arrays, tangents):
        _notice(path)
        return arrays[0], tangents[0]

    return identity(array)


def _on_tensorflow(array, path: str):
    import tensorflow

    @tensorflow.custom_gradient
    def identity(array):
        def gradient(upstream):
            _notice(path)
            return upstream

        return tensorflow.identity(array), gradient

    return identity(tensorflow.convert_to_tensor(array))  # read, where it is a variable


def _on_torch(array, path: str):
    if array.requires_grad and not array.is_leaf:  # a hook on a parameter itself would stay there
        array.register_hook(lambda _: _notice(path))
    return array


_WATCH = {"jax": _on_jax, "tensorflow": _on_tensorflow, "torch": _on_torch}
