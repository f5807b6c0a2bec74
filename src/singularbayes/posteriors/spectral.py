"""Spectral norms of matrices, and matrices kept within one."""

from keras import ops

_MARGIN = 1e-6  # so that rounding in single precision does not exceed the limit


def spectral_norm(matrix):
    """Returns ‖A‖₂, the largest singular value."""
    return ops.norm(matrix, ord=2, axis=(-2, -1))


def clipped(matrix, limit: float):
    """Returns min(1, limit/‖A‖₂) A."""
    norm = ops.maximum(spectral_norm(matrix), 1e-30)
    return ops.minimum(1.0, (1.0 - _MARGIN) * limit / norm) * matrix


def first_within(matrices, limit: float):
    """Returns the first of some matrices whose norm is within the limit; where none is, the last scaled down to it."""
    *earlier, last = matrices
    chosen = clipped(last, limit)
    for matrix in reversed(earlier):
        chosen = ops.where(spectral_norm(matrix) <= (1.0 - _MARGIN) * limit, matrix, chosen)
    return chosen
