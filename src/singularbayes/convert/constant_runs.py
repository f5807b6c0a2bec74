"""Arrays without the repeats in long runs of one value: widths of a prior that are all the same, and centres of 0.

It is exact, bit by bit, and a file says how large an array becomes before it is made.
"""

import math
from dataclasses import dataclass

import numpy as np

_LONG = 64  # equal values in a row that are worth two integers


@dataclass(frozen=True)
class Packed:
    """An array whose long runs are kept as one value each.

    Args:
        values: all of them in their order, of a long run the first alone; or the array itself, where it has none.
        runs: places in `values` and lengths of the long runs, (runs, 2).
    """

    values: np.ndarray
    runs: np.ndarray
    shape: tuple[int, ...]

    def require_whole(self) -> None:
        """Raises unless values and runs make up the shape, before an array of that size is made."""
        if self.runs.ndim != 2 or self.runs.shape[1] != 2 or self.runs.dtype.kind != "i":
            raise ValueError("runs that are not places and lengths")
        places, lengths = self.runs.astype("int64").T
        ordered = (np.diff(places) > 0).all() and (places >= 0).all() and (places < self.values.size).all()
        size = self.values.size + sum(length - 1 for length in lengths.tolist())
        if not ordered or (lengths < 1).any() or size != math.prod(self.shape):
            raise ValueError("runs that do not make up the shapes")

    def array(self) -> np.ndarray:
        repeats = np.ones(self.values.size, "int64")
        repeats[self.runs[:, 0]] = self.runs[:, 1]
        return np.repeat(self.values.reshape(-1), repeats).reshape(self.shape)


def pack(array: np.ndarray) -> Packed:
    """Returns an array without its long runs.

    >>> packed = pack(np.concatenate([np.arange(3.0), np.full(500, 0.1)]))
    >>> packed.values, packed.runs, packed.array().shape
    (array([0. , 1. , 2. , 0.1]), array([[  3, 500]]), (503,))
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(f"u{flat.dtype.itemsize}")  # −0 is not 0
    starts = np.flatnonzero(np.concatenate([[True], bits[1:] != bits[:-1]])) if flat.size else np.zeros(0, int)
    lengths = np.diff(np.append(starts, flat.size))
    long = lengths > _LONG
    if not long.any():
        return Packed(array, np.zeros((0, 2), int), array.shape)
    kept = np.ones(flat.size, bool)
    for start, length in zip(starts[long], lengths[long], strict=True):
        kept[start + 1 : start + length] = False
    places = np.cumsum(kept)[starts[long]] - 1
    return Packed(flat[kept], np.stack([places, lengths[long]], axis=1), array.shape)
