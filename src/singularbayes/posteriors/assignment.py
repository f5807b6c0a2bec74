"""Which component of a mixture trains on which example, the same for all layers of a forward pass."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from keras import ops

from singularbayes.posteriors import noise, scope

# How many equal blocks the examples lie in, one per component in order; 0 where they lie in no order.
_BLOCKS: ContextVar[int] = ContextVar("singularbayes_blocks", default=0)
# How many examples all these blocks have together; None where that is not known.
_BLOCK_EXAMPLES: ContextVar[int | None] = ContextVar("singularbayes_block_examples", default=None)

_NUMBER_OF_PASS = object()  # owns that number


def assignment_of_pass(make_key) -> "Assignment":
    """Returns the assignment of the current forward pass, made with the key of whoever needs it first."""
    return scope.once_per_pass(Assignment, lambda: Assignment(make_key()))


def number_of_pass(make_key) -> Any:
    """Returns the random number from which all take their component, in a pass outside training that draws."""
    return scope.once_per_pass(_NUMBER_OF_PASS, lambda: ops.cast(noise.integers((), 2**30, make_key()), "int32"))


@contextmanager
def in_blocks(components: int, examples: int | None = None) -> Iterator[None]:
    """Declares that examples lie in blocks, the first for the first component, inside a `with` block.

    Args:
        examples: of all blocks together; another first axis is refused then.
    """
    tokens = _BLOCKS.set(components), _BLOCK_EXAMPLES.set(examples)
    try:
        yield
    finally:
        _BLOCKS.reset(tokens[0])
        _BLOCK_EXAMPLES.reset(tokens[1])


def are_blocks() -> bool:
    """Returns whether examples lie in blocks."""
    return bool(_BLOCKS.get())


class NoBlocks(contextlib.nullcontext):
    """Examples as they are."""

    moves = False

    def __init__(self):
        super().__init__(self)

    def deal(self, x):
        return x

    def collect(self, y):
        return y


class Assignment:
    """Gives the examples of a batch, which lie in blocks, to the components in order.

    It holds a key of the pass: made inside a loop or another transformation, it could not be used outside it.
    """

    def __init__(self, key):
        self.key = key

    def pick(self, values, size, components: int):
        """Returns what `values`, (components, …), has for the component of each of `size` examples."""
        if components == 1:
            return ops.repeat(values, size, axis=0)
        _require_blocks(components, size)
        # Copies: their gradient is a sum, that of a look-up would be a slow scatter.
        return ops.repeat(values, size // components, axis=0)

    def deal(self, x, components: int):
        """Returns the examples of every component, (components, share, …)."""
        if components == 1:
            return ops.expand_dims(x, 0)
        size, *features = ops.shape(x)
        _require_blocks(components, size)
        return ops.reshape(x, (components, size // components, *features))

    def collect(self, y, size, components: int):
        """Returns what `deal` of `size` examples has dealt in the order of the examples."""
        if components == 1:
            return ops.squeeze(y, 0)
        _, share, *features = ops.shape(y)
        return ops.reshape(y, (components * share, *features))


def _require_blocks(components: int, size) -> None:
    """Raises where examples do not lie in blocks, or in those for other components or of another batch."""
    blocks, examples = _BLOCKS.get(), _BLOCK_EXAMPLES.get()
    if blocks != components:
        raise ValueError(
            f"Mixtures that train on the same blocks of examples need the same number of components; got {blocks} and "
            f"{components}."
        )
    if examples is not None and isinstance(size, int):
        _require_first_axis(examples, size)


def _require_first_axis(expected: int, size: int) -> None:
    if size != expected:
        raise ValueError(
            f"A mixture needs the examples of the batch on the first axis of every layer in training; got first axes "
            f"of {expected} and {size} in one forward pass. Reshape, or concatenate along another axis, so that the "
            "first axis stays the batch."
        )
