"""Classes that exclude each other, and labels that do not."""

import math

import keras
import numpy as np
from keras import ops
from scipy import special

from singularbayes.checks import require_share
from singularbayes.likelihoods.base import Classification, Moments, export_probabilities, match_targets
from singularbayes.likelihoods.class_predictive import LabelPredictive, binary_entropy
from singularbayes.likelihoods.predictive import Predictive


@keras.saving.register_keras_serializable(package="singularbayes")
class Categorical(Classification):
    """One class of several: the last axis has one output per class, logits or else probabilities.

    Targets are labels, integers from 0.

    >>> Categorical(from_logits=False)  # predict(model, x, likelihood=…), where the compiled loss does not specify it
    Categorical(from_logits=False)
    """

    activation = staticmethod(keras.activations.softmax)
    arguments: tuple[str, ...] = ("from_logits",)

    def __init__(self, from_logits: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.from_logits = from_logits

    def call(self, y_true, y_pred):
        return keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=bool(self.from_logits))

    def highest_label(self, width: int) -> int | None:
        return width - 1

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        tolerance = 1e-3 if outputs.dtype.itemsize > 2 else 0.03  # half precision rounds every class
        if outputs.shape[-1] == 1:
            raise ValueError(
                "A categorical likelihood needs two or more outputs, one per class; got outputs of shape (examples, "
                "…, 1). For a single output, the probability of yes, compile with BinaryCrossentropy."
            )
        if self.from_logits:
            _refuse_probabilities(outputs)
            return _softmax(outputs)
        outputs = np.asarray(outputs, "float64")
        total = outputs.sum(-1, keepdims=True)
        _require_probabilities(outputs, np.abs(total - 1).max(initial=0) < tolerance, "categorical_logits")
        return outputs / total

    def export(self, outputs) -> dict:
        if self.from_logits:
            return export_probabilities(ops.softmax(outputs, axis=-1))
        return export_probabilities(outputs / ops.sum(outputs, axis=-1, keepdims=True))


@keras.saving.register_keras_serializable(package="singularbayes")
class BoundedCrossentropy(Categorical):
    """−log max(p, p_min) / log(1/p_min) of the label's probability p: cross-entropy clipped and scaled into [0, 1].

    PAC-Bayes bounds hold for it.

    Args:
        p_min: a smaller probability costs no more than this one.
        from_logits: the outputs are logits, else probabilities.

    >>> loss = BoundedCrossentropy(p_min=1e-4, from_logits=False)
    >>> [round(float(loss(np.array([0]), np.array([[p, 1 - p]]))), 3) for p in (1.0, 0.1, 0.0)]
    [0.0, 0.25, 1.0]
    """

    log_likelihood = False
    arguments = ("p_min", "from_logits")

    def __init__(self, p_min: float = 1e-5, from_logits: bool = True, **kwargs):
        super().__init__(from_logits, **kwargs)
        require_share("BoundedCrossentropy", p_min=p_min)
        self.p_min = p_min

    def call(self, y_true, y_pred):
        log_p = ops.log_softmax(y_pred, axis=-1) if self.from_logits else ops.log(ops.maximum(y_pred, self.p_min))
        if len(y_true.shape) == len(y_pred.shape) and y_true.shape[-1] == 1:
            y_true = ops.squeeze(y_true, -1)
        chosen = ops.sum(log_p * ops.one_hot(ops.cast(y_true, "int32"), y_pred.shape[-1], dtype=log_p.dtype), axis=-1)
        return ops.maximum(chosen, math.log(self.p_min)) / math.log(self.p_min)


@keras.saving.register_keras_serializable(package="singularbayes")
class Bernoulli(Classification):
    """One output: class 0 or class 1. Several: labels that do not exclude each other, each present or absent.

    The outputs are logits, or else probabilities of class 1 or of the labels. The loss is −log p(y) summed over
    outputs, in nats; Keras's BinaryCrossentropy has the mean over k outputs, so the KL weighs k times as much there.

    >>> round(float(Bernoulli()(np.array([[1, 0]]), np.zeros((1, 2)))), 4)  # 2 log 2
    1.3863
    """

    activation = staticmethod(keras.activations.sigmoid)
    arguments = ("from_logits",)

    def __init__(self, from_logits: bool = True, **kwargs):
        super().__init__(**kwargs)
        self.from_logits = from_logits

    def call(self, y_true, y_pred):
        y = match_targets(self, y_true, y_pred)
        return ops.sum(ops.binary_crossentropy(y, y_pred, from_logits=bool(self.from_logits)), axis=-1)

    def highest_label(self, width: int) -> int | None:
        return 1

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
        _require_probabilities(outputs, True, "bernoulli_logits")
        return np.minimum(outputs, 1.0)  # rounding may put one above, and 1 − p below 0 has no entropy


def _require_probabilities(outputs: np.ndarray, sum_to_one: bool, name: str) -> None:
    """Raises where outputs cannot be probabilities; `name` is the likelihood of logits."""
    if outputs.size and not (sum_to_one and outputs.min() >= 0 and outputs.max() <= 1 + 1e-6):
        raise ValueError(
            f"The likelihood needs outputs that are probabilities; got values from {outputs.min():.3g} to "
            f"{outputs.max():.3g}. If they are logits, compile with from_logits=True or pass likelihood={name!r}."
        )


def _refuse_probabilities(outputs: np.ndarray) -> None:
    # Logits sum to 1 by chance in no example, the outputs of a softmax in all.
    if outputs.size and outputs.min() >= 0 and np.abs(outputs.sum(-1, dtype="float64") - 1).max() < 1e-5:
        raise ValueError(
            "The likelihood needs outputs that are logits; got numbers >= 0 that sum to 1, as a softmax gives them, "
            "and a second softmax would flatten them. Remove the softmax of the last layer, or compile with "
            "from_logits=False, and train again."
        )


_MANY_CLASSES = 256  # below which the axis of the classes comes first in memory: NumPy is slow along a short last axis


def _softmax(logits: np.ndarray) -> np.ndarray:
    """Returns softmax over the last axis, in float64."""
    axis = 0 if logits.shape[-1] < _MANY_CLASSES else -1
    z = np.array(np.moveaxis(logits, -1, axis), "float64", order="C")
    z -= z.max(axis, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis, keepdims=True)
    return np.moveaxis(z, axis, -1)
