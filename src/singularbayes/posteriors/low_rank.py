"""W = A Bᵀ with independent posteriors on the entries of both factors: the paper's posterior."""

import keras

from singularbayes.posteriors.product import Product, checked_rank, require_fit


@keras.saving.register_keras_serializable(package="singularbayes")
class LowRank(Product):
    """W = A Bᵀ with A (rows × rank) and B (columns × rank) random: every draw has rank ≤ `rank`.

    It holds 2 · rank · (rows + columns) parameters; applying it costs as much per example.

    Args:
        rank: an integer, 1 ≤ rank ≤ min(rows, columns). `AdaptiveLowRank` learns it.
        overcomplete: allow a rank above min(rows, columns).
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

    def check(self, shape, where=""):
        if not self.overcomplete:
            also = f", or LowRank({self.rank}, overcomplete=True)"
            require_fit("LowRank", self.rank, shape, where or self.path or self.name, also)

    def build(self, input_shape):
        self.check(input_shape)
        self._build_product(tuple(input_shape), self.rank)

    def get_config(self):
        return {**super().get_config(), "rank": self.rank, "overcomplete": self.overcomplete}
