"""Independent posteriors on the entries of W: mean-field variational inference (Blundell et al. 2015)."""

import keras

from singularbayes.posteriors import initializers
from singularbayes.posteriors.entrywise import Entrywise


@keras.saving.register_keras_serializable(package="singularbayes")
class FullRank(Entrywise):
    """Every entry of W random and independent: 2 · rows · columns parameters.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(128, posterior=FullRank())
    >>> dense.build((None, 44))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)
    11264
    """

    def build(self, input_shape):
        start = initializers.variance_matched(self._initializer, tuple(input_shape))
        std = (start or initializers.glorot(tuple(input_shape))).std
        loc = start.initializer(self.damping * std) if start else self._initializer
        self._build_kl_scale()
        self.w = self._factor("w", input_shape, loc, self.eta * std)
