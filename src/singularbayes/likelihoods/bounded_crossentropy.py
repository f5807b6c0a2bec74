"""The cross-entropy that PAC-Bayes bounds can be about: cut and scaled into [0, 1]."""

import math

import keras
from keras import ops

from singularbayes.bounds import require_share


@keras.saving.register_keras_serializable(package="singularbayes")
class BoundedCrossentropy(keras.losses.Loss):
    """−log max(p, p_min) / log(1/p_min) of the label's probability p: cross-entropy cut and scaled into [0, 1].

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
