"""The outputs of a student that `distill` trains: the predictive mean, and the epistemic part beside it."""

from dataclasses import dataclass

import keras
import numpy as np
from keras import ops
from scipy import special

from singularbayes.likelihoods.base import (
    Classification,
    Moments,
    Regression,
    export_entropy,
    is_loss,
    one_column,
    softmax,
)
from singularbayes.likelihoods.class_predictive import ClassPredictive
from singularbayes.likelihoods.mean_scale import split_scales, split_scales_exactly
from singularbayes.likelihoods.value_predictive import ValuePredictive


@keras.saving.register_keras_serializable(package="singularbayes")
class DistilledClassesLoss(keras.losses.Loss):
    """Cross-entropy to the teacher's mean probabilities, and to the share of its entropy that is mutual information.

    Targets are the probabilities of all classes, then that share; outputs their logits.

    Args:
        draws: how many draws of the teacher the targets are made from.
    """

    def __init__(self, draws: int, reduction="sum_over_batch_size", name="distilled_classes", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.draws = draws

    def call(self, y_true, y_pred):
        y_true = ops.cast(y_true, y_pred.dtype)
        classes = -ops.sum(y_true[..., :-1] * ops.log_softmax(y_pred[..., :-1], axis=-1), axis=-1)
        return classes + ops.binary_crossentropy(y_true[..., -1], y_pred[..., -1], from_logits=True)

    def get_config(self):
        return {**super().get_config(), "draws": self.draws}


@keras.saving.register_keras_serializable(package="singularbayes")
class DistilledValuesLoss(keras.losses.Loss):
    """−log N(draws; mean, std²), averaged over the teacher's draws and summed over outputs.

    Targets are the means of all outputs, then their standard deviations over draws; outputs the means, then raw scales
    ρ with std = softplus(ρ) + 10⁻⁶.

    Args:
        draws: how many draws of the teacher the targets are made from.
        noise: the standard deviation of the teacher's noise, or None where it specifies none.
    """

    def __init__(
        self, draws: int, noise: float | None = None, reduction="sum_over_batch_size", name="distilled_values", **kwargs
    ):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.draws, self.noise = draws, noise

    def call(self, y_true, y_pred):
        mean, std = ops.split(ops.cast(y_true, y_pred.dtype), 2, axis=-1)
        found, scale = split_scales(y_pred)
        squares = ops.square(mean - found) + ops.square(std)
        return ops.sum(ops.log(scale) + 0.5 * squares / ops.square(scale), axis=-1)

    def get_config(self):
        return {**super().get_config(), "draws": self.draws, "noise": self.noise}


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class DistilledClasses(Classification):
    """Logits of all classes, then the logit of the share of the entropy that is mutual information.

    So probabilities sum to 1 and the mutual information lies between 0 and the entropy, whatever the outputs are.
    `std` is that of the Dirichlet distribution with this mean and, to second order, this mutual information.
    """

    draws: int

    @classmethod
    def from_loss(cls, loss) -> "DistilledClasses | None":
        return cls(loss.draws) if is_loss(loss, (DistilledClassesLoss,)) else None

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        return softmax(outputs[..., :-1])

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        probabilities = self.probabilities(outputs)
        share = special.expit(np.asarray(outputs[..., -1], "float64"))
        return {"prediction": probabilities, "entropy": (1 - share) * special.entr(probabilities).sum(axis=-1)}

    def predictive(self, moments: Moments, num_draws: int, draws: np.ndarray | None) -> ClassPredictive:
        mean, expected = moments["prediction"].mean, moments["entropy"].mean
        # MI ≈ Σ Var(p_k)/2p_k, and of a Dirichlet distribution Var(p_k) = p_k (1 − p_k)/(α + 1); Σ (1 − p_k) = K − 1.
        shrunk = 2 * np.maximum(special.entr(mean).sum(axis=-1) - expected, 0.0) / (mean.shape[-1] - 1)
        std = np.sqrt(mean * (1 - mean) * np.minimum(shrunk, 1.0)[..., None])
        return ClassPredictive(mean, std, self.draws, None, expected)

    def export(self, outputs) -> dict:
        mean = ops.softmax(outputs[0, ..., :-1], axis=-1)
        entropy = export_entropy(mean)
        information = entropy * ops.sigmoid(outputs[0, ..., -1])
        return {"mean": mean, "entropy": entropy, "mutual_information": information}


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class DistilledValues(Regression):
    """Means of all targets, then raw scales of their standard deviations over draws."""

    draws: int
    scale: float | None = None

    @classmethod
    def from_loss(cls, loss) -> "DistilledValues | None":
        return cls(loss.draws, loss.noise) if is_loss(loss, (DistilledValuesLoss,)) else None

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        mean, std = split_scales_exactly(outputs)
        return {"prediction": mean, "std": std}

    def predictive(self, moments: Moments, num_draws: int, draws: np.ndarray | None) -> ValuePredictive:
        mean, std = (moments[name].mean for name in ("prediction", "std"))
        return ValuePredictive(mean, std, self.draws, None, self.scale, self.family).in_one_column()

    def export(self, outputs) -> dict:
        mean, std = split_scales(outputs)
        return {"mean": one_column(mean)[0], "std": one_column(std)[0]}
