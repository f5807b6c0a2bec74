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


class Blocks:
    """Examples in the order of their components, for a part of a forward pass: a context in which they are declared so.

    Dealt once before a layer of many products and collected once behind it, the products move no examples.
    """

    moves = True  # whether it changes the order

    def __init__(self, assigned: "Assignment", components: int, size):
        self._assigned, self._components, self._size = assigned, components, size

    def __enter__(self):
        self._declared = in_blocks(self._components)
        self._declared.__enter__()
        return self

    def __exit__(self, *error):
        self._declared.__exit__(*error)

    def deal(self, x):
        """Returns the examples of the first component, then those of the next; shares are filled up to be equal."""
        with in_blocks(0):
            dealt = self._assigned.deal(x, self._components)
        components, share, *features = ops.shape(dealt)
        return ops.reshape(dealt, (components * share, *features))

    def collect(self, y):
        """Returns the examples in their own order."""
        rows, *features = ops.shape(y)
        with in_blocks(0):
            y = ops.reshape(y, (self._components, rows // self._components, *features))
            return self._assigned.collect(y, self._size, self._components)


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
    """Deals the examples of a batch to components, at random and in shares that differ by one example at most.

    Example i has the number r_i + shift, with random ranks r and a random shift, and belongs to component
    (r_i + shift) mod K: as draw s of a prediction belongs to component s mod K.

    It holds a key, not the ranks: made inside a loop or another transformation, these could not be used outside it.
    """

    def __init__(self, key):
        self.key = key
        self.size: int | None = None  # of the batch, where it is known

    def components_of(self, size, components: int):
        """Returns the component of each of `size` examples."""
        if components == 1:
            return ops.zeros((size,), "int32")
        if _blocks(components, size):
            return ops.repeat(ops.arange(components, dtype="int32"), size // components)
        ranks, shift = self._ranks(size)
        return (ranks + shift) % components

    def pick(self, values, size, components: int):
        """Returns what `values`, (components, …), has for the component of each of `size` examples."""
        if components > 1 and _blocks(components, size):
            # Copies: their gradient is a sum, that of a look-up would be a slow scatter.
            return ops.repeat(values, size // components, axis=0)
        return ops.take(values, self.components_of(size, components), axis=0)

    def deal(self, x, components: int):
        """Returns the examples of every component, (components, share, …); the last of a share may be a repetition."""
        if components == 1:
            return ops.expand_dims(x, 0)
        size, *features = ops.shape(x)
        if not _blocks(components, size):
            ranks, shift = self._ranks(size)
            share = -(-size // components)
            first = (ops.arange(components, dtype="int32") - shift) % components
            rank = ops.expand_dims(first, 1) + components * ops.arange(share, dtype="int32")
            x = ops.take(x, ops.take(ops.argsort(ranks), ops.reshape(rank % size, (-1,))), axis=0)
            size = share * components
        return ops.reshape(x, (components, size // components, *features))

    def collect(self, y, size, components: int):
        """Returns what `deal` of `size` examples has dealt in the order of the examples."""
        if components == 1:
            return ops.squeeze(y, 0)
        _, share, *features = ops.shape(y)
        y = ops.reshape(y, (components * share, *features))
        if _blocks(components, size):
            return y
        ranks, shift = self._ranks(size)
        return ops.take(y, (ranks + shift) % components * share + ranks // components, axis=0)

    def _ranks(self, size) -> tuple[Any, Any]:
        """Returns a random permutation of 0 … size − 1, and the shift."""
        self._require_same_size(size)
        order, shift = noise.split(self.key, 2)
        ranks = ops.cast(ops.argsort(noise.uniform((size,), order)), "int32")
        return ranks, noise.integers((), 2**30, shift)

    def _require_same_size(self, size) -> None:
        if isinstance(size, int):
            self.size = size if self.size is None else self.size
            _require_first_axis(self.size, size)


def _blocks(components: int, size) -> bool:
    """Returns whether examples lie in blocks; raises where these are for other components or another batch."""
    blocks, examples = _BLOCKS.get(), _BLOCK_EXAMPLES.get()
    if blocks not in (0, components):
        raise ValueError(
            f"Mixtures that train on the same blocks of examples need the same number of components; got {blocks} and "
            f"{components}."
        )
    if blocks and examples is not None and isinstance(size, int):
        _require_first_axis(examples, size)
    return bool(blocks)


def _require_first_axis(expected: int, size: int) -> None:
    if size != expected:
        raise ValueError(
            f"A mixture needs the examples of the batch on the first axis of every layer in training; got first axes "
            f"of {expected} and {size} in one forward pass. Reshape, or concatenate along another axis, so that the "
            "first axis stays the batch."
        )
