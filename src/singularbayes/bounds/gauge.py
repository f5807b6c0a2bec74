"""The choice of factors with the smallest KL among those that draw the same W.

(A D, B D⁻¹) with a positive diagonal D draws the same W = A Bᵀ as (A, B), and its entries stay independent, but the KL
of the factors changes. A PAC-Bayes bound holds for all posteriors at once, so the smallest may be taken after training.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from singularbayes.checks import require_finite, require_positive

Divergence = Callable[[np.ndarray, np.ndarray], np.ndarray]  # (loc, scale) → KL of every entry

_GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class Gauge:
    """The diagonal of D, one number per column, and the factors' KL without and with it, in nats.

    >>> from singularbayes.bounds import normal_kl
    >>> a, b = (np.array([[4.0]]), np.array([[0.8]])), (np.array([[0.25]]), np.array([[0.05]]))
    >>> best_gauge(a, b, normal_kl).scales
    array([0.25])
    """

    scales: np.ndarray  # (rank,)
    kl_before: float
    kl_after: float

    def apply(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns (A D, B D⁻¹), of means or of scales alike."""
        return a * self.scales, b / self.scales


def best_gauge(
    a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray], kl_a: Divergence, kl_b: Divergence | None = None
) -> Gauge:
    """Returns the D that makes KL(A D) + KL(B D⁻¹) smallest, column by column; never larger than with D = 1.

    Args:
        a, b: means and scales (loc, scale) of the factors, each (rows, rank).
        kl_a, kl_b: KL to the prior of every entry, for example `normal_kl`; `kl_b` is `kl_a` where not given.

    >>> from singularbayes.bounds import normal_kl
    >>> a = np.array([[4.0]]), np.array([[0.8]])  # N(1, 0.2²) times 4
    >>> b = np.array([[0.25]]), np.array([[0.05]])
    >>> gauge = best_gauge(a, b, normal_kl)
    >>> gauge.kl_before, gauge.kl_after, gauge.scales
    (10.57, 3.26, array([0.25]))
    """
    for name, (loc, scale) in {"a": a, "b": b}.items():
        require_finite("best_gauge", **{f"{name}[0]": loc})
        require_positive("best_gauge", **{f"{name}[1]": scale})
    shapes = [np.shape(array) for array in (*a, *b)]
    if shapes[0] != shapes[1] or shapes[2] != shapes[3] or [len(s) for s in shapes] != [2] * 4:
        raise ValueError(f"best_gauge needs means and scales of shape (rows, rank); got {shapes}.")
    if shapes[0][1] != shapes[2][1]:
        raise ValueError(f"best_gauge needs factors of one rank; got {shapes[0][1]} and {shapes[2][1]} columns.")
    kl_b = kl_b or kl_a

    def columns(log_scale: np.ndarray) -> np.ndarray:
        d = np.exp(log_scale)
        return kl_a(a[0] * d, a[1] * d).sum(axis=0) + kl_b(b[0] / d, b[1] / d).sum(axis=0)

    found = _minimum(columns, shapes[0][1])
    start, end = columns(np.zeros_like(found)), columns(found)
    found, end = np.where(end < start, found, 0.0), np.minimum(start, end)
    return Gauge(np.exp(found), float(start.sum()), float(end.sum()))


def _minimum(function: Callable[[np.ndarray], np.ndarray], columns: int) -> np.ndarray:
    """Returns where each column's function is smallest in [−5, 5]: golden section around the best of a coarse grid."""
    grid = np.linspace(-5.0, 5.0, 21)
    best = grid[np.argmin([function(np.full(columns, point)) for point in grid], axis=0)]
    low, high = best - 0.5, best + 0.5
    for _ in range(40):  # 0.618⁴⁰ < 10⁻⁸
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        smaller = function(left) < function(right)
        low, high = np.where(smaller, low, left), np.where(smaller, right, high)
    return 0.5 * (low + high)
