"""W = A Bᵀ with independent posteriors on the entries of both factors: the paper's posterior."""

import keras

from singularbayes.posteriors.product import Product, checked_rank


@keras.saving.register_keras_serializable(package="singularbayes")
class LowRank(Product):
    """W = A Bᵀ with A (rows × rank) and B (columns × rank) random: every draw has rank ≤ `rank`.

    It holds 2 · rank · (rows + columns) parameters; applying it costs as much per example.

    Args:
        rank: an integer above 0, lowered to min(rows, columns) where a matrix is smaller: `effective_rank`.
            `AdaptiveLowRank` learns it.
        overcomplete: take the rank as it is, also above min(rows, columns).
        **kwargs: arguments of every posterior, see `Variational`.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(128, posterior=LowRank(15))
    >>> dense.build((None, 44))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)  # 2 · 15 · (44 + 128)
    5160
    """

    def __init__(self, rank, overcomplete=False, **kwargs):
        super().__init__(**kwargs)
        self.rank, self.overcomplete = checked_rank("LowRank", rank), overcomplete

    @property
    def fixed_rank(self):
        return self.rank

    def num_columns(self, shape):
        return self.rank if self.overcomplete else min(self.rank, *shape)

    def build(self, input_shape):
        self._build_product(tuple(input_shape), self.num_columns(input_shape))

    def get_config(self):
        return {**super().get_config(), "rank": self.rank, "overcomplete": self.overcomplete}
