"""Independent posteriors on the entries of W: mean-field variational inference (Blundell et al. 2015)."""

import keras
import numpy as np

from singularbayes.posteriors import initializers
from singularbayes.posteriors.factor import Factor
from singularbayes.posteriors.matrices import DenseMatrix
from singularbayes.posteriors.moments import moments
from singularbayes.posteriors.variational import Variational


@keras.saving.register_keras_serializable(package="singularbayes")
class FullRank(Variational):
    """Every entry of W random and independent: 2 · rows · columns parameters.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(128, posterior=FullRank())
    >>> dense.build((None, 44))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)
    11264
    """

    w: Factor

    def build(self, input_shape):
        start = initializers.variance_matched(self._initializer, tuple(input_shape))
        std = (start or initializers.glorot(tuple(input_shape))).std
        loc = start.initializer(self.damping * std) if start else self._initializer
        self._build_kl_scale()
        self.w = self._factor("w", input_shape, initializers.mean_initializer(loc, self.prior), self.eta * std)

    @property
    def factors(self):
        return [self.w] if self.built else []

    def draw(self, key):
        return (self.w.sample(key),)

    def matrices(self, scalars):
        return [scalars]

    def weight(self, draw):
        return DenseMatrix(*draw)

    def mean(self):
        return DenseMatrix(self.w.loc)

    def factor_moments(self):
        return [moments(self.w)]

    def variance(self):
        return moments(self.w)[1]

    def covariance(self, entry, other):
        return float(self.variance()[entry]) if tuple(entry) == tuple(other) else 0.0

    def center(self, matrix):
        self.w.start_at(np.asarray(matrix))
