"""Classes that exclude each other."""

import math
from dataclasses import dataclass

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_share
from singularbayes.likelihoods.base import (
    Classification,
    export_probabilities,
    is_loss,
    require_probabilities,
    softmax,
)


@keras.saving.register_keras_serializable(package="singularbayes")
class BoundedCrossentropy(keras.losses.Loss):
    """−log max(p, p_min) / log(1/p_min) of the label's probability p: cross-entropy clipped and scaled into [0, 1].

    PAC-Bayes bounds hold for it.

    Args:
        p_min: a smaller probability costs no more than this one.
        from_logits: the outputs are logits, else probabilities.

    >>> import numpy as np
    >>> loss = BoundedCrossentropy(p_min=1e-4, from_logits=False)
    >>> [round(float(loss(np.array([0]), np.array([[p, 1 - p]]))), 3) for p in (1.0, 0.1, 0.0)]
    [0.0, 0.25, 1.0]
    """

    def __init__(
        self, p_min: float = 1e-5, from_logits: bool = True, reduction="sum_over_batch_size", name=None, **kwargs
    ):
        super().__init__(reduction=reduction, name=name or "bounded_crossentropy", **kwargs)
        require_share("BoundedCrossentropy", p_min=p_min)
        self.p_min, self.from_logits = p_min, from_logits

    def call(self, y_true, y_pred):
        log_p = ops.log_softmax(y_pred, axis=-1) if self.from_logits else ops.log(ops.maximum(y_pred, self.p_min))
        if len(y_true.shape) == len(y_pred.shape) and y_true.shape[-1] == 1:
            y_true = ops.squeeze(y_true, -1)
        chosen = ops.sum(log_p * ops.one_hot(ops.cast(y_true, "int32"), y_pred.shape[-1], dtype=log_p.dtype), axis=-1)
        return ops.maximum(chosen, math.log(self.p_min)) / math.log(self.p_min)

    def get_config(self):
        return {**super().get_config(), "p_min": self.p_min, "from_logits": self.from_logits}


_WITH_LABELS = (
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.sparse_categorical_crossentropy,
    BoundedCrossentropy,
)
_ONE_HOT = (
    *(keras.losses.CategoricalCrossentropy, keras.losses.categorical_crossentropy),
    *(keras.losses.CategoricalFocalCrossentropy, keras.losses.categorical_focal_crossentropy),
)


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class Categorical(Classification):
    """One class of several: the last axis has one output per class, logits or else probabilities.

    >>> Categorical(from_logits=False)  # predict(model, x, likelihood=…), where the compiled loss does not specify it
    Categorical(from_logits=False)
    """

    from_logits: bool = True
    activation = staticmethod(keras.activations.softmax)

    @classmethod
    def from_loss(cls, loss) -> "Categorical | None":
        if is_loss(loss, (*_WITH_LABELS, *_ONE_HOT)):
            return cls(getattr(loss, "from_logits", False))  # the functions take probabilities
        return None

    @classmethod
    def highest_label(cls, loss, width: int) -> int | None:
        return width - 1 if is_loss(loss, _WITH_LABELS) else None

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        tolerance = 1e-3 if outputs.dtype.itemsize > 2 else 0.03  # half precision rounds every class
        if outputs.shape[-1] == 1:
            raise ValueError(
                "A categorical likelihood needs two or more outputs, one per class; got outputs of shape (examples, "
                "…, 1). For a single output, the probability of yes, compile with BinaryCrossentropy."
            )
        if self.from_logits:
            _refuse_probabilities(outputs)
            return softmax(outputs)
        outputs = np.asarray(outputs, "float64")
        total = outputs.sum(-1, keepdims=True)
        require_probabilities(outputs, np.abs(total - 1).max(initial=0) < tolerance, "categorical_logits")
        return outputs / total

    def export(self, outputs) -> dict:
        if self.from_logits:
            return export_probabilities(ops.softmax(outputs, axis=-1))
        return export_probabilities(outputs / ops.sum(outputs, axis=-1, keepdims=True))


def _refuse_probabilities(outputs: np.ndarray) -> None:
    # Logits sum to 1 by chance in no example, the outputs of a softmax in all.
    if outputs.size and outputs.min() >= 0 and np.abs(outputs.sum(-1, dtype="float64") - 1).max() < 1e-5:
        raise ValueError(
            "The likelihood needs outputs that are logits; got numbers >= 0 that sum to 1, as a softmax gives them, "
            "and a second softmax would flatten them. Remove the softmax of the last layer, or compile with "
            "from_logits=False, and train again."
        )
