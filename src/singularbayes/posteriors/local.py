"""Local reparameterisation: the outputs x W drawn per example, without drawing W.

For independent Gaussian weights, x W given x is Gaussian with mean x μ and variance x² σ². With W = A Bᵀ that holds
twice: z = x A given x, then y = z Bᵀ given z. Every example gets its own noise, so gradients vary less than with one
shared draw. Exact only when an example uses the weight once.
"""

from dataclasses import dataclass
from typing import Any

from keras import ops

from singularbayes.posteriors import noise

# sqrt has no slope at 0: an example whose inputs are all zero has no noise and must give no gradient, not NaN.
_TINY = 1e-16


def _outputs(x, loc, variance, eps):
    std = ops.sqrt(ops.maximum(ops.matmul(x * x, variance), _TINY))
    return ops.matmul(x, loc) + std * eps


@dataclass(frozen=True)
class LocalDense:
    """y ~ N(x μ, x² σ²)."""

    factor: Any
    key: Any

    def apply(self, x):
        eps = noise.normal((ops.shape(x)[0], self.factor.shape[1]), self.key)
        y = _outputs(ops.cast(x, "float32"), self.factor.loc, self.factor.variance, eps)
        return ops.cast(y, x.dtype)


@dataclass(frozen=True)
class LocalLowRank:
    """z ~ N(x μ_A, x² σ_A²), then y ~ N(z μ_Bᵀ, z² σ_B²ᵀ)."""

    loc_a: Any  # (rows, rank)
    var_a: Any
    loc_b: Any  # (columns, rank)
    var_b: Any
    key: Any

    def apply(self, x):
        columns, rank = self.loc_b.shape
        eps = noise.normal((ops.shape(x)[0], rank + columns), self.key)
        z = _outputs(ops.cast(x, "float32"), self.loc_a, self.var_a, eps[:, :rank])
        y = _outputs(z, ops.transpose(self.loc_b), ops.transpose(self.var_b), eps[:, rank:])
        return ops.cast(y, x.dtype)
