"""Counts: Poisson, and negative binomial where they vary more than that."""

import math
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_positive
from singularbayes.likelihoods.base import Regression, export_moments, is_loss, one_column
from singularbayes.likelihoods.gaussian import match_targets
from singularbayes.likelihoods.mean_scale import split_scales, split_scales_exactly
from singularbayes.likelihoods.noise_families import COUNTS, NoiseFamily

_SHIFT = 8  # log Γ by Stirling's series at z + 8 has single precision


@keras.saving.register_keras_serializable(package="singularbayes")
class PoissonNLL(keras.losses.Loss):
    """−log Poisson(y; rate) summed over outputs, in nats. The outputs are logarithms of rates, so any number will do.

    >>> round(float(PoissonNLL()(np.array([[2.0]]), np.log([[3.0]]))), 4)  # 3 − 2 log 3 + log 2!
    1.4959
    """

    def __init__(self, reduction="sum_over_batch_size", name="poisson_nll", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)

    def call(self, y_true, y_pred):
        y = match_targets("PoissonNLL", y_true, y_pred)
        return ops.sum(ops.exp(y_pred) - y * y_pred + _log_gamma(y + 1), axis=-1)


@keras.saving.register_keras_serializable(package="singularbayes")
class NegativeBinomialNLL(keras.losses.Loss):
    """−log NB(y; mean, α) summed over outputs, in nats: counts whose variance is mean + α · mean².

    The last axis of the prediction holds the logarithms of all means, then as many raw dispersions ρ with
    α = softplus(ρ) + 10⁻⁶: a `Dense(2)` head, or `layers.LearnedNoise()` behind a `Dense(1)` for one α for all.

    Args:
        dispersion: α where it is known; the outputs are then the logarithms of the means alone.

    >>> round(float(NegativeBinomialNLL(dispersion=0.5)(np.array([[2.0]]), np.log([[3.0]]))), 4)
    1.7556
    """

    def __init__(
        self,
        dispersion: float | None = None,
        reduction="sum_over_batch_size",
        name="negative_binomial_nll",
        **kwargs,
    ):
        super().__init__(reduction=reduction, name=name, **kwargs)
        if dispersion is not None:
            require_positive("NegativeBinomialNLL", dispersion=dispersion)
        self.dispersion = dispersion

    def call(self, y_true, y_pred):
        log_mean, alpha = split_scales(y_pred) if self.dispersion is None else (y_pred, self.dispersion)
        y = match_targets("NegativeBinomialNLL", y_true, log_mean)
        return -ops.sum(_log_negative_binomial(y, log_mean, alpha), axis=-1)

    def get_config(self):
        return {**super().get_config(), "dispersion": self.dispersion}


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class Poisson(Regression):
    """Counts; the outputs are the logarithms of their rates (`PoissonNLL`), or else the rates (Keras's "poisson").

    >>> Poisson(log_rate=False)  # predict(model, x, likelihood=…), where the compiled loss does not specify it
    Poisson(log_rate=False)
    """

    log_rate: bool = True
    predicts_noise = True

    @property
    def family(self) -> NoiseFamily:
        return COUNTS

    @classmethod
    def from_loss(cls, loss) -> "Poisson | None":
        if is_loss(loss, (PoissonNLL,)):
            return cls()
        return cls(log_rate=False) if is_loss(loss, (keras.losses.Poisson, keras.losses.poisson)) else None

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        outputs = np.asarray(outputs, "float64")
        if not self.log_rate and outputs.size and outputs.min() < 0:
            raise ValueError(
                f"Keras's Poisson loss needs rates, numbers >= 0; got outputs down to {outputs.min():.3g}. Give the "
                "last layer activation='exponential' or 'softplus', or compile with singularbayes.PoissonNLL()."
            )
        rate = np.exp(outputs) if self.log_rate else outputs
        return {"prediction": rate, "noise_variance": rate}

    def export(self, outputs) -> dict:
        rate = ops.exp(outputs) if self.log_rate else outputs
        return {**export_moments(rate), "noise": ops.sqrt(ops.mean(one_column(rate), axis=0))}


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class NegativeBinomial(Regression):
    """Counts of variance mean + α · mean², as `NegativeBinomialNLL` takes them; `dispersion` is α where it is known.

    >>> NegativeBinomial(dispersion=0.5)  # predict(model, x, likelihood=…), where the compiled loss does not specify it
    NegativeBinomial(dispersion=0.5)
    """

    dispersion: float | None = None
    predicts_noise = True

    @property
    def family(self) -> NoiseFamily:
        return COUNTS

    @classmethod
    def from_loss(cls, loss) -> "NegativeBinomial | None":
        return cls(loss.dispersion) if is_loss(loss, (NegativeBinomialNLL,)) else None

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        if self.dispersion is None:
            log_mean, alpha = split_scales_exactly(outputs)
        else:
            log_mean, alpha = np.asarray(outputs, "float64"), np.array(self.dispersion)
        mean = np.exp(log_mean)
        return {"prediction": mean, "noise_variance": mean + alpha * mean**2}

    def export(self, outputs) -> dict:
        log_mean, alpha = split_scales(outputs) if self.dispersion is None else (outputs, self.dispersion)
        mean = ops.exp(log_mean)
        return {**export_moments(mean), "noise": ops.sqrt(ops.mean(one_column(mean + alpha * mean**2), axis=0))}


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
