"""A weight without noise as one more posterior, so that a deterministic network has the same layers."""

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.matrices import DenseMatrix


@keras.saving.register_keras_serializable(package="singularbayes")
class Deterministic(Posterior):
    """W itself is the parameter: no noise, no KL.

    Args:
        frozen: W stays as it starts, as the biases of a pretrained base do; one for all components of a mixture.

    >>> import singularbayes as sb
    >>> layer = sb.layers.Dense(8, posterior=sb.Deterministic())  # an ordinary weight among Bayesian ones
    """

    random = False

    def __init__(self, initializer=None, frozen=False, *, name=None, trainable=True, dtype=None):
        super().__init__(initializer, name=name, trainable=trainable, dtype=dtype)
        self.frozen = bool(frozen)

    def build(self, input_shape):
        self.w = self.add_weight(
            name="w",
            shape=tuple(input_shape),
            initializer=self._initializer,
            trainable=not self.frozen,
            dtype="float32",
            autocast=False,
        )

    @property
    def dense_weight(self):
        return None if self.frozen else self.w

    @property
    def frozen_weights(self):
        return [self.w] if self.frozen else []

    def next_key(self, training):
        return None

    def draw(self, key):
        return ()

    def weight(self, draw):
        return self.mean()

    def mean(self):
        return DenseMatrix(ops.convert_to_tensor(self.w))

    def variance(self):
        return np.zeros(self.w.shape)

    def covariance(self, entry, other):
        return 0.0

    def center(self, matrix):
        self.w.assign(matrix)

    def get_config(self):
        return {**super().get_config(), "frozen": self.frozen}
