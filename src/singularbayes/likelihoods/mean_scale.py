"""Regression with noise that the model predicts."""

from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from singularbayes.likelihoods.base import Regression, export_moments, is_loss, one_column
from singularbayes.likelihoods.gaussian import match_targets

MIN_SCALE = 1e-6  # so that a target hit exactly has a finite density


@keras.saving.register_keras_serializable(package="singularbayes")
class MeanScaleNLL(keras.losses.Loss):
    """−log N(y; mean, scale²) summed over outputs, in nats: regression with noise that the model predicts.

    The last axis of the prediction holds the means of all outputs, then as many raw scales ρ with
    scale = softplus(ρ) + 10⁻⁶. A `Dense(2)` head gives every example its own noise; `layers.LearnedNoise()` behind a
    `Dense(1)` learns one for all.

    >>> rho = np.log(np.expm1(0.5))
    >>> round(float(MeanScaleNLL()(np.ones((1, 1)), np.array([[0.8, rho]]))), 4)
    0.3058
    """

    def __init__(self, reduction="sum_over_batch_size", name="mean_scale_nll", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)

    def call(self, y_true, y_pred):
        mean, scale = split_scales(y_pred)
        ratio = (mean - match_targets("MeanScaleNLL", y_true, mean)) / scale
        return ops.sum(0.5 * ratio * ratio + ops.log(scale) + float(0.5 * np.log(2 * np.pi)), axis=-1)


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class MeanScale(Regression):
    """The mean of a Gaussian and its raw scale ρ, as `MeanScaleNLL` takes them.

    >>> MeanScale()  # predict(model, x, likelihood=…), where the compiled loss does not specify it
    MeanScale()
    """

    predicts_noise = True

    @classmethod
    def from_loss(cls, loss) -> "MeanScale | None":
        return cls() if is_loss(loss, (MeanScaleNLL,)) else None

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        mean, scale = split_scales_exactly(outputs)
        return {"prediction": mean, "noise_variance": scale**2}

    def export(self, outputs) -> dict:
        mean, scale = split_scales(outputs)
        return {**export_moments(mean), "noise": ops.sqrt(ops.mean(ops.square(one_column(scale)), axis=0))}


def split_scales(outputs):
    """Returns the first half of the last axis, and scales softplus(ρ) + 10⁻⁶ of the second half, as tensors."""
    _require_even(outputs.shape)
    mean, rho = ops.split(outputs, 2, axis=-1)
    return mean, ops.softplus(rho) + MIN_SCALE


def split_scales_exactly(outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the same in float64."""
    _require_even(outputs.shape)
    mean, rho = np.split(np.asarray(outputs, "float64"), 2, axis=-1)
    return mean, np.logaddexp(0.0, rho) + MIN_SCALE


def _require_even(shape) -> None:
    if shape[-1] % 2:
        raise ValueError(
            "A mean and a scale need two outputs for every target, the means first; got outputs of shape (examples, …, "
            f"{shape[-1]}). Double the units of the last layer, or put layers.LearnedNoise() behind it."
        )
