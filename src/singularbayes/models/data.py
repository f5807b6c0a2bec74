"""Data of every kind as NumPy arrays: arrays, tables and sparse matrices in memory, and streams of batches.

pandas, polars, torch and TensorFlow are recognised by where a class comes from, so none of them is imported. A stream
(tf.data, torch DataLoader, PyDataset, a generator) is read once, in its own order, and never held as a whole: it may
come in another order when it is read again.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from numbers import Number
from pathlib import PurePath
from typing import Any

import keras
import numpy as np
from scipy import sparse

from singularbayes.checks import require_unmasked


@dataclasses.dataclass(frozen=True)
class Readable:
    """An array in memory of any package: its shape, and `read(first, last)`, which returns rows as a NumPy array."""

    shape: tuple[int, ...]
    read: Callable[[int, int], np.ndarray]
    copies: bool = True  # reading all of it takes memory of its own


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
        lambda part: part.read(0, part.shape[0]) if part.shape else part.read(0, 1), _parts(x, caller)
    )


def one_example(x, caller: str = "singularbayes"):
    """Returns one example, to see the form of data in memory without reading all."""
    return keras.tree.map_structure(lambda part: part.read(0, 1), _parts(x, caller))


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
    parts = _parts(x, caller)
    data = (parts, None if y is None else _parts(y, caller), None if weight is None else _parts(weight, caller))
    lengths = {part.shape[0] if part.shape else 0 for part in keras.tree.flatten(data) if part is not None}
    if len(lengths) != 1 or 0 in lengths:
        shapes = [part.shape for part in keras.tree.flatten(data) if part is not None]
        raise ValueError(
            f"{caller} needs data with one and the same number of examples >= 1; got shapes {_listed(shapes)}."
        )
    (total,) = lengths
    example = keras.tree.map_structure(lambda part: part.read(0, 1), parts)
    split = split_arrays or any(part.copies for part in keras.tree.flatten(parts))
    size = rows(example) if rows is not None and split else total
    for first in range(0, total, size):
        x, y, weight = map(partial(_read, first=first, last=min(total, first + size)), data)
        yield Block(x, y, weight, first)


def _read(parts, first: int, last: int):
    return None if parts is None else keras.tree.map_structure(lambda part: part.read(first, last), parts)


def is_stream(x) -> bool:
    """Whether data come as batches, one after another, rather than as arrays."""
    if isinstance(x, keras.utils.PyDataset):
        return True
    plain = isinstance(x, (str, bytes, Mapping, list, tuple, set, frozenset, Number))
    arrays = hasattr(x, "__array__") or sparse.issparse(x) or _package(x) in ("pandas", "polars")
    return not plain and not arrays and hasattr(x, "__iter__")


def _batches(stream, caller: str) -> Iterator[Block]:
    """Yields the batches of a stream."""
    infinite = getattr(stream, "num_batches", 0) is None
    if _package(stream) == "tensorflow":
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
            "read before is empty: make it anew."
        )


def _gathered(batches: Iterator[Block], rows: Callable[[Any], int] | None, caller: str) -> Iterator[Block]:
    """Yields batches together, as many as `rows` allows; batches of another shape, such as longer ones, begin anew."""
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


def _parts(x, caller: str):
    """Returns the arrays of data in memory in their structure; rows of numbers are one array."""
    leaves = keras.tree.flatten(x)
    if isinstance(x, (list, tuple)) and not any(len(getattr(leaf, "shape", ())) for leaf in leaves):
        for leaf in leaves:
            _readable(leaf, caller)  # a word or None among numbers
        return _array(_one_array(x, caller))
    if isinstance(x, Mapping) and not isinstance(x, dict):
        x = dict(x)
    if isinstance(x, dict):  # errors name the key
        return {key: _parts(part, f"{caller}, input {key!r},") for key, part in x.items()}
    return keras.tree.map_structure(lambda leaf: _readable(leaf, caller), x)


def _one_array(rows, caller: str) -> np.ndarray:
    try:
        return np.asarray(rows)
    except ValueError:
        raise ValueError(
            f"{caller} needs rows of one length; got a list with rows of different lengths. Fill up the shorter ones: "
            "keras.utils.pad_sequences(rows)."
        ) from None


def _array(array: np.ndarray) -> Readable:
    return Readable(array.shape, lambda first, last: array[first:last] if array.ndim else array, copies=False)


def _readable(leaf, caller: str) -> Readable:
    """Returns what reads the rows of one array, table or sparse matrix; raises where it holds no numbers."""
    require_unmasked(caller, **{"the data": leaf})
    package = _package(leaf)
    if package == "pandas":
        return _pandas(leaf, caller)
    if package == "polars":
        return _polars(leaf, caller)
    if sparse.issparse(leaf):
        rows = leaf.tocsr()
        return Readable(rows.shape, lambda first, last: rows[first:last].toarray())
    if hasattr(leaf, "detach"):  # a tensor of torch, perhaps on an accelerator or with a gradient
        leaf = leaf.detach().cpu()
        leaf = leaf.float() if leaf.dtype.itemsize == 2 and leaf.is_floating_point() else leaf
    if not isinstance(leaf, Number) and not hasattr(leaf, "__array__"):
        got = repr(leaf) if isinstance(leaf, str) or leaf is None else f"a {type(leaf).__name__}"
        raise TypeError(f"{caller} needs arrays, tables, or batches of them; got {got}. {_remedy(leaf)}")
    if package in ("h5py", "zarr"):  # files, which are read as far as they are needed
        return Readable(tuple(leaf.shape), lambda first, last: np.asarray(leaf[first:last]))
    array = np.asarray(leaf)
    if array.dtype.kind == "O":
        example = next((type(value).__name__ for value in array.flat if not isinstance(value, Number)), "Python object")
        raise TypeError(
            f"{caller} needs arrays of numbers; got an array of dtype object that holds a {example}. Make it numbers: "
            'array.astype("float32").'
        )
    return _array(array)


def _remedy(leaf) -> str:
    if isinstance(leaf, (str, bytes, PurePath)):
        return "Read the file first: np.load(path)."
    if callable(leaf) and not hasattr(leaf, "__getitem__"):
        return "Call the function, and give what it returns."
    if hasattr(leaf, "__getitem__") and hasattr(leaf, "__len__"):
        return "Of a data set of single examples make batches: torch.utils.data.DataLoader(dataset, batch_size=256)."
    if hasattr(leaf, "collect"):
        return "Call its collect() first."
    return "Make it a NumPy array."


def _pandas(table, caller: str) -> Readable:
    # By position, because two columns may have one name.
    columns = list(table.dtypes.items()) if table.ndim == 2 else [(table.name, table.dtype)]
    kinds = []
    for position, (name, dtype) in enumerate(columns):
        plain = getattr(dtype, "numpy_dtype", getattr(dtype, "subtype", dtype))  # of nullable and of sparse columns
        if not isinstance(plain, np.dtype) or plain.kind not in "fiub":
            raise _wrong_column(caller, name, str(dtype))
        column = table.iloc[:, position] if table.ndim == 2 else table
        missing = 0 if dtype is plain else int(column.isna().sum())
        if missing:
            raise _missing(caller, name, str(dtype), missing, "fillna")
        kinds.append(plain)
    kind = np.result_type(*kinds) if kinds else np.dtype("float64")
    return Readable(table.shape, lambda first, last: table.iloc[first:last].to_numpy(dtype=kind))


def _polars(table, caller: str) -> Readable:
    if not hasattr(table, "shape"):
        raise TypeError(
            f"{caller} needs data in memory; got a polars {type(table).__name__}. Call its collect() first."
        )
    for column in table.get_columns() if hasattr(table, "get_columns") else [table]:
        if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean") or column.dtype.is_decimal():
            raise _wrong_column(caller, column.name, str(column.dtype))
        if column.null_count():
            raise _missing(caller, column.name, str(column.dtype), column.null_count(), "fill_null")
    return Readable(tuple(table.shape), lambda first, last: np.asarray(table[first:last].to_numpy()))


def _wrong_column(caller: str, name, dtype: str) -> TypeError:
    return TypeError(
        f"{caller} needs columns of numbers; got the column {name!r} of dtype {dtype}. Of classes take codes, "
        'table[name].astype("category").cat.codes; of numbers that were read as text, astype("float32"); else leave it '
        "out."
    )


def _missing(caller: str, name, dtype: str, count: int, method: str) -> ValueError:
    return ValueError(
        f"{caller} needs values that are all there; got {count} missing in the column {name!r} of dtype {dtype}. Fill "
        f"them, table.{method}(value), or leave out their rows."
    )


def _package(thing) -> str:
    """Returns the package that the class of an object, or one of its bases, comes from."""
    known = ("pandas", "polars", "tensorflow", "h5py", "zarr")
    roots = [base.__module__.partition(".")[0] for base in type(thing).__mro__]
    return next((root for root in roots if root in known), roots[0])


def _listed(shapes: list) -> str:
    shown = ", ".join(map(str, shapes[:4]))
    return f"{shown} and {len(shapes) - 4} more" if len(shapes) > 4 else shown
