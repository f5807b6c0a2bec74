"""Weights as layers see them: one drawn or mean matrix W (rows × columns) that can be applied, and nothing more.

`apply(x)` is x W and `rows(ids)` is W[ids]; neither forms W where a factored form is cheaper. `dense()` forms it.
"""

from dataclasses import dataclass
from typing import Any

from keras import ops


def _as(w, x):
    return ops.cast(w, x.dtype)


@dataclass(frozen=True)
class DenseMatrix:
    """W itself."""

    w: Any  # (rows, columns)

    def apply(self, x):
        return ops.matmul(x, _as(self.w, x))

    def rows(self, ids):
        return ops.take(self.w, ids, axis=0)

    def dense(self):
        return self.w


@dataclass(frozen=True)
class LowRankMatrix:
    """W = A Bᵀ, applied as (x A) Bᵀ."""

    a: Any  # (rows, rank)
    b: Any  # (columns, rank)

    def apply(self, x):
        return ops.matmul(ops.matmul(x, _as(self.a, x)), ops.transpose(_as(self.b, x)))

    def rows(self, ids):
        return ops.matmul(ops.take(self.a, ids, axis=0), ops.transpose(self.b))

    def dense(self):
        return ops.matmul(self.a, ops.transpose(self.b))


@dataclass(frozen=True)
class ScaledMatrix:
    """W = W₀ ∘ (keep + u vᵀ), applied as keep · (x W₀) + ((x ∘ u) W₀) ∘ v."""

    w0: Any  # (rows, columns)
    u: Any  # (rows,), or (examples, rows) when each example has its own
    v: Any  # (columns,), or (examples, columns)
    keep: bool

    def apply(self, x):
        w0 = _as(self.w0, x)
        scaled = ops.matmul(x * _as(self.u, x), w0) * _as(self.v, x)
        return ops.matmul(x, w0) + scaled if self.keep else scaled

    def rows(self, ids):
        return ops.take(self.w0, ids, axis=0) * (self.keep + ops.expand_dims(ops.take(self.u, ids), -1) * self.v)

    def dense(self):
        return self.w0 * (self.keep + ops.outer(self.u, self.v))


@dataclass(frozen=True)
class DenseRows:
    """Rows of a drawn W, each made when it is asked for."""

    factor: Any
    key: Any

    def rows(self, ids):
        return self.factor.sample_rows(self.key, ids)


@dataclass(frozen=True)
class LowRankRows:
    """Rows of a drawn W = A Bᵀ; a row of A is made when it is asked for."""

    factor: Any  # of A
    key: Any
    b: Any  # (columns, rank)

    def rows(self, ids):
        return ops.matmul(self.factor.sample_rows(self.key, ids), ops.transpose(self.b))
