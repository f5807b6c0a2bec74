"""Second moments of W = A Bᵀ with independent entries of A and B, in float64.

Var W_ij = Σ_k (σ²_A σ²_B + σ²_A μ²_B + μ²_A σ²_B); entries that share a row have Σ_k σ²_A,ik μ_B,jk μ_B,lk, entries
that share a column Σ_k μ_A,ik μ_A,lk σ²_B,jk, and entries that share neither exactly 0.
"""

import numpy as np
from keras import ops

Entry = tuple[int, int]


def moments(factor) -> tuple[np.ndarray, np.ndarray]:
    """Returns the means and variances of a factor's scalars."""
    mean, variance = (ops.convert_to_numpy(v).astype("float64") for v in (factor.loc, factor.variance))
    return mean, variance


def product_variance(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Returns Var of every entry of A Bᵀ."""
    (mean_a, var_a), (mean_b, var_b) = a, b
    return var_a @ var_b.T + var_a @ (mean_b**2).T + mean_a**2 @ var_b.T


def product_covariance(
    a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray], entry: Entry, other: Entry
) -> float:
    """Returns Cov(W_ij, W_st) of A Bᵀ for `entry` (i, j) and `other` (s, t)."""
    (mean_a, var_a), (mean_b, var_b) = a, b
    (i, j), (s, t) = entry, other
    both = var_a[i] * (i == s) * var_b[j] * (j == t)
    same_row = var_a[i] * mean_b[j] * mean_b[t] * (i == s)
    same_column = mean_a[i] * mean_a[s] * var_b[j] * (j == t)
    return float(np.sum(both + same_row + same_column))
