"""A draw of many scalars, and their KL, in as few operations as the backend allows.

A step of a small network is mostly the number of its operations, and one of a large network how often it goes through
its weights. JAX compiles all of a step together. torch and TensorFlow run operation by operation and need a gradient
for each: there the formulas have their gradients written out, but for the draw on TensorFlow, whose own gradient is as
short.

Values are stacked (2, size): loc and u, with scale = softplus(rho_lr · u).
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from singularbayes.posteriors.families import softplus
from singularbayes.posteriors.noise import one_program

_BACKEND = keras.backend.backend()


@one_program(1)
def loc_and_scale(values, rho_lr: float):
    """Returns loc and scale from stacked values of any shape (2, …)."""
    # The gradient of a split is one concatenation; that of two slices is two padded arrays and their sum.
    loc, u = ops.split(values, 2, axis=0)
    return ops.squeeze(loc, 0), softplus(rho_lr * ops.squeeze(u, 0))


def draw(family, values, rho_lr: float, key):
    """Returns loc + scale · noise, the noise that `key` names."""
    if family.name == "gaussian" and _BACKEND == "torch" and _written_out():
        return _torch_functions().draw(values, family.noise(tuple(values.shape[1:]), key), rho_lr)
    loc, scale = loc_and_scale(values, rho_lr)
    return loc + scale * family.noise(tuple(loc.shape), key)


def kl(prior, family, values, rho_lr: float, next_key: Callable):
    """Returns KL(q ‖ p) summed over the weights, as `prior.kl` defines it."""
    if family.name == "gaussian" and prior.mixture_constants is not None and _written_out():
        eps = family.noise(tuple(values.shape[1:]), next_key())
        mixture_kl = _torch_functions().mixture_kl if _BACKEND == "torch" else _mixture_kl_on_tensorflow
        return mixture_kl(values, eps, rho_lr, *prior.mixture_constants)
    return prior.kl(family, *loc_and_scale(values, rho_lr), next_key)


def _written_out() -> bool:
    """Returns whether gradients that are written out apply; on torch not inside `torch.func`, which needs rules."""
    if _BACKEND != "torch":
        return _BACKEND == "tensorflow"
    import torch

    return not torch._C._are_functorch_transforms_active()


@functools.cache
def _torch_functions() -> Any:
    import torch
    from torch.nn.functional import softplus

    # `forward` with its context: the other form, which `torch.func` can transform, binds arguments by name in Python,
    # which costs more than the formulas.
    class Draw(torch.autograd.Function):
        @staticmethod
        def forward(ctx, values, eps, rho_lr):
            ctx.rho_lr = rho_lr
            ctx.save_for_backward(values, eps)
            return torch.addcmul(values[0], softplus(rho_lr * values[1]), eps)

        @staticmethod
        def backward(ctx, upstream):
            values, eps = ctx.saved_tensors
            slope = torch.sigmoid(ctx.rho_lr * values[1]).mul_(eps)  # softplus′ = sigmoid
            return torch.stack([upstream, slope.mul_(upstream).mul_(ctx.rho_lr)]), None, None

    class MixtureKL(torch.autograd.Function):
        """−Σ H(q) + log p(w) with w = loc + scale · ε; its gradient is computed with it.

        log p(w) = log π + log N(w; 0, σ²) + log(1 + e^r) with r = peak − fall · w²/2.
        """

        @staticmethod
        def forward(ctx, values, eps, rho_lr, log_pi, sigma, peak, fall):
            rho = rho_lr * values[1]
            scale = softplus(rho)
            w = torch.addcmul(values[0], scale, eps)
            square = w * w
            ratio = (-0.5 * fall * square).add_(peak)
            constant = 0.5 + log_pi - math.log(sigma)  # of H(q) and log N: ½ log 2π cancels
            value = 0.5 / sigma**2 * square.sum() - softplus(ratio).add_(torch.log(scale)).sum()
            if ctx.needs_input_grad[0]:
                slope = torch.sigmoid(ratio).mul_(fall).add_(sigma**-2).mul_(w)  # by w
                by_rho = (slope * eps).sub_(scale.reciprocal()).mul_(torch.sigmoid(rho)).mul_(rho_lr)
                ctx.save_for_backward(torch.stack([slope, by_rho]))
            return value - w.numel() * constant

        @staticmethod
        def backward(ctx, upstream):
            return upstream * ctx.saved_tensors[0], None, None, None, None, None, None

    class Functions:
        draw, mixture_kl = Draw.apply, MixtureKL.apply

    return Functions


def _mixture_kl_on_tensorflow(values, eps, rho_lr, log_pi, sigma, peak, fall):
    """Returns what `MixtureKL` does on torch."""
    import tensorflow as tf

    @tf.custom_gradient
    def kl(values):
        loc, u = tf.unstack(values)
        rho = rho_lr * u
        scale = tf.math.softplus(rho)
        w = loc + scale * eps
        square = w * w
        ratio = peak - 0.5 * fall * square
        constant = 0.5 + log_pi - math.log(sigma)
        value = 0.5 / sigma**2 * tf.reduce_sum(square) - tf.reduce_sum(tf.math.softplus(ratio) + tf.math.log(scale))

        def gradient(upstream):
            slope = w * (fall * tf.sigmoid(ratio) + sigma**-2)
            by_rho = (slope * eps - 1.0 / scale) * tf.sigmoid(rho)
            return tf.stack([upstream * slope, (rho_lr * upstream) * by_rho])

        return value - constant * math.prod(eps.shape), gradient

    return kl(tf.convert_to_tensor(values))
