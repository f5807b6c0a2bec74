"""Second moments of W = A Bᵀ with independent entries of A and B, in float64.

Var W_ij = Σ_k (σ²_A σ²_B + σ²_A μ²_B + μ²_A σ²_B); entries that share a row have Σ_k σ²_A,ik μ_B,jk μ_B,lk, entries
that share a column Σ_k μ_A,ik μ_A,lk σ²_B,jk, and entries that share neither exactly 0.
"""

from collections.abc import Sequence

import numpy as np

Entry = tuple[int, int]
Moments = tuple[np.ndarray, np.ndarray]  # means and variances


def moments(factor) -> Moments:
    """Returns the means and variances of a factor's scalars."""
    mean, scale, _ = factor.float64_values()
    return mean, factor.family.variance(scale)


def product_variance(a: Moments, b: Moments) -> np.ndarray:
    """Returns Var of every entry of A Bᵀ."""
    (mean_a, var_a), (mean_b, var_b) = a, b
    return var_a @ var_b.T + var_a @ (mean_b**2).T + mean_a**2 @ var_b.T


def product_covariance(a: Moments, b: Moments, entry: Entry, other: Entry) -> float:
    """Returns Cov(W_ij, W_st) of A Bᵀ for `entry` (i, j) and `other` (s, t)."""
    (mean_a, var_a), (mean_b, var_b) = a, b
    (i, j), (s, t) = entry, other
    both = var_a[i] * (i == s) * var_b[j] * (j == t)
    same_row = var_a[i] * mean_b[j] * mean_b[t] * (i == s)
    same_column = mean_a[i] * mean_a[s] * var_b[j] * (j == t)
    return float(np.sum(both + same_row + same_column))


def entry_correlation(posterior, rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    """Returns the correlations, in closed form, between the entries of W in these rows and columns, row by row.

    Entry number p · len(columns) + q is the one in row rows[p] and column columns[q]. Every pair is
    computed: choose a block of some hundred entries at most.

    >>> from singularbayes import FullRank
    >>> posterior = FullRank()
    >>> posterior.build((5, 4))
    >>> entry_correlation(posterior, rows=[0, 1], columns=[3])
    array([[1., 0.],
           [0., 1.]])
    """
    variance = posterior.variance()
    for what, chosen, size in zip(("rows", "columns"), (rows, columns), variance.shape, strict=True):
        if not len(chosen) or len(set(chosen)) < len(chosen) or not all(0 <= i < size for i in chosen):
            raise ValueError(
                f"entry_correlation needs {what} that are different integers from 0 to {size - 1}, at least one; "
                f"got {what}={list(chosen)}."
            )
    entries = [(int(i), int(j)) for i in rows for j in columns]
    std = np.sqrt([variance[entry] for entry in entries])
    if not std.min() > 0:
        where = entries[int(std.argmin())]
        raise ValueError(
            f"entry_correlation needs entries that are random; got variance 0 at {where} in {posterior.path}."
        )
    half = np.zeros((len(entries), len(entries)))
    for p, entry in enumerate(entries):
        half[p, : p + 1] = [posterior.covariance(entry, other) for other in entries[: p + 1]]
    return (np.tril(half) + np.tril(half, -1).T) / np.outer(std, std)
