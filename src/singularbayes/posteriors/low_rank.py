"""W = A Bᵀ with independent posteriors on the entries of both factors: the paper's posterior."""

from numbers import Integral

import keras
import numpy as np

from singularbayes.posteriors import starts
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.factor import halves
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

    def check(self, shape, where=""):
        limit = min(shape)
        if self.rank > limit and not self.overcomplete:
            raise ValueError(
                f"LowRank needs 1 <= rank <= {limit}; got rank={self.rank} for a weight of shape {tuple(shape)} in "
                f"{where or self.path or self.name}. Use LowRank({limit}), or LowRank({self.rank}, overcomplete=True)."
            )

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
        # A above B in one array: half the operations of two, and a step of a small network is mostly their number.
        self.rows = rows
        self.ab = self._factor("ab", (rows + columns, self.rank), loc, self.eta * s)

    @property
    def factors(self):
        return [self.ab] if self.built else []

    def draw(self, key):
        if self.by_rows:
            # Rows of A are made from the key when they are asked for.
            return key, self.ab.sample_range(key, self.rows, self.ab.shape[0])
        return tuple(halves(self.ab.sample(key), self.rows))

    def weight(self, draw):
        a, b = draw
        return LowRankRows(self.ab, self.rows, a, b) if self.by_rows else LowRankMatrix(a, b)

    def mean(self):
        return LowRankMatrix(*halves(self.ab.loc, self.rows))

    def local(self, key):
        (loc_a, loc_b), (var_a, var_b) = (halves(v, self.rows) for v in (self.ab.loc, self.ab.variance))
        return LocalLowRank(loc_a, var_a, loc_b, var_b, key)

    def _moments(self):
        mean, variance = moments(self.ab)
        return [(mean[part], variance[part]) for part in (slice(self.rows), slice(self.rows, None))]

    def variance(self):
        return product_variance(*self._moments())

    def covariance(self, entry, other):
        a, b = self._moments()
        return product_covariance(a, b, entry, other)

    def center(self, matrix):
        self.ab.set_loc(np.concatenate(starts.svd_split(matrix, self.rank)))

    def get_config(self):
        return {**super().get_config(), "rank": self.rank, "overcomplete": self.overcomplete}
