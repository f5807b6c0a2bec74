"""A draw of many scalars, and their KL, in as few operations as the backend allows.

A step of a small network is mostly the number of its operations, and one of a large network how often it goes through
its weights. JAX compiles all of a step together. torch and TensorFlow run operation by operation and need a gradient
for each: there several arrays are drawn together, the noise of the draw also estimates the KL, and formulas have their
gradients written out where that saves operations.

Values are stacked (2, size): v and u, with loc = rates.loc · v and scale = softplus(rates.rho · u).
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from singularbayes.posteriors import families
from singularbayes.posteriors.families import softplus
from singularbayes.posteriors.noise import one_program

_BACKEND = keras.backend.backend()


class Rates(NamedTuple):
    """Learning rates of means and of ρ as multiples of the optimizer's.

    Adam's step does not depend on the gradient's scale, so storing loc / rates.loc trains loc at that rate.
    """

    loc: float = 1.0
    rho: float = 1.0


@one_program(1)
def loc_and_scale(values, rates: Rates):
    """Returns loc and scale from stacked values of any shape (2, …)."""
    # The gradient of a split is one concatenation; that of two slices is two padded arrays and their sum.
    v, u = ops.split(values, 2, axis=0)
    return rates.loc * ops.squeeze(v, 0), softplus(rates.rho * ops.squeeze(u, 0))


def draw(family, values, rates: Rates, key):
    """Returns loc + scale · noise, the noise that `key` names."""
    if family.name == "gaussian" and _BACKEND == "torch" and has_custom_gradients():
        return gaussian_arrays([values], rates, family.noise(tuple(values.shape[1:]), key)).samples()[0]
    loc, scale = loc_and_scale(values, rates)
    return loc + scale * family.noise(tuple(loc.shape), key)


def kl(prior, family, values, rates: Rates, next_key: Callable):
    """Returns KL(q ‖ p) summed over the weights, as `prior.kl` defines it."""
    if family.name == "gaussian" and has_kl_formula(prior) and has_custom_gradients():
        sampled = prior.mixture_constants is not None
        eps = family.noise(tuple(values.shape[1:]), next_key()) if sampled else None
        return gaussian_arrays([values], rates, eps).kls(prior)[0]
    return prior.kl(family, *loc_and_scale(values, rates), next_key)


def has_kl_formula(prior) -> bool:
    """Returns whether `kls` knows the KL to a prior."""
    return prior.mixture_constants is not None or prior.normal_scale is not None


def has_custom_gradients() -> bool:
    """Returns whether the formulas below apply: on torch not inside `torch.func`, which needs rules for them."""
    if _BACKEND != "torch":
        return _BACKEND == "tensorflow"
    import torch

    return not torch._C._are_functorch_transforms_active()


class GaussianArrays(ABC):
    """Gaussian scalars in several arrays of values with the same rates: one draw of all, and the KL of each array.

    Args:
        values: arrays (2, size).
        eps: the noise of the draw, for all arrays one after another; None where only a KL in closed form is wanted.
    """

    def __init__(self, values: list, rates: Rates, eps):
        self.values, self.rates, self.eps = values, rates, eps
        self.sizes = [array.shape[1] for array in values]

    @abstractmethod
    def samples(self) -> list:
        """Returns loc + scale · ε of each array."""

    @abstractmethod
    def kls(self, prior) -> list:
        """Returns the KL of each array, in nats: in closed form, or −Σ H(q) + log p(w) at w = loc + scale · ε."""


def gaussian_arrays(values: list, rates: Rates, eps) -> GaussianArrays:
    """Returns the scalars in arrays of values as torch or TensorFlow draws them."""
    return (_torch_arrays() if _BACKEND == "torch" else _TensorFlowArrays)(values, rates, eps)


@functools.cache
def _torch_arrays() -> Any:
    import torch
    from torch.autograd.function import once_differentiable
    from torch.nn.functional import softplus

    # `forward` with its context: the other form, which `torch.func` can transform, binds arguments by name in Python,
    # which costs more than the formulas. What a gradient needs is computed once and belongs to nobody else, so that it
    # needs no `save_for_backward`, and gradients of the loss and of the KL may be taken one after the other. There it
    # counts as a constant, so a second derivative is an error.
    class Draw(torch.autograd.Function):
        @staticmethod
        def forward(ctx, arrays, *values):
            ctx.arrays = arrays
            arrays.compute(values)
            return arrays.w.split(arrays.sizes)

        @staticmethod
        @once_differentiable
        def backward(ctx, *upstream):
            up = upstream[0] if len(upstream) == 1 else torch.cat(upstream)
            gradient = torch.stack([up * ctx.arrays.rates.loc, up * ctx.arrays.slope * ctx.arrays.eps])
            return None, *gradient.split(ctx.arrays.sizes, 1)

    class KL(torch.autograd.Function):
        @staticmethod
        def forward(ctx, arrays, prior, *values):
            arrays.compute(values)
            ctx.sizes, known = arrays.sizes, prior.mixture_constants
            each, ctx.gradient = arrays.normal_kl(prior.normal_scale) if known is None else arrays.mixture_kl(*known)
            return tuple(part.sum() for part in each.split(arrays.sizes))

        @staticmethod
        @once_differentiable
        def backward(ctx, *upstream):
            if len(upstream) == 1:
                return None, None, upstream[0] * ctx.gradient
            weights = torch.cat([one.expand(size) for one, size in zip(upstream, ctx.sizes, strict=True)])
            return None, None, *(weights * ctx.gradient).split(ctx.sizes, 1)

    class TorchArrays(GaussianArrays):
        loc: Any = None
        w: Any = None

        def samples(self):
            return list(Draw.apply(self, *self.values))

        def kls(self, prior):
            return list(KL.apply(self, prior, *self.values))

        def compute(self, values):
            """Computes ρ, scale and the draw of all arrays, once."""
            if self.loc is None:
                v, u = (values[0] if len(values) == 1 else torch.cat(values, 1)).unbind()
                self.loc = v if self.rates.loc == 1 else self.rates.loc * v
                self.rho = self.rates.rho * u
                self.scale = softplus(self.rho)
                if self.eps is not None:
                    self.w = torch.addcmul(self.loc, self.scale, self.eps)

        @functools.cached_property
        def slope(self):
            """The derivative of the scale by u; softplus′ = sigmoid."""
            return torch.sigmoid(self.rho).mul_(self.rates.rho)

        def normal_kl(self, sigma):
            """Returns ½ (loc² + scale²)/σ² − log(scale/σ) − ½ of every scalar, and its gradient."""
            square = torch.addcmul(self.loc * self.loc, self.scale, self.scale)
            each = square.mul_(0.5 / sigma**2).sub_(torch.log(self.scale)).add_(math.log(sigma) - 0.5)
            by_scale = (self.scale * sigma**-2).sub_(self.scale.reciprocal())
            return each, torch.stack([self.loc * (self.rates.loc * sigma**-2), by_scale.mul_(self.slope)])

        def mixture_kl(self, log_pi, sigma, peak, fall):
            """Returns the estimate of every scalar, and its gradient.

            log p(w) = log π + log N(w; 0, σ²) + log(1 + e^r) with r = peak − fall · w²/2; ½ log 2π cancels with H(q).
            """
            square = self.w * self.w
            ratio = (-0.5 * fall * square).add_(peak)
            each = square.mul_(0.5 / sigma**2).sub_(softplus(ratio)).sub_(torch.log(self.scale))
            by_w = torch.sigmoid(ratio).mul_(fall).add_(sigma**-2).mul_(self.w)
            by_u = (by_w * self.eps).sub_(self.scale.reciprocal()).mul_(self.slope)
            return each.sub_(0.5 + log_pi - math.log(sigma)), torch.stack([by_w * self.rates.loc, by_u])

    return TorchArrays


class _TensorFlowArrays(GaussianArrays):
    """As on torch, with TensorFlow's own gradients except for the mixture's KL, where they are longer."""

    def samples(self):
        import tensorflow as tf

        loc, rho = self._loc_and_rho(tf.concat(self.values, 1))
        return tf.split(loc + tf.math.softplus(rho) * self.eps, self.sizes)

    def kls(self, prior):
        import tensorflow as tf

        values = tf.concat(self.values, 1)
        if prior.mixture_constants is None:
            each = prior.each_kl(families.get_family("gaussian"), *loc_and_scale(values, self.rates), ops)
        else:
            each = self._mixture_kl(values, *prior.mixture_constants)
        return [tf.reduce_sum(part) for part in tf.split(each, self.sizes)]

    def _mixture_kl(self, values, log_pi, sigma, peak, fall):
        """Returns the estimate of every scalar, by the formulas on torch."""
        import tensorflow as tf

        @tf.custom_gradient
        def kl(values):
            loc, rho = self._loc_and_rho(values)
            scale = tf.math.softplus(rho)
            w = loc + scale * self.eps
            square = w * w
            ratio = peak - 0.5 * fall * square
            each = 0.5 / sigma**2 * square - (tf.math.softplus(ratio) + tf.math.log(scale))

            def gradient(upstream):
                by_w = w * (fall * tf.sigmoid(ratio) + sigma**-2)
                by_rho = (by_w * self.eps - 1.0 / scale) * tf.sigmoid(rho)
                parts = (self.rates.loc * upstream) * by_w, (self.rates.rho * upstream) * by_rho
                return tf.reshape(tf.concat(parts, 0), (2, -1))

            return each - (0.5 + log_pi - math.log(sigma)), gradient

        return kl(values)

    def _loc_and_rho(self, values):
        """Returns loc and ρ from values (2, size), whose gradient is a concatenation: twice as fast as a stack."""
        import tensorflow as tf

        v, u = tf.split(tf.reshape(values, (-1,)), 2)
        return v if self.rates.loc == 1 else self.rates.loc * v, self.rates.rho * u
