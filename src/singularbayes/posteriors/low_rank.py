"""W = A Bᵀ with independent posteriors on the entries of both factors: the paper's posterior, and what others share."""

import keras
import numpy as np
from keras import ops

from singularbayes.checks import require_choice, require_integer, require_positive
from singularbayes.posteriors import initializers
from singularbayes.posteriors.factor import Factor, halves
from singularbayes.posteriors.matrices import LowRankMatrix
from singularbayes.posteriors.moments import Moments, moments, product_covariance, product_variance
from singularbayes.posteriors.priors import Normal
from singularbayes.posteriors.variational import Variational

STARTS = ("orthogonal", "independent")
_PRIOR = Normal(0.3)  # chosen with the start, η and β: docs/protocol.md
_ETA_AT_RANDOM, _ETA_AT_WEIGHTS = 1e-4, 0.1
_LOC_LR = 0.4


def checked_rank(kind: str, rank, name: str = "rank") -> int:
    """Returns a rank as a plain number; raises unless it is an integer above 0."""
    require_integer(kind, **{name: rank})
    return int(rank)


class Product(Variational):
    """W = A Bᵀ with independent entries; A stands above B in one array, `ab`.

    One array has half the operations of two, and a step of a small network is mostly their number.
    """

    has_columns = True
    ab: Factor
    rows: int  # of A
    start = "independent"  # how the means begin, see `LowRank`
    factor_std: float  # of the entries of A and B, by which scales start; once built

    def _build_product(self, shape, rank: int) -> None:
        """Makes A and B for a weight of that shape; their means start variance-matched, or at the SVD of a matrix."""
        start = initializers.variance_matched(self._initializer, shape)
        s = self.factor_std = (start or initializers.glorot(shape)).factor_std(rank)
        if start and self.start == "orthogonal" and rank <= min(shape):
            loc = initializers.orthogonal_factors(shape, rank, self.damping * s)
        elif start:
            loc = start.initializer(self.damping * s)
        else:
            loc = initializers.split_initializer(self._initializer, shape, rank)
        self._build_ab(shape, rank, initializers.mean_initializer(loc, self.prior), self.initial_eta * s)

    def _build_ab(self, shape, rank: int, loc, scale) -> None:
        self._build_kl_scale()
        self.ab, self.rows = self._factor("ab", (sum(shape), rank), loc, scale), shape[0]

    @property
    def factors(self):
        return [self.ab] if self.built else []

    def _draw(self, key, component=None):
        a, b = halves(self.ab.sample(key, component), self.rows, axis=-2)
        return a, self._used(b, component)

    def _weight(self, arrays, component=None):
        return LowRankMatrix(*arrays)

    def _used(self, b, component=None):
        """Returns B with 0 in the columns that are not used: then A's do not matter."""
        return b if self.ab.live is None else b * ops.expand_dims(self.of_component(self.ab.live, component), -2)

    def matrices(self, scalars):
        return [scalars[..., : self.rows, :], scalars[..., self.rows :, :]]

    def _mean(self, component=None):
        a, b = halves(self.of_component(self.ab.loc, component), self.rows, axis=-2)
        return LowRankMatrix(a, self._used(b, component))

    def _moments(self) -> list[Moments]:
        """Returns means and variances of A and B of one component; 0 in the columns of B that are not used."""
        live = 1.0 if self.ab.live is None else ops.convert_to_numpy(self.ab.live)
        (mean_a, mean_b), (var_a, var_b) = map(self.matrices, moments(self.ab))
        return [(mean_a, var_a), (mean_b * live, var_b * live)]

    def factor_moments(self):
        return self._moments() if self.components == 1 else []

    def _variance(self):
        return product_variance(*self._moments())

    def _covariance(self, entry, other):
        a, b = self._moments()
        return product_covariance(a, b, entry, other)

    def squared_column_norms(self):
        (mean_a, var_a), (mean_b, var_b) = self._moments()
        signal = (mean_a**2).sum(axis=0) * (mean_b**2).sum(axis=0)
        return signal, (mean_a**2 + var_a).sum(axis=0) * (mean_b**2 + var_b).sum(axis=0)

    def _center(self, matrix):
        ab = np.concatenate(initializers.svd_split(matrix, self.ab.shape[1]))
        if self.ab.reference is not None and self.prior.anchor == "random":
            # Turned so that they are nearest to centres that stay: (A Q)(B Q)ᵀ = A Bᵀ for orthogonal Q.
            centre = ops.convert_to_numpy(self.ab.reference)[0].astype("float64")
            u, _, vt = np.linalg.svd(ab.T.astype("float64") @ centre)
            ab = ab @ (u @ vt)
        self.ab.start_at(ab.astype("float32"))

    def residual(self, matrix):
        rank = self.num_columns(matrix.shape)
        if rank is None or rank >= min(matrix.shape):
            return 0.0
        a, b = initializers.svd_split(matrix, rank)
        return float(np.linalg.norm(matrix - np.asarray(a, "float64") @ b.T))


