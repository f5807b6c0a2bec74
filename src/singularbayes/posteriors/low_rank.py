"""W = A Bᵀ with independent posteriors on the entries of both factors: the paper's posterior."""

import keras
import numpy as np

from singularbayes.posteriors import initializers
from singularbayes.posteriors.base import Posterior
from singularbayes.posteriors.product import Product, require_fit, whole_rank
from singularbayes.posteriors.shrinkage import ColumnShrinkage


@keras.saving.register_keras_serializable(package="singularbayes")
class LowRank(Posterior):
    """W = A Bᵀ with A (rows × rank) and B (columns × rank) random: every draw has rank ≤ `rank`.

    It holds 2 · rank · (rows + columns) parameters; applying it costs as much per example.

    `LowRank("auto", max_rank=64)` learns its rank. It starts with 64 columns, or min(rows, columns) if that is less,
    under a prior that shrinks those that the data do not ask for (`ColumnShrinkage`). After every epoch with the full
    KL weight `KLSchedule` lets it `settle`: the columns are balanced (`posteriors/balance.py`), and those that are
    noise by now are switched off for good. `ranks.prune` takes them out of the model.

    Args:
        rank: an integer, 1 ≤ rank ≤ min(rows, columns), or "auto".
        overcomplete: allow a rank above min(rows, columns).
        max_rank: the columns that "auto" starts with.
        tolerance: "auto" switches a column off when its mean has less than this share of E‖a_k b_kᵀ‖².
        **kwargs: arguments of every posterior, see `Posterior`; the prior of "auto" is a `ColumnShrinkage`.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(128, posterior=LowRank(15))
    >>> dense.build((None, 44))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)  # 2 · 15 · (44 + 128)
    5160
    """

    has_columns = True

    def __init__(self, rank, overcomplete=False, max_rank=64, tolerance=0.01, **kwargs):
        if rank == "auto":
            kwargs.setdefault("prior", ColumnShrinkage())
        super().__init__(**kwargs)
        self.rank = rank if rank == "auto" else whole_rank("LowRank", rank, also=", or 'auto'")
        self.overcomplete, self.max_rank = overcomplete, whole_rank("LowRank", max_rank, "max_rank")
        if isinstance(tolerance, bool) or not 0 <= tolerance < 1:
            raise ValueError(f"LowRank needs 0 <= tolerance < 1; got tolerance={tolerance!r}.")
        self.tolerance = float(tolerance)
        if self.adaptive and not isinstance(self.prior, ColumnShrinkage):
            raise ValueError(
                "LowRank('auto') needs a prior that shrinks whole columns, such as ColumnShrinkage(); got "
                f"{self.prior!r}."
            )

    @property
    def adaptive(self) -> bool:
        """Whether the rank is learned."""
        return self.rank == "auto"

    def check(self, shape, where=""):
        if not self.overcomplete and not self.adaptive:
            also = f", or LowRank({self.rank}, overcomplete=True)"
            require_fit("LowRank", self.rank, shape, where or self.path or self.name, also)

    def num_columns(self, shape) -> int:
        """Returns how many columns A and B have for a weight of that shape."""
        return min(self.max_rank, *shape) if self.adaptive else self.rank

    def build(self, input_shape):
        rows, columns = input_shape
        self.check(input_shape)
        rank = self.num_columns(input_shape)
        start = initializers.variance_matched(self._initializer, (rows, columns))
        s = (start or initializers.glorot((rows, columns))).factor_std(rank)
        if start:
            loc = start.initializer(self.damping * s)
        else:
            loc = initializers.split_initializer(self._initializer, (rows, columns), rank)
        self._build_kl_scale()
        self.ab = self._factor("ab", (rows + columns, rank), loc, self.eta * s)
        if self.adaptive:
            self.ab.live = self.add_weight(
                name="live", shape=(rank,), initializer="ones", trainable=False, dtype="float32", autocast=False
            )
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
        self.ab.set_loc(np.concatenate(initializers.svd_split(matrix, self.ab.shape[1])))

    def settle(self):
        if self.adaptive:
            assert isinstance(self.prior, ColumnShrinkage)
            self.product.balance(self.prior.shape)
            self.ab.live.assign(self.live_columns(self.tolerance))

    def live_columns(self, tolerance: float = 0.0) -> np.ndarray:
        """Returns whether each column is in use and has at least this share of signal; the strongest always has."""
        signal, energy = self.product.energies()
        live = signal > tolerance * energy
        live[signal.argmax()] = True
        return live

    def get_config(self):
        names = ("rank", "overcomplete", "max_rank", "tolerance")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
