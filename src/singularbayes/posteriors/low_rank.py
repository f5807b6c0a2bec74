"""W = A Bᵀ with independent posteriors on the entries of both factors: the paper's posterior."""

import keras
import numpy as np

from singularbayes.posteriors import starts
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.product import Product, require_fit, whole_rank


@keras.saving.register_keras_serializable(package="singularbayes")
class LowRank(Posterior):
    """W = A Bᵀ with A (rows × rank) and B (columns × rank) random: every draw has rank ≤ `rank`.

    It holds 2 · rank · (rows + columns) parameters; applying it costs as much per example.

    Args:
        rank: a whole number, 1 ≤ rank ≤ min(rows, columns).
        overcomplete: allow a rank above min(rows, columns).
        **kwargs: arguments of every posterior, see `Posterior`.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(128, posterior=LowRank(15))
    >>> dense.build((None, 44))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)  # 2 · 15 · (44 + 128)
    5160
    """

    def __init__(self, rank, overcomplete=False, **kwargs):
        super().__init__(**kwargs)
        self.rank, self.overcomplete = whole_rank("LowRank", rank), overcomplete

    def check(self, shape, where=""):
        if not self.overcomplete:
            also = f", or LowRank({self.rank}, overcomplete=True)"
            require_fit("LowRank", self.rank, shape, where or self.path or self.name, also)

    def build(self, input_shape):
        rows, columns = input_shape
        self.check(input_shape)
        start = starts.variance_matched(self._initializer, (rows, columns))
        s = (start or starts.glorot((rows, columns))).factor_std(self.rank)
        if start:
            loc = start.initializer(self.damping * s)
        else:
            loc = starts.split_initializer(self._initializer, (rows, columns), self.rank)
        self._build_kl_scale()
        self.ab = self._factor("ab", (rows + columns, self.rank), loc, self.eta * s)
        self.rows, self.product = rows, Product(self.ab, rows)

    @property
    def factors(self):
        return [self.ab] if self.built else []

    def draw(self, key):
        return self._within_clip(lambda key: self.product.draw(key, self.by_rows), key)

    def matrices(self, scalars):
        return [scalars[: self.rows], scalars[self.rows :]]

    def weight(self, draw):
        return self.product.weight(draw, self.by_rows)

    def whole(self, draw):
        return self.product.whole(draw, self.by_rows)

    def mean(self):
        return self.product.mean()

    def local(self, key):
        return self.product.local(key)

    def variance(self):
        return self.product.variance()

    def covariance(self, entry, other):
        return self.product.covariance(entry, other)

    def center(self, matrix):
        self.ab.set_loc(np.concatenate(starts.svd_split(matrix, self.rank)))

    def get_config(self):
        return {**super().get_config(), "rank": self.rank, "overcomplete": self.overcomplete}
