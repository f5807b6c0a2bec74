"""Arrays, tables and sparse matrices in memory, read row by row as NumPy arrays.

pandas, polars, torch and TensorFlow are recognised by where a class comes from, so none of them is imported.
"""

import dataclasses
from collections.abc import Callable, Mapping
from numbers import Number
from pathlib import PurePath

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


def readable_parts(x, caller: str):
    """Returns the arrays of data in memory in their structure; rows of numbers are one array."""
    leaves = keras.tree.flatten(x)
    if isinstance(x, (list, tuple)) and not any(len(getattr(leaf, "shape", ())) for leaf in leaves):
        for leaf in leaves:
            _readable(leaf, caller)  # a word or None among numbers
        return _array(_one_array(x, caller))
    if isinstance(x, Mapping) and not isinstance(x, dict):
        x = dict(x)
    if isinstance(x, dict):  # errors name the key
        return {key: readable_parts(part, f"{caller}, input {key!r},") for key, part in x.items()}
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
    package = package_of(leaf)
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
    if array.dtype.name == "bfloat16":  # of JAX or TensorFlow; NumPy does not take it for a number
        array = array.astype("float32")
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
        f"{caller} needs columns of numbers; got the column {name!r} of dtype {dtype}. Encode categories, "
        'table[name].astype("category").cat.codes; convert numbers that were read as text, astype("float32"); or drop '
        "the column."
    )


def _missing(caller: str, name, dtype: str, count: int, method: str) -> ValueError:
    return ValueError(
        f"{caller} needs values that are all there; got {count} missing in the column {name!r} of dtype {dtype}. Fill "
        f"them, table.{method}(value), or leave out their rows."
    )


def package_of(thing) -> str:
    """Returns the package that the class of an object, or one of its bases, comes from."""
    known = ("pandas", "polars", "tensorflow", "h5py", "zarr")
    roots = [base.__module__.partition(".")[0] for base in type(thing).__mro__]
    return next((root for root in roots if root in known), roots[0])
