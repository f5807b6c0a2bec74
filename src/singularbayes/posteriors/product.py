"""What posteriors with a random product A Bᵀ share."""

import numpy as np
from keras import ops

from singularbayes.checks import require_integer
from singularbayes.posteriors import initializers
from singularbayes.posteriors.factor import Factor, halves
from singularbayes.posteriors.matrices import LowRankMatrix
from singularbayes.posteriors.moments import Moments, moments, product_covariance, product_variance
from singularbayes.posteriors.variational import Variational


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

    def draw(self, key):
        a, b = halves(self.ab.sample(key), self.rows)
        return a, self._used(b)

    def weight(self, draw):
        return LowRankMatrix(*draw)

    def _used(self, b):
        """Returns B, or its variances, with 0 in the columns that are not used: then A's do not matter."""
        return b if self.ab.live is None else b * self.ab.live

    def matrices(self, scalars):
        return [scalars[: self.rows], scalars[self.rows :]]

    def mean(self):
        a, b = halves(self.ab.loc, self.rows)
        return LowRankMatrix(a, self._used(b))

    def _moments(self) -> list[Moments]:
        """Returns means and variances of A and B; both are 0 in the columns of B that are not used."""
        live = 1.0 if self.ab.live is None else ops.convert_to_numpy(self.ab.live)
        (mean_a, mean_b), (var_a, var_b) = map(self.matrices, moments(self.ab))
        return [(mean_a, var_a), (mean_b * live, var_b * live)]

    def factor_moments(self):
        return self._moments()

    def variance(self):
        return product_variance(*self._moments())

    def covariance(self, entry, other):
        a, b = self._moments()
        return product_covariance(a, b, entry, other)

    def squared_column_norms(self):
        (mean_a, var_a), (mean_b, var_b) = self._moments()
        signal = (mean_a**2).sum(axis=0) * (mean_b**2).sum(axis=0)
        return signal, (mean_a**2 + var_a).sum(axis=0) * (mean_b**2 + var_b).sum(axis=0)

    def center(self, matrix):
        self._start_at(np.concatenate(initializers.svd_split(matrix, self.ab.shape[1])))

    def _start_at(self, ab: np.ndarray) -> None:
        """Moves A and B, turned so that they are nearest to centres that stay: (A Q)(B Q)ᵀ = A Bᵀ for orthogonal Q."""
        if self.ab.reference is not None and self.prior.anchor == "random":
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
