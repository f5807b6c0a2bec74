"""Weights as layers see them: a drawn or mean matrix W (rows × columns) that can be applied, and nothing more.

`apply(x)` is x W, `rows(ids)` is W[ids], `columns(start, stop)` and `transposed()` are again such matrices, and
`convolve(x, by)` convolves x with the columns as filters, where `by(x, filters)` is the layer's convolution. None
forms W where a factored form is cheaper. `dense()` forms it.

In a training pass of a mixture every array has the components on an axis in front, and block k of the examples meets
component k: a product of matrices is one for each block.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any

import keras
from keras import ops

from singularbayes.posteriors.blocks import require_blocks

_EAGER = keras.backend.backend() == "torch"  # where what Keras does around a product can cost more than the product


def _as(w, x):
    return w if w.dtype == x.dtype else ops.cast(w, x.dtype)


def _turned(w):
    return w.transpose(-2, -1) if _EAGER else ops.swapaxes(w, -2, -1)


def _torch_product(x, a):
    """Returns x A, without a gradient as (Aᵀ xᵀ)ᵀ: for several draws of A at once that is one product of matrices."""
    import torch

    if torch.is_grad_enabled() or x.ndim != 2 or a.ndim != 2 or x.shape[0] == 1:
        return x @ a
    return (a.T @ x.T).T


class Matrix(ABC):
    """What all have: how blocks of examples are brought to their components."""

    @property
    @abstractmethod
    def components(self) -> int:
        """How many components lie on an axis in front; 0 without such an axis."""

    @abstractmethod
    def _product(self, x):
        """Returns x W; where W has an axis in front, x is (components, examples, rows)."""

    @abstractmethod
    def _rows(self, ids):
        """Returns W[ids], without an axis in front."""

    @abstractmethod
    def _convolve(self, x, by, groups):
        """Returns x convolved with the columns, without an axis in front."""

    @abstractmethod
    def dense(self) -> Any:
        """Returns W itself."""

    def apply(self, x):
        """Returns x W for x (…, rows)."""
        if not self.components:
            return self._product(x)
        require_blocks(self.components, x)
        y = self._product(ops.reshape(x, (self.components, -1, x.shape[-1])))
        return ops.reshape(y, (*ops.shape(x)[:-1], y.shape[-1]))

    def rows(self, ids):
        """Returns W[ids]."""
        return self._rows(ids) if not self.components else self._by_component(ids, lambda one, ids: one._rows(ids))

    def convolve(self, x, by, groups=1):
        """Returns x convolved with the columns as filters by the function `by`."""
        if not self.components:
            return self._convolve(x, by, groups)
        return self._by_component(x, lambda one, x: one._convolve(x, by, groups))

    def _by_component(self, x, function):
        """Returns function(W of a component, its examples) of all, one behind the other."""
        require_blocks(self.components, x)
        blocks = ops.reshape(x, (self.components, -1, *ops.shape(x)[1:]))
        return ops.concatenate([function(self._part(k), blocks[k]) for k in range(self.components)])

    def _part(self, component: int):
        """Returns the matrix of one component."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return replace(self, **{n: v if isinstance(v, bool) else v[component] for n, v in values.items()})  # type: ignore[type-var]


@dataclass(frozen=True)
class DenseMatrix(Matrix):
    """W itself."""

    w: Any  # (rows, columns)

    @property
    def components(self):
        return self.w.shape[0] if len(self.w.shape) == 3 else 0

    def _product(self, x):
        return ops.matmul(x, _as(self.w, x))

    def _convolve(self, x, by, groups):
        return by(x, _as(self.w, x))

    def _rows(self, ids):
        return ops.take(self.w, ids, axis=0)

    def columns(self, start: int, stop: int):
        return DenseMatrix(self.w[..., start:stop])

    def transposed(self):
        return DenseMatrix(_turned(self.w))

    def dense(self):
        return self.w


@dataclass(frozen=True)
class LowRankMatrix(Matrix):
    """W = A Bᵀ, applied as (x A) Bᵀ.

    >>> from keras import ops
    >>> w = LowRankMatrix(ops.ones((4, 2)), ops.ones((3, 2)))
    >>> w.apply(ops.ones((5, 4))).shape == (5, 3)
    True
    """

    a: Any  # (rows, rank)
    b: Any  # (columns, rank)

    @property
    def components(self):
        return self.a.shape[0] if len(self.a.shape) == 3 else 0

    def _product(self, x):
        a, b = _as(self.a, x), _as(self.b, x)
        if _EAGER:
            return _torch_product(x, a) @ b.transpose(-2, -1)  # ONNX has no mT
        return ops.matmul(ops.matmul(x, a), _turned(b))

    def _convolve(self, x, by, groups):
        # `rank` filters on every group of channels, then a 1 × 1 convolution of each group's outputs.
        a, b = _as(self.a, x), _as(self.b, x)
        if groups == 1:
            return ops.matmul(by(x, a), ops.transpose(b))
        columns, rank = self.b.shape
        z = by(x, ops.tile(a, (1, groups)))
        z = ops.reshape(z, (*ops.shape(z)[:-1], groups, rank))
        y = ops.einsum("...gr,gcr->...gc", z, ops.reshape(b, (groups, columns // groups, rank)))
        return ops.reshape(y, (*ops.shape(y)[:-2], columns))

    def _rows(self, ids):
        return ops.matmul(ops.take(self.a, ids, axis=0), ops.transpose(self.b))

    def columns(self, start: int, stop: int):
        return LowRankMatrix(self.a, self.b[..., start:stop, :])

    def transposed(self):
        return LowRankMatrix(self.b, self.a)

    def factors(self):
        """Returns A and Bᵀ as matrices of their own."""
        return DenseMatrix(self.a), DenseMatrix(_turned(self.b))

    def dense(self):
        return ops.matmul(self.a, _turned(self.b))


@dataclass(frozen=True)
class ScaledMatrix(Matrix):
    """W = W₀ ∘ (keep + u vᵀ), applied as keep · (x W₀) + ((x ∘ u) W₀) ∘ v."""

    w0: Any  # (rows, columns)
    u: Any  # (rows,)
    v: Any  # (columns,)
    keep: bool

    @property
    def components(self):
        return self.w0.shape[0] if len(self.w0.shape) == 3 else 0

    def _product(self, x):
        w0, u, v = _as(self.w0, x), _as(self.u, x), _as(self.v, x)
        if self.components:
            u, v = ops.expand_dims(u, 1), ops.expand_dims(v, 1)
        scaled = ops.matmul(x * u, w0) * v
        return ops.matmul(x, w0) + scaled if self.keep else scaled

    def _convolve(self, x, by, groups):
        # W₀ is dense already, and u scales positions of the filter, which no scaling of x can do.
        return by(x, _as(self.dense(), x))

    def _rows(self, ids):
        return ops.take(self.w0, ids, axis=0) * (self.keep + ops.expand_dims(ops.take(self.u, ids), -1) * self.v)

    def columns(self, start: int, stop: int):
        return ScaledMatrix(self.w0[..., start:stop], self.u, self.v[..., start:stop], self.keep)

    def transposed(self):
        return ScaledMatrix(_turned(self.w0), self.v, self.u, self.keep)

    def dense(self):
        return self.w0 * (self.keep + ops.expand_dims(self.u, -1) * ops.expand_dims(self.v, -2))


@dataclass(frozen=True)
class SumMatrix:
    """W = W₁ + W₂, applied as x W₁ + x W₂: neither is brought to the form of the other, or to its components."""

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
