"""Weights as layers see them: one drawn or mean matrix W (rows × columns) that can be applied, and nothing more.

`apply(x)` is x W, `rows(ids)` is W[ids], `columns(start, stop)` and `transposed()` are again such matrices, and
`convolve(x, by)` convolves x with the columns as filters, where `by(x, filters)` is the layer's convolution. None
forms W where a factored form is cheaper. `dense()` forms it.
"""

from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

_EAGER = keras.backend.backend() == "torch"  # where what Keras does around a product can cost more than the product


def _as(w, x):
    return w if w.dtype == x.dtype else ops.cast(w, x.dtype)


def _torch_product(x, a):
    """Returns x A, without a gradient as (Aᵀ xᵀ)ᵀ: for several draws of A at once that is one product of matrices."""
    import torch

    if torch.is_grad_enabled() or x.ndim != 2 or x.shape[0] == 1:
        return x @ a
    return (a.T @ x.T).T


@dataclass(frozen=True)
class DenseMatrix:
    """W itself."""

    w: Any  # (rows, columns)

    def apply(self, x):
        return ops.matmul(x, _as(self.w, x))

    def convolve(self, x, by, groups=1):
        return by(x, _as(self.w, x))

    def rows(self, ids):
        return ops.take(self.w, ids, axis=0)

    def columns(self, start: int, stop: int):
        return DenseMatrix(self.w[:, start:stop])

    def transposed(self):
        return DenseMatrix(ops.transpose(self.w))

    def dense(self):
        return self.w


@dataclass(frozen=True)
class LowRankMatrix:
    """W = A Bᵀ, applied as (x A) Bᵀ.

    >>> from keras import ops
    >>> w = LowRankMatrix(ops.ones((4, 2)), ops.ones((3, 2)))
    >>> w.apply(ops.ones((5, 4))).shape == (5, 3)
    True
    """

    a: Any  # (rows, rank)
    b: Any  # (columns, rank)

    def apply(self, x):
        a, b = _as(self.a, x), _as(self.b, x)
        if _EAGER:
            return _torch_product(x, a) @ b.T
        return ops.matmul(ops.matmul(x, a), ops.transpose(b))

    def convolve(self, x, by, groups=1):
        # `rank` filters on every group of channels, then a 1 × 1 convolution of each group's outputs.
        a, b = _as(self.a, x), _as(self.b, x)
        if groups == 1:
            return ops.matmul(by(x, a), ops.transpose(b))
        columns, rank = self.b.shape
        z = by(x, ops.tile(a, (1, groups)))
        z = ops.reshape(z, (*ops.shape(z)[:-1], groups, rank))
        y = ops.einsum("...gr,gcr->...gc", z, ops.reshape(b, (groups, columns // groups, rank)))
        return ops.reshape(y, (*ops.shape(y)[:-2], columns))

    def rows(self, ids):
        return ops.matmul(ops.take(self.a, ids, axis=0), ops.transpose(self.b))

    def columns(self, start: int, stop: int):
        return LowRankMatrix(self.a, self.b[start:stop])

    def transposed(self):
        return LowRankMatrix(self.b, self.a)

    def factors(self):
        """Returns A and Bᵀ as matrices of their own."""
        return DenseMatrix(self.a), DenseMatrix(ops.transpose(self.b))

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

    def convolve(self, x, by, groups=1):
        # W₀ is dense already, and u scales positions of the filter, which no scaling of x can do.
        return by(x, _as(self.dense(), x))

    def rows(self, ids):
        return ops.take(self.w0, ids, axis=0) * (self.keep + ops.expand_dims(ops.take(self.u, ids), -1) * self.v)

    def columns(self, start: int, stop: int):
        return ScaledMatrix(self.w0[:, start:stop], self.u, self.v[start:stop], self.keep)

    def transposed(self):
        return ScaledMatrix(ops.transpose(self.w0), self.v, self.u, self.keep)

    def dense(self):
        return self.w0 * (self.keep + ops.outer(self.u, self.v))


@dataclass(frozen=True)
class SumMatrix:
    """W = W₁ + W₂, applied as x W₁ + x W₂: neither is brought to the form of the other."""

    first: Any
    second: Any

    def apply(self, x):
        return self.first.apply(x) + self.second.apply(x)

    def convolve(self, x, by, groups=1):
        return self.first.convolve(x, by, groups) + self.second.convolve(x, by, groups)

    def rows(self, ids):
        return self.first.rows(ids) + self.second.rows(ids)

    def columns(self, start: int, stop: int):
        return SumMatrix(self.first.columns(start, stop), self.second.columns(start, stop))

    def transposed(self):
        return SumMatrix(self.first.transposed(), self.second.transposed())

    def dense(self):
        return self.first.dense() + self.second.dense()
