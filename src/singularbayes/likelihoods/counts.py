"""Counts: Poisson, and negative binomial where they vary more than that."""

import math

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_positive
from singularbayes.likelihoods.base import Regression, export_moments, match_targets, split_scales
from singularbayes.likelihoods.noise_families import COUNTS

_SHIFT = 8  # log Γ by Stirling's series at z + 8 has single precision


@keras.saving.register_keras_serializable(package="singularbayes")
class Poisson(Regression):
    """−log Poisson(y; rate) summed over outputs, in nats.

    Args:
        log_rate: the outputs are logarithms of rates, so any number will do; else the rates, as Keras's "poisson" has.

    >>> round(float(Poisson()(np.array([[2.0]]), np.log([[3.0]]))), 4)  # 3 − 2 log 3 + log 2!
    1.4959
    """

    predicts_noise = True
    family = COUNTS
    arguments = ("log_rate",)

    def __init__(self, log_rate: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.log_rate = log_rate

    def call(self, y_true, y_pred):
        y = match_targets(self, y_true, y_pred)
        log_rate = y_pred if self.log_rate else ops.log(y_pred)
        return ops.sum(ops.exp(log_rate) - y * log_rate + _log_gamma(y + 1), axis=-1)

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        outputs = np.asarray(outputs, "float64")
        if not self.log_rate and outputs.size and outputs.min() < 0:
            raise ValueError(
                f"Keras's Poisson loss needs rates, numbers >= 0; got outputs down to {outputs.min():.3g}. Give the "
                "last layer activation='exponential' or 'softplus', or compile with singularbayes.Poisson()."
            )
        rate = np.exp(outputs) if self.log_rate else outputs
        return {"prediction": rate, "noise_variance": rate}

    def export(self, outputs) -> dict:
        rate = ops.exp(outputs) if self.log_rate else outputs
        return export_moments(rate, rate)


@keras.saving.register_keras_serializable(package="singularbayes")
class NegativeBinomial(Regression):
    """−log NB(y; mean, α) summed over outputs, in nats: counts whose variance is mean + α · mean².

    The last axis of the prediction holds the logarithms of all means, then as many raw dispersions ρ with
    α = softplus(ρ) + 10⁻⁶: a `Dense(2)` head, or `layers.LearnedNoise()` behind a `Dense(1)` for one α for all.

    Args:
        dispersion: α where it is known; the outputs are then the logarithms of the means alone.

    >>> round(float(NegativeBinomial(dispersion=0.5)(np.array([[2.0]]), np.log([[3.0]]))), 4)
    1.7556
    """

    predicts_noise = True
    family = COUNTS
    arguments = ("dispersion",)

    def __init__(self, dispersion: float | None = None, **kwargs):
        super().__init__(**kwargs)
        if dispersion is not None:
            require_positive("NegativeBinomial", dispersion=dispersion)
        self.dispersion = dispersion

    def call(self, y_true, y_pred):
        log_mean, alpha = self._parts(y_pred)
        y = match_targets(self, y_true, log_mean)
        return -ops.sum(_log_negative_binomial(y, log_mean, alpha), axis=-1)

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        log_mean, alpha = self._parts(np.asarray(outputs, "float64"))
        mean = np.exp(log_mean)
        return {"prediction": mean, "noise_variance": mean + alpha * mean**2}

    def export(self, outputs) -> dict:
        log_mean, alpha = self._parts(outputs)
        mean = ops.exp(log_mean)
        return export_moments(mean, mean + alpha * mean**2)

    def _parts(self, outputs):
        return split_scales(outputs) if self.dispersion is None else (outputs, self.dispersion)


def _log_negative_binomial(y, log_mean, alpha):
    """log Γ(y + r)/(Γ(r) y!) + y log m/(r + m) + r log r/(r + m) with r = 1/α, in an order without cancellation.

    With R = r + 8, Γ(y + r)/Γ(r) = Γ(y + R)/Γ(R) · ∏ (r + i)/(y + r + i), and Stirling's series gives the quotient.
    """
    mean, r = ops.exp(log_mean), 1 / alpha
    shifted = r + _SHIFT
    steps = sum(ops.log1p(y / (r + i)) for i in range(_SHIFT))
    quotient = (shifted - 0.5) * ops.log1p(y / shifted) + _stirling(shifted + y) - _stirling(shifted) - y - steps
    powers = y * (log_mean + ops.log1p((_SHIFT + y - mean) / (r + mean))) - r * ops.log1p(alpha * mean)
    return powers + quotient - _log_gamma(y + 1)


def _log_gamma(z):
    shifted = z + _SHIFT
    steps = sum(ops.log(z + i) for i in range(_SHIFT))
    return (shifted - 0.5) * ops.log(shifted) - shifted + 0.5 * math.log(2 * math.pi) + _stirling(shifted) - steps


def _stirling(z):
    """What is left of log Γ(z) after (z − ½) log z − z + ½ log 2π."""
    return 1 / (12 * z) - 1 / (360 * z**3)
