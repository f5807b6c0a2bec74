"""Data of every kind as NumPy arrays: what is in memory (`readable.py`), and streams of batches.

A stream (tf.data, torch DataLoader, PyDataset, a generator) is read once, in its own order, and never held as a whole:
it may come in another order when it is read again.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from numbers import Number
from typing import Any

import keras
import numpy as np
from scipy import sparse

from singularbayes.models.readable import package_of, readable_parts


@dataclasses.dataclass(frozen=True)
class Block:
    """Examples that are in memory together, as NumPy arrays: inputs, and targets and weights where the data have them.

    `first` counts the examples before it.
    """

    x: Any
    y: Any = None
    weight: np.ndarray | None = None
    first: int = 0

    def __len__(self) -> int:
        return len(keras.tree.flatten(self.x)[0])


def as_arrays(x, caller: str = "singularbayes"):
    """Returns data in memory as NumPy arrays in their structure; a list of arrays is a structure, any other an array.

    Args:
        caller: the function that errors name.
    """
    if is_stream(x):
        raise TypeError(
            f"{caller} needs arrays in memory here; got a {type(x).__name__}, a stream of batches. Of batches make one "
            "array: np.concatenate([x for x, y in batches])."
        )
    return keras.tree.map_structure(
        lambda part: part.read(0, part.shape[0]) if part.shape else part.read(0, 1), readable_parts(x, caller)
    )


def one_example(x, caller: str = "singularbayes"):
    """Returns one example, to see the form of data in memory without reading all."""
    return keras.tree.map_structure(lambda part: part.read(0, 1), readable_parts(x, caller))


def collected(x, y=None, weight=None, caller: str = "singularbayes") -> tuple[Any, Any, np.ndarray | None]:
    """Returns inputs, targets and weights in memory: those given, or all that a stream of batches holds."""
    if not is_stream(x):
        given = (None if part is None else as_arrays(part, caller) for part in (x, y, weight))
        return tuple(given)  # type: ignore[return-value]
    (block,) = blocks(x, y, weight, caller=caller)
    return block.x, block.y, block.weight


def blocks(
    x,
    y=None,
    weight=None,
    *,
    rows: Callable[[Any], int] | None = None,
    split_arrays: bool = False,
    caller: str = "singularbayes",
) -> Iterator[Block]:
    """Yields the examples in blocks, in order.

    Args:
        rows: how many examples may be in memory together, from one of them, or some; None is all.
        split_arrays: NumPy arrays, which reading does not copy, are split into blocks too.
    """
    if is_stream(x):
        for name, part in (("targets", y), ("weights", weight)):
            if part is not None:
                raise ValueError(
                    f"{caller} needs the {name} inside the batches of a {type(x).__name__}, as (x, y) or (x, y, "
                    f"sample_weight), because it may come in another order; got {name} of their own."
                )
        yield from _gathered(_batches(x, caller), rows, caller)
        return
    parts = readable_parts(x, caller)
    data = (parts, *(None if part is None else readable_parts(part, caller) for part in (y, weight)))
    total = common_length(caller, *data)
    example = keras.tree.map_structure(lambda part: part.read(0, 1), parts)
    split = split_arrays or any(part.copies for part in keras.tree.flatten(parts))
    size = rows(example) if rows is not None and split else total
    for first in range(0, total, size):
        x, y, weight = map(partial(_read, first=first, last=min(total, first + size)), data)
        yield Block(x, y, weight, first)


def common_length(caller: str, x, y=None, weight=None) -> int:
    """Returns the number of examples of all arrays; raises where they differ or there is none."""
    named = {"x": x, "y": y, "sample_weight": weight}
    lengths = {
        name: [part.shape[0] if part.shape else 0 for part in keras.tree.flatten(parts)]
        for name, parts in named.items()
        if parts is not None
    }
    different = {length for each in lengths.values() for length in each}
    if len(different) != 1 or 0 in different:
        *most, last = lengths
        names = f"{', '.join(most)} and {last}" if most else last
        got = ", ".join(f"{name} has {' and '.join(map(str, each)) or 'no array'}" for name, each in lengths.items())
        raise ValueError(f"{caller} needs {names} with the same number of examples, at least 1; {got}.")
    return different.pop()


def _read(parts, first: int, last: int):
    return None if parts is None else keras.tree.map_structure(lambda part: part.read(first, last), parts)


def is_stream(x) -> bool:
    """Whether data come as batches, one after another, rather than as arrays."""
    if isinstance(x, keras.utils.PyDataset):
        return True
    plain = isinstance(x, (str, bytes, Mapping, list, tuple, set, frozenset, Number))
    arrays = hasattr(x, "__array__") or sparse.issparse(x) or package_of(x) in ("pandas", "polars")
    return not plain and not arrays and hasattr(x, "__iter__")


def _batches(stream, caller: str) -> Iterator[Block]:
    """Yields the batches of a stream."""
    infinite = getattr(stream, "num_batches", 0) is None
    if package_of(stream) == "tensorflow":
        infinite = int(stream.cardinality()) == -1  # tf.data.INFINITE_CARDINALITY
    if infinite:
        raise ValueError(f"{caller} needs data that end; got a {type(stream).__name__} that repeats without end.")
    items = (
        (stream[i] for i in range(stream.num_batches)) if isinstance(stream, keras.utils.PyDataset) else iter(stream)
    )
    first = 0
    for item in items:
        parts = tuple(item) if isinstance(item, (tuple, list)) else (item,)
        if not 1 <= len(parts) <= 3:
            raise ValueError(
                f"{caller} needs batches x, (x, y) or (x, y, sample_weight); got {len(parts)} parts from a "
                f"{type(stream).__name__}. Several inputs are one part: ((a, b), y)."
            )
        x, y, weight = (*(None if part is None else as_arrays(part, caller) for part in parts), None, None)[:3]
        shapes = [array.shape for array in keras.tree.flatten((x, y, weight)) if array is not None]
        if len({shape[:1] for shape in shapes}) != 1 or not shapes[0]:
            raise ValueError(
                f"{caller} needs batches whose first axis is the examples; got one of shapes {_listed(shapes)} from a "
                f"{type(stream).__name__}. Of single examples make batches: dataset.batch(256)."
            )
        block = Block(x, y, weight, first)
        first += len(block)
        if len(block):
            yield block
    if not first:
        raise ValueError(
            f"{caller} needs at least one example; got a {type(stream).__name__} without any. A generator that was "
            "read before is empty: make it again."
        )


def _gathered(batches: Iterator[Block], rows: Callable[[Any], int] | None, caller: str) -> Iterator[Block]:
    """Yields batches together, as many as `rows` allows; batches of another shape begin a new group."""
    waiting: list[Block] = []
    count, limit = 0, None
    for block in batches:
        if waiting and _form(block) != _form(waiting[0]):
            if rows is None:
                raise ValueError(
                    f"{caller} needs batches of one shape; got {_form(waiting[0])} and {_form(block)} from one stream."
                )
            yield _together(waiting)
            waiting, count = [], 0
        if not waiting and rows is not None:
            limit = rows(block.x)
        waiting.append(block)
        count += len(block)
        if limit is not None and count >= limit:
            yield _together(waiting)
            waiting, count = [], 0
    if waiting:
        yield _together(waiting)


def _form(block: Block) -> list:
    return [None if part is None else part.shape[1:] for part in keras.tree.flatten((block.x, block.y, block.weight))]


def _together(parts: list[Block]) -> Block:
    if len(parts) == 1:
        return parts[0]
    x, y, weight = (
        None if given[0] is None else keras.tree.map_structure(lambda *arrays: np.concatenate(arrays), *given)
        for given in ([part.x for part in parts], [part.y for part in parts], [part.weight for part in parts])
    )
    return Block(x, y, weight, parts[0].first)


def _listed(shapes: list) -> str:
    shown = ", ".join(map(str, shapes[:4]))
    return f"{shown} and {len(shapes) - 4} more" if len(shapes) > 4 else shown
