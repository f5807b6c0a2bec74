"""What a training step does with posteriors, noticed: a gradient through a mean, and one of the KL that is missing.

A step by a gradient through the mean trains it without noise; a step without the gradient of the KL ignores the prior.
And a mixture that deals a first axis which is not the batch of the loss gives an example to several components.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import keras
from keras import ops


@dataclass
class Watch:
    """Paths of posteriors: whose mean had a gradient, which were drawn for training, whose KL had a gradient.

    And the first axes that mixtures dealt to components, by path, beside those of the outputs in the loss.

    JAX and TensorFlow notice it where a step is traced, torch where it is computed: a step that was compiled before
    leaves all of them empty.
    """

    at_mean: list[str] = field(default_factory=list)
    drawn: list[str] = field(default_factory=list)
    with_kl: set[str] = field(default_factory=set)
    dealt: set[tuple[str, int]] = field(default_factory=set)
    outputs: set[int] = field(default_factory=set)

    @property
    def without_kl(self) -> list[str]:
        """Those that were drawn for a step whose gradient has nothing of their KL."""
        return [path for path in self.drawn if path not in self.with_kl]

    @property
    def other_batch(self) -> list[tuple[str, int]]:
        """The mixtures, with first axes, that dealt something else than the batch of the loss."""
        return sorted((path, size) for path, size in self.dealt if self.outputs and size not in self.outputs)


# A thread watches its own steps alone. torch may run backward passes in other threads, so what is watched by a gradient
# remembers the watch of its forward pass.
_WATCH: ContextVar[Watch | None] = ContextVar("singularbayes_watch", default=None)


@contextmanager
def watching() -> Iterator[Watch]:
    """Yields what is noticed inside the `with` block; a gradient through a mean is then no warning."""
    watch = Watch()
    token = _WATCH.set(watch)
    try:
        yield watch
    finally:
        _WATCH.reset(token)


def note_draw(path: str) -> None:
    """Notices that the posterior with that path was drawn for training."""
    watch = _WATCH.get()
    if watch is not None:
        watch.drawn.append(path)


def note_dealt(path: str, size: int) -> None:
    """Notices that a mixture dealt this many examples to its components."""
    watch = _WATCH.get()
    if watch is not None:
        watch.dealt.add((path, size))


def watched_kl(kl: Any, path: str) -> Any:
    """Returns the KL of the posterior with that path, which gives notice of a gradient while a step is watched."""
    watch = _WATCH.get()
    if watch is None:
        return kl
    noticed = _loss_on_jax if keras.backend.backend() == "jax" else _NOTICED[keras.backend.backend()]
    return noticed(kl, lambda: watch.with_kl.add(path))


def watched_mean(matrix: Any, path: str) -> Any:
    """Returns a mean of the posterior with that path, whose arrays give notice of a gradient that reaches them."""
    if is_dataclass(matrix):
        parts = {field.name: getattr(matrix, field.name) for field in fields(matrix)}
        watched = {name: watched_mean(part, path) for name, part in parts.items()}
        return replace(matrix, **watched)  # type: ignore[type-var]
    if isinstance(matrix, (list, tuple)):
        return type(matrix)(watched_mean(part, path) for part in matrix)
    noticed, watch = _NOTICED[keras.backend.backend()], _WATCH.get()
    return noticed(matrix, lambda: _note_mean(path, watch)) if ops.is_tensor(matrix) else matrix


def _note_mean(path: str, forward: Watch | None) -> None:
    watch = _WATCH.get() or forward
    if watch is not None:
        watch.at_mean.append(path)
        return
    warnings.warn(
        f"A gradient was taken at the posterior mean of {path!r}: a step by it trains the mean without noise, which is "
        "no variational inference. Call the model with training=True, and pass `training` on in a `call` of your own.",
        stacklevel=3,
    )


def _on_jax(array, notice):
    import jax

    @jax.custom_jvp
    def identity(array):
        return array

    @identity.defjvp
    def _(arrays, tangents):
        notice()
        return arrays[0], tangents[0]

    return identity(array)


def _loss_on_jax(value, notice):
    """As `_on_jax` for a part of a loss: the backward rule runs only where the loss depends on it."""
    import jax

    @jax.custom_vjp
    def identity(value):
        return value

    def backward(_, upstream):
        notice()
        return (upstream,)

    identity.defvjp(lambda value: (value, None), backward)
    return identity(value)


def _on_tensorflow(array, notice):
    import tensorflow

    @tensorflow.custom_gradient
    def identity(array):
        def gradient(upstream):
            notice()
            return upstream

        return tensorflow.identity(array), gradient

    return identity(tensorflow.convert_to_tensor(array))  # read, where it is a variable


def _on_torch(array, notice):
    if array.requires_grad and not array.is_leaf:  # a hook on a parameter itself would stay there

        def hook(_):
            notice()

        array.register_hook(hook)
    return array


_NOTICED = {"jax": _on_jax, "tensorflow": _on_tensorflow, "torch": _on_torch}
