"""A product A Bᵀ of two random factors, as the posteriors that hold one share it."""

from numbers import Integral

from singularbayes.posteriors.factor import Factor, halves
from singularbayes.posteriors.local import LocalLowRank
from singularbayes.posteriors.matrices import LowRankMatrix, LowRankRows
from singularbayes.posteriors.moments import moments, product_covariance, product_variance


def whole_rank(kind: str, rank, name: str = "rank") -> int:
    """Returns a rank as a plain number; raises unless it is a whole number above 0."""
    if isinstance(rank, bool) or not isinstance(rank, Integral) or rank < 1:
        raise ValueError(f"{kind} needs {name} to be a whole number >= 1; got {name}={rank!r}.")
    return int(rank)


def require_fit(kind: str, rank: int, shape, where: str, also: str = "") -> None:
    """Raises unless a matrix of that shape can have the rank; `also` is another way out than a smaller one."""
    limit = min(shape)
    if rank > limit:
        raise ValueError(
            f"{kind} needs 1 <= rank <= {limit}; got rank={rank} for a weight of shape {tuple(shape)} in {where}. Use "
            f"{kind}({limit}){also}."
        )


class Product:
    """A Bᵀ with independent entries; A stands above B in one array.

    One array has half the operations of two, and a step of a small network is mostly their number.
    """

    def __init__(self, ab: Factor, rows: int):
        self.ab, self.rows = ab, rows

    def draw(self, key, by_rows: bool) -> tuple:
        """Returns A and B; or, by rows, the key from which rows of A are made when they are asked for, and B."""
        if by_rows:
            return key, self.ab.sample_range(key, self.rows, self.ab.shape[0])
        return tuple(halves(self.ab.sample(key), self.rows))

    def weight(self, draw: tuple, by_rows: bool):
        a, b = draw
        return LowRankRows(self.ab, self.rows, a, b) if by_rows else LowRankMatrix(a, b)

    def whole(self, draw: tuple, by_rows: bool) -> tuple:
        """Returns A and B themselves."""
        a, b = draw
        return (self.ab.sample_range(a, 0, self.rows), b) if by_rows else draw

    def mean(self) -> LowRankMatrix:
        return LowRankMatrix(*halves(self.ab.loc, self.rows))

    def local(self, key) -> LocalLowRank:
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