@keras.saving.register_keras_serializable(package="singularbayes")
class LowRank(Product):
    """W = A Bᵀ with A (rows × rank) and B (columns × rank) random: every draw has rank ≤ `rank`.

    It holds 2 · rank · (rows + columns) parameters; applying it costs as much per example.

    Args:
        rank: an integer above 0, lowered to min(rows, columns) where a matrix is smaller: `effective_rank`.
            `AdaptiveLowRank` learns it.
        overcomplete: take the rank as it is, also above min(rows, columns).
        prior: see `Variational`; N(0, 0.3²) by default.
        eta: posterior scales start at η times the scale of the means. None is 10⁻⁴ for means that start at random: the
            KL opens narrow scales sooner than wide ones let the means learn. And it is 0.1 where the means start at
            trained weights (`center`, `bayesianize`), because a short training leaves scales as they are.
        start: how the means start. "orthogonal": A and B with orthogonal columns of one length, and W with the variance
            of the layer's `kernel_initializer`, by default Glorot's as in Keras. "independent": entries of A and B
            independent, by default with He's variance before a rectified activation, as in the paper.
        loc_lr: learning rate of the means as a multiple of the optimizer's; of SGD's it multiplies by the square. Both
            factors move, and their norms grow in training, so that a step moves W = A Bᵀ two to five times as far as
            one of the same rate moves a dense W: at 0.4 training is stable at the rates at which it is for
            `keras.layers.Dense` (docs, "Training").
        **kwargs: further arguments of every posterior, see `Variational`.

    All defaults but `loc_lr` won over fourteen data sets (docs, "The tuning protocol"). `LowRank.paper(16)` has the
    paper's; the ELBO's weight of the KL is `KLSchedule(beta=1)`.

    >>> import math
    >>> from singularbayes import layers
    >>> dense = layers.Dense(128, posterior=LowRank(15))
    >>> dense.build((None, 44))
    >>> sum(math.prod(w.shape) for w in dense.posterior.trainable_weights)  # 2 · 15 · (44 + 128)
    5160
    """

    def __init__(self, rank, overcomplete=False, prior=_PRIOR, eta=None, start="orthogonal", loc_lr=_LOC_LR, **kwargs):
        super().__init__(prior=prior, eta=_ETA_AT_RANDOM if eta is None else eta, **kwargs)
        require_choice("LowRank", STARTS, start=start)
        require_positive("LowRank", loc_lr=loc_lr)
        self.loc_lr = float(loc_lr)
        self.rank, self.overcomplete, self.start = checked_rank("LowRank", rank), overcomplete, start
        if eta is None:
            self.eta = None

    @classmethod
    def paper(cls, rank, **kwargs):
        """Returns one with the paper's settings: scale-mixture prior, η = 0.1, independent entries with He's variance.

        >>> LowRank.paper(16).prior.sigma1, LowRank.paper(16).eta
        (1.0, 0.1)
        """
        return cls(rank, **{"prior": "scale_mixture", "eta": 0.1, "start": "independent", "loc_lr": 1.0, **kwargs})

    def _center(self, matrix):
        super()._center(matrix)
        if self.eta is None and self.rho_initializer is None and not self.prior.relative:
            loc, scale, _ = self.ab.float64_values()
            self.ab.set(loc, np.full_like(scale, _ETA_AT_WEIGHTS * self.factor_std))

    def default_kernel_initializer(self, activation):
        return super().default_kernel_initializer(activation if self.start == "independent" else None)

    @property
    def fixed_rank(self):
        return self.rank

    def num_columns(self, shape):
        return self.rank if self.overcomplete else min(self.rank, *shape)

    def build(self, input_shape):
        self._build_product(tuple(input_shape), self.num_columns(input_shape))

    def get_config(self):
        own = {name: getattr(self, name) for name in ("rank", "overcomplete", "start", "loc_lr")}
        return {**super().get_config(), **own}
