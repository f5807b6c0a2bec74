"""The gauge of W = A Bᵀ: (A T, B T⁻ᵀ) is the same W for every invertible T. Here is the T that shows its rank."""

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import linear_sum_assignment

_TINY = 1e-14
Moments = tuple[np.ndarray, np.ndarray]  # means and variances of the entries, (entries, columns)


def balanced(a: Moments, b: Moments, shape: float = 0.0) -> tuple[Moments, Moments]:
    """Returns A T and B T⁻ᵀ for the T that makes E[AᵀA] and E[BᵀB] diagonal, with one mean square for a_k and b_k.

    E A E Bᵀ stays what it is, gathered in fewer columns. Among all T this one has the least
    Π_k E‖a_k‖² E‖b_k‖²: a product of diagonal entries is at least the determinant (Hadamard), and det E[AᵀA] E[BᵀB] is
    the same for all T. Noise is moved by its variances; the correlations that T makes between the entries of a row are
    dropped, which only raises the entropy. So the KL to `ColumnShrinkage` does not rise (but for its `rate`, which is
    felt by columns that are next to nothing).

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
    # G = L Lᵀ and Lᵀ H L = U Λ² Uᵀ give T = L⁻ᵀ U √Λ. Columns that are 0 but for rounding get a size to divide by: with
    # any L and Λ, T and T⁻ᵀ belong together.
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
