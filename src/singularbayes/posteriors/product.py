"""A product A Bᵀ of two random factors, as the posteriors that hold one share it."""

import numpy as np
from keras import ops

from singularbayes.checks import is_integer
from singularbayes.posteriors.balance import balanced
from singularbayes.posteriors.factor import Factor, halves
from singularbayes.posteriors.local import LocalLowRank
from singularbayes.posteriors.matrices import LowRankMatrix, LowRankRows
from singularbayes.posteriors.moments import moments, product_covariance, product_variance


def whole_rank(kind: str, rank, name: str = "rank", also: str = "") -> int:
    """Returns a rank as a plain number; raises unless it is an integer above 0. `also` is what else is allowed."""
    if not is_integer(rank):
        raise ValueError(f"{kind} needs {name} to be an integer >= 1{also}; got {name}={rank!r}.")
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
            return key, self._used(self.ab.sample_range(key, self.rows, self.ab.shape[0]))
        a, b = halves(self.ab.sample(key), self.rows)
        return a, self._used(b)

    def weight(self, draw: tuple, by_rows: bool):
        a, b = draw
        return LowRankRows(self.ab, self.rows, a, b) if by_rows else LowRankMatrix(a, b)

    def _used(self, b):
        """Returns B, or its variances, with 0 in the columns that are not used: then A's do not matter."""
        return b if self.ab.live is None else b * self.ab.live

    def whole(self, draw: tuple, by_rows: bool) -> tuple:
        """Returns A and B themselves."""
        a, b = draw
        return (self.ab.sample_range(a, 0, self.rows), b) if by_rows else draw

    def mean(self) -> LowRankMatrix:
        a, b = halves(self.ab.loc, self.rows)
        return LowRankMatrix(a, self._used(b))

    def local(self, key) -> LocalLowRank:
        (loc_a, loc_b), (var_a, var_b) = (halves(v, self.rows) for v in (self.ab.loc, self.ab.variance))
        return LocalLowRank(loc_a, var_a, self._used(loc_b), self._used(var_b), key)

    def _moments(self):
        mean, variance = moments(self.ab)
        live = 1.0 if self.ab.live is None else ops.convert_to_numpy(self.ab.live)
        a, b = ((mean[part], variance[part]) for part in (slice(self.rows), slice(self.rows, None)))
        return [a, (b[0] * live, b[1] * live)]

    def balance(self, shape: float) -> None:
        """Moves the columns in use to the gauge in which they are uncorrelated, see `balance.py`."""
        used = ops.convert_to_numpy(self.ab.live) > 0 if self.ab.live is not None else slice(None)
        loc, scale, _ = self.ab.numbers()
        if not (np.isfinite(loc).all() and np.isfinite(scale).all()):
            return  # training has diverged, and says so itself
        mean, variance = loc[:, used], self.ab.family.variance(scale[:, used])
        a, b = ((mean[part], variance[part]) for part in (slice(self.rows), slice(self.rows, None)))
        (mean_a, var_a), (mean_b, var_b) = balanced(a, b, shape)
        loc[:, used] = np.concatenate([mean_a, mean_b])
        scale[:, used] = np.sqrt(np.concatenate([var_a, var_b]) / self.ab.family.variance(1.0))
        self.ab.set(loc, scale)

    def energies(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns ‖E a_k E b_kᵀ‖² and E‖a_k b_kᵀ‖² of every column; both are 0 for one that is not used."""
        (mean_a, var_a), (mean_b, var_b) = self._moments()
        signal = (mean_a**2).sum(axis=0) * (mean_b**2).sum(axis=0)
        return signal, (mean_a**2 + var_a).sum(axis=0) * (mean_b**2 + var_b).sum(axis=0)

    def variance(self):
        return product_variance(*self._moments())

    def covariance(self, entry, other):
        a, b = self._moments()
        return product_covariance(a, b, entry, other)
