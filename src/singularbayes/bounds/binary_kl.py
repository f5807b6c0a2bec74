"""kl(q ‖ p) of two coins, and its inverse: how large p can be when kl(q ‖ p) is at most c."""

import numpy as np
from scipy.special import rel_entr

from singularbayes.checks import require_at_least, require_unit


def binary_kl(q: float, p: float) -> float:
    """Returns kl(q ‖ p) = q ln(q/p) + (1 − q) ln((1 − q)/(1 − p)), in nats."""
    require_unit("binary_kl", q=q, p=p)
    return float(rel_entr(q, p) + rel_entr(1 - q, 1 - p))


def kl_inverse(q: float, c: float) -> float:
    """Returns kl⁻¹(q | c), the largest p with kl(q ‖ p) ≤ c, rounded up: never below the true value.

    >>> round(kl_inverse(0.1, 0.0126), 4)
    0.1542
    >>> kl_inverse(0.1, 0.0), kl_inverse(0.1, float("inf"))
    (0.1000000..., 1.0)
    """
    require_unit("kl_inverse", q=q)
    require_at_least("kl_inverse", 0, c=c)
    low, high = float(q), 1.0
    middle = 0.5 * (low + high)
    while low < middle < high:  # until they are neighbours among the floating-point numbers
        if _surely_above(q, middle, c):
            high = middle
        else:
            low = middle
        middle = 0.5 * (low + high)
    return high


def _surely_above(q: float, p: float, c: float) -> bool:
    """Returns whether kl(q ‖ p) > c beyond what rounding could feign: that of q/p, worth q ε, and that of the terms."""
    terms = rel_entr(q, p), rel_entr(1 - q, 1 - p)
    return bool(sum(terms) - 8 * np.finfo(float).eps * (1 + abs(terms[0]) + abs(terms[1]) + c) > c)
