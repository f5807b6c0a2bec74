"""Where the examples of a mixture's components lie in a training pass: in equal blocks, one behind the other."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from keras import ops

from singularbayes.posteriors import noise, scope

# How many blocks there are, and how many examples in all of them together; None where that is not known.
_BLOCKS: ContextVar[tuple[int, int | None]] = ContextVar("singularbayes_blocks", default=(0, None))
_NUMBER = object()  # owns the number of a pass


@contextmanager
def in_blocks(components: int, examples: int | None = None) -> Iterator[None]:
    """Declares that examples lie in blocks, the first for the first component, inside a `with` block.

    Args:
        examples: of all blocks together; another first axis is refused then.
    """
    token = _BLOCKS.set((components, examples))
    try:
        yield
    finally:
        _BLOCKS.reset(token)


def are_blocks() -> bool:
    """Returns whether examples lie in blocks."""
    return bool(_BLOCKS.get()[0])


def require_blocks(components: int, x=None) -> None:
    """Raises unless examples lie in as many blocks, and the first axis of `x` is theirs."""
    blocks, examples = _BLOCKS.get()
    if not blocks:
        raise ValueError(
            f"A mixture of {components} components trains each of them on every example, which `fit` with "
            "callbacks=[singularbayes.KLSchedule()] deals to them, and so does a training pass of a model after "
            "singularbayes.set_kl(model, num_data=len(x)); a loop of your own has to tile its targets as many times."
        )
    if blocks != components:
        raise ValueError(f"Mixtures of one model need the same number of components; got {blocks} and {components}.")
    size = None if x is None else x.shape[0]
    if examples is not None and isinstance(size, int) and size != examples:
        raise ValueError(
            "A mixture needs the examples of the batch on the first axis of every layer in training; got first axes "
            f"of {examples} and {size} in one forward pass. Reshape, or concatenate along another axis, so that the "
            "first axis stays the batch."
        )


def to_examples(values, size):
    """Returns the value of its component for each of `size` examples, from values (components, …)."""
    components = values.shape[0]
    require_blocks(components)
    # Copies: their gradient is a sum, that of a look-up would be a slow scatter.
    return ops.repeat(values, size // components, axis=0)


def number_of_pass(make_key) -> Any:
    """Returns the random number from which all take their component, in a pass outside training that draws."""
    return scope.once_per_pass(_NUMBER, lambda: ops.cast(noise.integers((), 2**30, make_key()), "int32"))
