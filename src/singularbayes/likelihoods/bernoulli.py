"""Two classes in one output."""

from dataclasses import dataclass

import keras
import numpy as np
from keras import ops
from scipy import special

from singularbayes.likelihoods.base import Classification, export_probabilities, kind_of_loss, require_probabilities

_LOSSES = (keras.losses.BinaryCrossentropy, keras.losses.binary_crossentropy)


@keras.saving.register_keras_serializable(package="singularbayes")
@dataclass(frozen=True)
class Bernoulli(Classification):
    """Class 0 or class 1: the last axis has one output, the logit or else the probability of class 1."""

    from_logits: bool = True
    activation = staticmethod(keras.activations.sigmoid)

    @classmethod
    def from_loss(cls, loss) -> "Bernoulli | None":
        # The function takes probabilities.
        return cls(getattr(loss, "from_logits", False)) if kind_of_loss(loss) in _LOSSES else None

    @classmethod
    def highest_label(cls, loss, width: int) -> int | None:
        return 1 if kind_of_loss(loss) in _LOSSES else None

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Returns the probabilities of class 0 and class 1 in the last axis."""
        _require_one_output(outputs.shape)
        outputs = np.asarray(outputs, "float64")
        if not self.from_logits:
            require_probabilities(outputs, True, "bernoulli_logits")
        one = special.expit(outputs) if self.from_logits else outputs
        return np.concatenate([1 - one, one], axis=-1)

    def export(self, outputs) -> dict:
        _require_one_output(outputs.shape)
        one = ops.sigmoid(outputs) if self.from_logits else outputs
        return export_probabilities(ops.concatenate([1.0 - one, one], axis=-1))


def _require_one_output(shape) -> None:
    if shape[-1] != 1:
        raise ValueError(
            f"A Bernoulli likelihood needs one output per row; got outputs of shape (examples, {shape[-1]}). For "
            "several classes compile with SparseCategoricalCrossentropy; for several labels give each its own output."
        )
