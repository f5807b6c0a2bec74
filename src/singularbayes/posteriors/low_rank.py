"""W = A Bᵀ with independent posteriors on the entries of both factors: the paper's posterior."""

from numbers import Integral

import keras

from singularbayes.posteriors import starts
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.local import LocalLowRank
from singularbayes.posteriors.matrices import LowRankMatrix, LowRankRows
from singularbayes.posteriors.moments import moments, product_covariance, product_variance


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
        if isinstance(rank, bool) or not isinstance(rank, Integral) or rank < 1:
            raise ValueError(f"LowRank needs rank to be a whole number >= 1; got rank={rank!r}.")
        self.rank, self.overcomplete = int(rank), overcomplete

    def build(self, input_shape):
        rows, columns = input_shape
        limit = min(rows, columns)
        if self.rank > limit and not self.overcomplete:
            raise ValueError(
                f"LowRank needs 1 <= rank <= {limit}; got rank={self.rank} for a weight of shape ({rows}, {columns}) "
                f"in {self.path or self.name}. Use LowRank({limit}), or LowRank({self.rank}, overcomplete=True)."
            )
        start = starts.variance_matched(self._initializer, (rows, columns))
        s = (start or starts.glorot((rows, columns))).factor_std(self.rank)
        if start:
            loc_a, loc_b = (start.initializer(self.damping * s) for _ in "ab")
        else:
            loc_a, loc_b = starts.split_initializers(self._initializer, (rows, columns), self.rank)
        self._build_kl_scale()
        self.a = self._factor("a", (rows, self.rank), loc_a, self.eta * s)
        self.b = self._factor("b", (columns, self.rank), loc_b, self.eta * s)

    @property
    def factors(self):
        return [self.a, self.b] if self.built else []

    def draw(self, key):
        if self.by_rows:
            # Rows of A are a hash of the key when they are asked for; B uses the same key in another generator.
            return key, self.b.at(self.b.family.noise(self.b.shape, key))
        rows, columns = self.a.shape[0], self.b.shape[0]
        eps = self.a.family.noise((rows + columns, self.rank), key)
        return self.a.at(eps[:rows]), self.b.at(eps[rows:])

    def weight(self, draw):
        a, b = draw
        return LowRankRows(self.a, a, b) if self.by_rows else LowRankMatrix(a, b)

    def mean(self):
        return LowRankMatrix(self.a.loc, self.b.loc)

    def local(self, key):
        return LocalLowRank(self.a, self.b, key)

    def variance(self):
        return product_variance(moments(self.a), moments(self.b))

    def covariance(self, entry, other):
        return product_covariance(moments(self.a), moments(self.b), entry, other)

    def center(self, matrix):
        a, b = starts.svd_split(matrix, self.rank)
        self.a.set_loc(a)
        self.b.set_loc(b)

    def get_config(self):
        return {**super().get_config(), "rank": self.rank, "overcomplete": self.overcomplete}
