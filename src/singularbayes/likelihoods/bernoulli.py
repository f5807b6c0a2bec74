"""Two classes in one output, or labels that do not exclude each other, one output each."""

from dataclasses import dataclass

import keras
import numpy as np
from keras import ops
from scipy import special

from singularbayes.likelihoods.base import (
    Classification,
    Moments,
    export_probabilities,
    is_loss,
    require_probabilities,
)
from singularbayes.likelihoods.class_predictive import LabelPredictive, binary_entropy
from singularbayes.likelihoods.predictive import Predictive


@keras.saving.register_keras_serializable(package="singularbayes")
class BernoulliNLL(keras.losses.Loss):
    """−log p(y) summed over outputs, in nats: for labels that do not exclude each other, one output each.

    Keras's BinaryCrossentropy has the mean over k outputs, so the KL weighs k times as much beside it.

    Args:
        from_logits: the outputs are logits, else probabilities.

    >>> round(float(BernoulliNLL()(np.array([[1, 0]]), np.zeros((1, 2)))), 4)  # 2 log 2
    1.3863
    """

    def __init__(self, from_logits: bool = True, reduction="sum_over_batch_size", name="bernoulli_nll", **kwargs):
        super().__init__(reduction=reduction, name=name, **kwargs)
        self.from_logits = from_logits

    def call(self, y_true, y_pred):
        if len(y_true.shape) == len(y_pred.shape) - 1 and y_pred.shape[-1] == 1:
            y_true = ops.expand_dims(y_true, -1)
        if len(y_true.shape) != len(y_pred.shape) or y_true.shape[-1] != y_pred.shape[-1]:
            raise ValueError(
                f"BernoulliNLL needs labels in the shape of the outputs, {y_pred.shape}; got {y_true.shape}."
            )
        y = ops.cast(y_true, y_pred.dtype)
        return ops.sum(ops.binary_crossentropy(y, y_pred, from_logits=self.from_logits), axis=-1)

    def get_config(self):
        return {**super().get_config(), "from_logits": self.from_logits}


_LOSSES = (
    *(keras.losses.BinaryCrossentropy, keras.losses.binary_crossentropy, BernoulliNLL),
    *(keras.losses.BinaryFocalCrossentropy, keras.losses.binary_focal_crossentropy),
)


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class Bernoulli(Classification):
    """One output: class 0 or class 1. Several: labels that do not exclude each other, each present or absent.

    The outputs are logits, or else probabilities of class 1 or of the labels.

    >>> Bernoulli(from_logits=False)  # predict(model, x, likelihood=…), where the compiled loss does not specify it
    Bernoulli(from_logits=False)
    """

    from_logits: bool = True
    activation = staticmethod(keras.activations.sigmoid)

    @classmethod
    def from_loss(cls, loss) -> "Bernoulli | None":
        # The functions take probabilities.
        return cls(getattr(loss, "from_logits", False)) if is_loss(loss, _LOSSES) else None

    @classmethod
    def highest_label(cls, loss, width: int) -> int | None:
        return 1 if is_loss(loss, _LOSSES) else None

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Returns the probabilities of class 0 and class 1 in the last axis; of several labels, in one more axis."""
        one = self._ones(outputs)
        both = np.stack([1 - one, one], axis=-1)
        return both[..., 0, :] if one.shape[-1] == 1 else both

    def statistics(self, outputs: np.ndarray) -> dict[str, np.ndarray]:
        if outputs.shape[-1] == 1:
            return super().statistics(outputs)
        one = self._ones(outputs)
        return {"prediction": one, "label_entropy": binary_entropy(one)}

    def predictive(self, moments: Moments, num_draws: int, draws: np.ndarray | None) -> Predictive:
        if "label_entropy" not in moments:
            return super().predictive(moments, num_draws, draws)
        p = moments["prediction"]
        return LabelPredictive(p.mean, np.sqrt(p.variance), num_draws, draws, moments["label_entropy"].mean)

    def export(self, outputs) -> dict:
        one = ops.sigmoid(outputs) if self.from_logits else outputs
        if outputs.shape[-1] == 1:
            return export_probabilities(ops.concatenate([1.0 - one, one], axis=-1))
        found = export_probabilities(ops.stack([1.0 - one, one], axis=-1))
        return found | {"mean": found["mean"][..., 1]}

    def _ones(self, outputs: np.ndarray) -> np.ndarray:
        outputs = np.asarray(outputs, "float64")
        if self.from_logits:
            return special.expit(outputs)
        require_probabilities(outputs, True, "bernoulli_logits")
        return np.minimum(outputs, 1.0)  # rounding may put one above, and 1 − p below 0 has no entropy
