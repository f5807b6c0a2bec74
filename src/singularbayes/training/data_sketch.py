"""Which examples something was learned on, in a few numbers: enough to notice that they come back."""

import hashlib
from collections import Counter
from dataclasses import dataclass

import keras
import numpy as np

_KEPT = 64  # with one example in twenty coming back, none of these does with probability 0.04


def sketch(x) -> dict:
    """Returns the number of examples and the smallest of their hashes, a random sample that needs no random numbers.

    >>> sketch(np.arange(6.0).reshape(3, 2))["examples"]
    3
    """
    hashes = _hashes(x)
    return {"examples": len(hashes), "hashes": sorted(set(hashes))[:_KEPT]}


def merged(first: dict | None, second: dict | None) -> dict | None:
    """Returns the sketch of what either has seen; None has seen nothing.

    >>> x = np.arange(200.0).reshape(100, 2)
    >>> merged(sketch(x[:50]), sketch(x[50:]))["hashes"] == sketch(x)["hashes"]
    True
    """
    if first is None or second is None:
        return first or second
    hashes = sorted({*first["hashes"], *second["hashes"]})[:_KEPT]
    return {"examples": first["examples"] + second["examples"], "hashes": hashes}


@dataclass(frozen=True)
class Seen:
    """How many of the examples in a sketch came back."""

    count: int
    of: int

    @property
    def share(self) -> float:
        return self.count / self.of


def seen_among(sketched: dict, x) -> Seen:
    """Returns how many of the sketched examples are among `x`.

    >>> x = np.arange(200.0).reshape(100, 2)
    >>> seen_among(sketch(x[:50]), x), seen_among(sketch(x[:50]), x[50:])
    (Seen(count=50, of=50), Seen(count=0, of=50))
    """
    hashes = set(_hashes(x))
    return Seen(sum(known in hashes for known in sketched["hashes"]), len(sketched["hashes"]))


def share_alike(x) -> float:
    """Returns the share of examples that look like another one.

    >>> share_alike(np.array([[1.0], [2.0], [1.0], [3.0]]))
    0.5
    """
    counts = Counter(_hashes(x))
    return sum(count for count in counts.values() if count > 1) / counts.total()


def _hashes(x) -> list[str]:
    # In single precision, which is what a model is given.
    arrays = [np.ascontiguousarray(array, "float32") for array in keras.tree.flatten(x)]
    rows = zip(*([row.tobytes() for row in array] for array in arrays), strict=True)
    return [hashlib.blake2b(b"".join(row), digest_size=8).hexdigest() for row in rows]
