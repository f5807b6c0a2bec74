"""W = A Bᵀ whose rank is learned: columns that the data do not need are switched off."""

import keras
import numpy as np
from keras import ops
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import linear_sum_assignment

from singularbayes.checks import require_below_one
from singularbayes.posteriors.low_rank import Product, checked_rank
from singularbayes.posteriors.moments import Moments
from singularbayes.posteriors.shrinkage import ColumnShrinkage

_PRIOR = ColumnShrinkage()
_TINY = 1e-14


@keras.saving.register_keras_serializable(package="singularbayes")
class AdaptiveLowRank(Product):
    """A `LowRank` that starts with `max_rank` columns, or min(rows, columns) if that is less, and keeps what it needs.

    Its prior shrinks the columns that the data do not need (`ColumnShrinkage`). After every epoch with the full KL
    weight `KLSchedule` calls `prune_columns`: the columns are balanced (`balanced`, below), and those that are
    noise by now are switched off for good. `ranks.prune` takes them out of the model.

    Args:
        max_rank: the columns that it starts with.
        tolerance: a column is switched off when its mean has less than this share of E‖a_k b_kᵀ‖².
        **kwargs: arguments of every posterior, see `Variational`; the prior is a `ColumnShrinkage`.

    >>> import singularbayes as sb
    >>> layer = sb.layers.Dense(8, posterior=sb.AdaptiveLowRank(max_rank=4))
    """

    def __init__(self, max_rank=64, tolerance=0.01, prior=_PRIOR, **kwargs):
        super().__init__(prior=prior, **kwargs)
        self.max_rank = checked_rank("AdaptiveLowRank", max_rank, "max_rank")
        require_below_one("AdaptiveLowRank", tolerance=tolerance)
        self.tolerance = float(tolerance)
        if not isinstance(self.prior, ColumnShrinkage):
            raise ValueError(
                "AdaptiveLowRank needs a prior that shrinks whole columns, such as ColumnShrinkage(); got "
                f"{self.prior!r}."
            )

    @property
    def learned_rank(self):
        return max(int(part.live_columns().sum()) for part in self.parts())

    def num_columns(self, shape):
        return min(self.max_rank, *shape)

    def with_rank(self, rank):
        return type(self).from_config({**self.get_config(), "max_rank": rank})

    def build(self, input_shape):
        rank = self.num_columns(input_shape)
        self._build_product(tuple(input_shape), rank)
        self.ab.live = self.add_array("live", (rank,), keras.initializers.Ones(), trainable=False)

    def prune_columns(self):
        self.for_components(lambda part: part._prune_columns())

    def _prune_columns(self) -> None:
        self._balance()
        self.ab.live.assign(self.live_columns(self.tolerance))

    def _balance(self) -> None:
        """Moves the columns in use to the gauge in which they are uncorrelated, see `balanced`."""
        used = ops.convert_to_numpy(self.ab.live) > 0
        loc, scale, _ = self.ab.float64_values()
        if not (np.isfinite(loc).all() and np.isfinite(scale).all()):
            return  # training has diverged, and reports that itself
        assert isinstance(self.prior, ColumnShrinkage)
        family = self.ab.family
        (mean_a, mean_b), (var_a, var_b) = map(self.matrices, (loc[:, used], family.variance(scale[:, used])))
        (mean_a, var_a), (mean_b, var_b) = balanced((mean_a, var_a), (mean_b, var_b), self.prior.shape)
        loc[:, used] = np.concatenate([mean_a, mean_b])
        scale[:, used] = np.sqrt(np.concatenate([var_a, var_b]) / family.variance(1.0))
        self.ab.set(loc, scale)

    def live_columns(self, tolerance: float = 0.0) -> np.ndarray:
        """Returns whether each column is in use and has at least this share of signal; the strongest always has."""
        signal, total = self.squared_column_norms()
        live = signal > tolerance * total
        live[signal.argmax()] = True
        return live

    def take_columns(self, other: "AdaptiveLowRank", used: np.ndarray) -> None:
        """Takes over the columns of another with more of them: those that are used, then as many others as fit."""
        order = np.sort(np.argsort(~used, kind="stable")[: self.ab.shape[1]])
        self.ab.values.assign(ops.convert_to_numpy(other.ab.values)[:, :, order])
        self.ab.live.assign(used[order].astype("float32"))

    def get_config(self):
        return {**super().get_config(), "max_rank": self.max_rank, "tolerance": self.tolerance}


# The gauge of W = A Bᵀ: (A T, B T⁻ᵀ) is the same W for every invertible T. Here is the T that shows its rank.


def balanced(a: Moments, b: Moments, shape: float = 0.0) -> tuple[Moments, Moments]:
    """Returns A T and B T⁻ᵀ for the T that makes E[AᵀA] and E[BᵀB] diagonal, with one mean square for a_k and b_k.

    E A E Bᵀ stays what it is, gathered in fewer columns. Among all T this one has the least
    Π_k E‖a_k‖² E‖b_k‖²: a product of diagonal entries is at least the determinant (Hadamard), and det E[AᵀA] E[BᵀB] is
    the same for all T. Noise is moved by its variances; the correlations that T makes between the entries of a row are
    dropped, which only raises the entropy. So the KL to `ColumnShrinkage` does not rise (except for its `rate`, which
    columns that are next to nothing feel).

    Columns keep their places and signs as far as they can: an optimizer's memory of them stays of use.

    Args:
        shape: α of that prior. The KL is least at E‖a_k‖²/(rows + α) = E‖b_k‖²/(columns + α).
    """
    t, back = _balancing(_second(a), _second(b))
    c = ((len(a[0]) + shape) / (len(b[0]) + shape)) ** 0.25
    return _moved(a, c * t), _moved(b, back / c)


def _second(moments: Moments) -> np.ndarray:
    mean, variance = moments
    return mean.T @ mean + np.diag(variance.sum(axis=0))


def _balancing(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns T and T⁻ᵀ with Tᵀ G T and T⁻¹ H T⁻ᵀ diagonal and equal, as in balanced truncation (Moore 1981)."""
    # G = L Lᵀ and Lᵀ H L = U Λ² Uᵀ give T = L⁻ᵀ U √Λ. Columns that are 0 except for rounding get a size to divide by:
    # with any L and Λ, T and T⁻ᵀ belong together.
    lower = cholesky(first + _TINY * np.trace(first) * np.eye(len(first)), lower=True)
    squares, u = np.linalg.eigh(lower.T @ second @ lower)
    root = np.maximum(squares, _TINY * squares.max()) ** 0.25
    t, back = solve_triangular(lower.T, u) * root, (lower @ u) / root
    # A column's share in each of the old ones, whatever their sizes: t_ij t⁻¹_ji, and these add up to 1.
    _, order = linear_sum_assignment(-np.abs(t * back))  # which new column goes to each old place
    t, back = t[:, order], back[:, order]
    sign = np.where(np.diag(t) < 0, -1.0, 1.0)
    return t * sign, back * sign


def _moved(moments: Moments, t: np.ndarray) -> Moments:
    mean, variance = moments
    return mean @ t, variance @ t**2
