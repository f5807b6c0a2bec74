"""Which examples something was learned on, by their hashes: enough to notice that they come back."""

import hashlib
from dataclasses import dataclass

import keras
import numpy as np


def hashed(x) -> np.ndarray:
    """Returns a hash of every example, (examples,), unsigned integers of 64 bits.

    >>> len(hashed(np.arange(6.0).reshape(3, 2)))
    3
    """
    rows = zip(*(map(_row_bytes, np.asarray(array)) for array in keras.tree.flatten(x)), strict=True)
    return np.frombuffer(b"".join(hashlib.blake2b(b"".join(row), digest_size=8).digest() for row in rows), "uint64")


def _row_bytes(row: np.ndarray) -> bytes:
    """Returns a row in single precision, which is what a model is given, and what integers lose by it."""
    single = np.ascontiguousarray(row, "float32")
    if row.dtype.kind not in "iu":
        return single.tobytes()
    lost = row.astype("int64") - single.astype("float64").astype("int64")
    return single.tobytes() + (lost.tobytes() if lost.any() else b"")


@dataclass(frozen=True)
class Seen:
    """How many of the examples that were remembered came back."""

    count: int
    total: int

    @property
    def share(self) -> float:
        return self.count / self.total


def seen_among(remembered: np.ndarray, hashes: np.ndarray) -> Seen:
    """Returns how many of the remembered hashes are among others.

    >>> hashes = hashed(np.arange(200.0).reshape(100, 2))
    >>> seen_among(hashes[:50], hashes), seen_among(hashes[:50], hashes[50:])
    (Seen(count=50, total=50), Seen(count=0, total=50))
    """
    return Seen(int(np.isin(remembered, hashes).sum()), len(remembered))


def count_repeats(hashes: np.ndarray) -> int:
    """Returns how many examples look like an earlier one.

    >>> count_repeats(hashed(np.array([[1.0], [2.0], [1.0], [1.0]])))
    2
    """
    return len(hashes) - len(np.unique(hashes))
