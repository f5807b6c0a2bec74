"""A weight without noise as one more posterior, so that a deterministic network has the same layers."""

import keras
import numpy as np
from keras import ops

from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.matrices import DenseMatrix


@keras.saving.register_keras_serializable(package="singularbayes")
class Deterministic(Posterior):
    """W itself is the parameter: no noise, no KL. Takes `initializer` alone."""

    random = False

    def __init__(self, initializer=None, *, name=None, trainable=True, dtype=None):
        super().__init__(initializer, name=name, trainable=trainable, dtype=dtype)

    def build(self, input_shape):
        self.w = self.add_weight(
            name="w", shape=tuple(input_shape), initializer=self._initializer, dtype="float32", autocast=False
        )

    def next_key(self, training):
        return None

    def draw(self, key):
        return ()

    def weight(self, draw):
        return self.mean()

    def local(self, key):
        return self.mean()

    def mean(self):
        return DenseMatrix(ops.convert_to_tensor(self.w))

    def variance(self):
        return np.zeros(self.w.shape)

    def covariance(self, entry, other):
        return 0.0

    def center(self, matrix):
        self.w.assign(matrix)
