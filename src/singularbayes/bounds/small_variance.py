"""The small-variance certificate: when a sampled network stays close to the network of the mean weights.

With W̄_i = E[A_i] E[B_i]ᵀ, a_i = ‖A_i B_iᵀ − W̄_i‖₂/‖W̄_i‖₂, S = Σ a_i and P = ∏‖W̄_i‖₂, for all ‖x‖ ≤ R

    ‖f_w(x) − f_w̄(x)‖ ≤ R P (∏(1 + a_i) − 1) ≤ R P (e^S − 1).

The condition is on the sum as a whole: one layer may move much when the others move little. It is about dense layers
without biases, with 1-Lipschitz activations that are 0 at 0; with a sigmoid the inequality is false.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from singularbayes.bounds.bound import Bound
from singularbayes.bounds.confidence import probability_at_least
from singularbayes.checks import require_at_least, require_choice, require_finite, require_positive

DEVIATION_FORMS = ("exponential", "product")
_ASSUMPTIONS = ("dense layers without biases", "1-Lipschitz activations with φ(0) = 0", "‖x‖ ≤ R")
_EVENT = "S ≤ s*"
_ROUNDING = 1e-12  # relative, more than sums over layers and exponentials lose in float64


def product_norm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns ‖A Bᵀ‖₂ for factors (…, rows, rank), without making the product.

    >>> product_norm(np.array([[2.0], [0.0]]), np.array([[3.0], [0.0]]))
    np.float64(6.0)
    """
    return np.linalg.norm(np.linalg.qr(a, mode="r") @ np.swapaxes(np.linalg.qr(b, mode="r"), -1, -2), 2, axis=(-2, -1))


def relative_perturbation(a: np.ndarray, b: np.ndarray, mean_a: np.ndarray, mean_b: np.ndarray) -> np.ndarray:
    """Returns ‖A Bᵀ − Ā B̄ᵀ‖₂ / ‖Ā B̄ᵀ‖₂ of every draw of one layer.

    Args:
        a, b: draws of the factors, (draws, rows, rank) each; which of the two is on the input side does not matter.
        mean_a, mean_b: their means, (rows, rank).

    >>> mean = np.ones((3, 1))
    >>> relative_perturbation(1.1 * mean[None], mean[None], mean, mean).round(3)
    array([0.1])
    """
    a, b, mean_a, mean_b = (np.asarray(value, "float64") for value in (a, b, mean_a, mean_b))
    require_finite("relative_perturbation", a=a, b=b, mean_a=mean_a, mean_b=mean_b)
    if a.ndim != 3 or a.shape[1:] != mean_a.shape or b.shape[1:] != mean_b.shape or len(a) != len(b):
        raise ValueError(
            "relative_perturbation needs the same number of draws of both factors, in the shapes of their means; got "
            f"{a.shape} and {b.shape} for {mean_a.shape} and {mean_b.shape}."
        )
    norm = float(product_norm(mean_a, mean_b))
    if not norm:
        raise ValueError("relative_perturbation needs a mean weight other than 0; got Ā B̄ᵀ = 0.")
    # A Bᵀ − Ā B̄ᵀ = [A, −Ā] [B, B̄]ᵀ
    left = np.concatenate([a, np.broadcast_to(-mean_a, a.shape)], axis=-1)
    right = np.concatenate([b, np.broadcast_to(mean_b, b.shape)], axis=-1)
    return product_norm(left, right) / norm


def deviation(
    perturbations: Sequence[float], norms: Sequence[float], radius: float, form: str = "exponential"
) -> Bound:
    """Returns a bound of ‖f_w(x) − f_w̄(x)‖ over ‖x‖ ≤ radius for one sampled network.

    Args:
        perturbations: a_i of every layer.
        norms: ‖W̄_i‖₂ of every layer.
        form: "product" R P (∏(1 + a_i) − 1) is the tightest, "exponential" R P (e^S − 1) depends on the sum alone.

    >>> round(deviation([0.01, 0.01], norms=[2.0, 3.0], radius=1.0).value, 4)
    0.1212
    """
    require_choice("deviation", DEVIATION_FORMS, form=form)
    for value in perturbations:
        require_at_least("deviation", 0, perturbation=value)
    require_positive("deviation", norms=norms, radius=radius)
    if len(perturbations) != len(norms):
        raise ValueError(f"deviation needs one perturbation per norm; got {len(perturbations)} and {len(norms)}.")
    total, product = sum(perturbations), math.prod(norms)
    with np.errstate(over="ignore"):  # infinity is a bound
        grown = np.expm1(np.log1p(perturbations).sum() if form == "product" else total)
    return Bound(
        f"Perturbation, {form} form",
        "distance from the mean network",
        float(radius * product * grown),
        assumptions=_ASSUMPTIONS,
        terms={"S": total, "product of norms": product},
    )


def sum_threshold(margin: float, norms: Sequence[float], radius: float) -> float:
    """Returns s* = ln(1 + γ/(4 R P)): S ≤ s* keeps the network within margin/4 of the mean one on ‖x‖ ≤ radius.

    >>> sum_threshold(margin=1.0, norms=[1.0, 2.0], radius=1.0)
    0.1178
    """
    require_positive("sum_threshold", margin=margin, norms=norms, radius=radius)
    return math.log1p(margin / (4 * radius * math.prod(norms)))


@dataclass(frozen=True)
class GaussianLayer:
    """What the analytic budget needs of a layer A Bᵀ with independent Gaussian entries.

    Args:
        rows_a, rows_b, rank: A is rows_a × rank, B rows_b × rank.
        norm_a, norm_b, norm: ‖Ā‖₂, ‖B̄‖₂ and ‖Ā B̄ᵀ‖₂.
        scale_a, scale_b: the *largest* scale of the entries of A and of B.

    >>> mean = np.ones((3, 1))
    >>> GaussianLayer.from_factors((mean, 0.1), (mean, 0.2)).scale_b
    0.2
    """

    rows_a: int
    rows_b: int
    rank: int
    norm_a: float
    norm_b: float
    norm: float
    scale_a: float
    scale_b: float

    @classmethod
    def from_factors(cls, a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> "GaussianLayer":
        """Returns the facts of a layer from the means and scales (loc, scale) of its factors, each (rows, rank)."""
        (mean_a, scale_a), (mean_b, scale_b) = a, b
        require_finite("GaussianLayer", mean_a=mean_a, mean_b=mean_b)
        require_positive("GaussianLayer", scale_a=scale_a, scale_b=scale_b)
        return cls(
            len(mean_a),
            len(mean_b),
            mean_a.shape[1],
            norm_a=float(np.linalg.norm(mean_a, 2)),
            norm_b=float(np.linalg.norm(mean_b, 2)),
            norm=float(product_norm(mean_a, mean_b)),
            scale_a=float(np.max(scale_a)),
            scale_b=float(np.max(scale_b)),
        )

    def perturbation(self, t: float) -> float:
        """Returns ρ(t), which a_i exceeds with probability at most 2 e^(−t²/2)."""
        root = math.sqrt(self.rank)
        a, b = math.sqrt(self.rows_a) + root + t, math.sqrt(self.rows_b) + root + t
        s, u = self.scale_a, self.scale_b
        return (u * b * self.norm_a + s * a * self.norm_b + s * u * a * b) / self.norm


@dataclass(frozen=True, repr=False)
class SmallVariance:
    """Q(S ≤ s*) from below, by draws and by the analytic budget. It is reached when either is ½.

    Args:
        threshold: s*, see `sum_threshold`.

    >>> sums = np.random.default_rng(0).uniform(0.01, 0.05, 200)
    >>> small_variance(sums, threshold=0.1).reached
    True
    """

    threshold: float
    sampled: Bound
    analytic: Bound | None = None

    @property
    def reached(self) -> bool:
        return any(bound is not None and bound.value >= 0.5 for bound in (self.sampled, self.analytic))

    def __repr__(self) -> str:
        reached = "reached" if self.reached else "NOT reached"
        head = f"Small variance: Q({_EVENT}) ≥ ½ for s* = {self.threshold:.4g}: {reached}"
        return "\n".join([head, repr(self.sampled), *([repr(self.analytic)] if self.analytic else [])])


def small_variance(
    sums: np.ndarray, threshold: float, delta: float = 0.05, layers: Sequence[GaussianLayer] | None = None
) -> SmallVariance:
    """Returns the certificate from S of independent draws, one number each (draws,).

    Args:
        threshold: s*, see `sum_threshold`.
        delta: probability that the lower bound by draws is above Q(S ≤ s*).
        layers: facts for the analytic budget, where all entries are Gaussian.

    >>> sums = np.random.default_rng(0).uniform(0.05, 0.2, 1000)
    >>> certificate = small_variance(sums, threshold=0.15)
    >>> certificate.reached, certificate.sampled.value
    (True, 0.616)
    """
    sums = np.asarray(sums)
    require_finite("small_variance", sums=sums)
    if sums.ndim != 1 or sums.min() < 0:
        raise ValueError(f"small_variance needs sums >= 0, one per draw; got shape {sums.shape} from {sums.min()}.")
    require_positive("small_variance", threshold=threshold)
    sampled = probability_at_least(int((sums <= threshold).sum()), len(sums), delta, _EVENT)
    return SmallVariance(float(threshold), sampled, None if layers is None else budget_probability(layers, threshold))


def budget_probability(layers: Sequence[GaussianLayer], threshold: float) -> Bound:
    """Returns the analytic lower bound of Q(S ≤ s*): 1 − 2D e^(−t²/2) for the largest t with Σ ρ_i(t) ≤ s*.

    >>> from singularbayes.bounds import GaussianLayer
    >>> layer = GaussianLayer.from_factors((np.ones((4, 1)), 0.001), (np.ones((3, 1)), 0.001))
    >>> budget_probability([layer], 0.1).value > 0.99
    True
    """
    require_positive("budget_probability", threshold=threshold)
    if not len(layers):
        raise ValueError("budget_probability needs at least one layer; got none.")

    def within(t: float) -> bool:
        return sum(layer.perturbation(t) for layer in layers) * (1 + _ROUNDING) <= threshold

    value, t = 0.0, 0.0
    if within(0.0):
        end = 1.0
        while within(end):
            end *= 2
        for _ in range(100):  # halvings: t stays within the budget
            middle = (t + end) / 2
            t, end = (middle, end) if within(middle) else (t, middle)
        failure = 2 * len(layers) * math.exp(-0.5 * t * t) * (1 + _ROUNDING)
        value = max(0.0, math.nextafter(1 - failure, 0.0))  # never rounded up to 1
    return Bound(
        "Analytic budget",
        f"probability of {_EVENT}",
        value,
        side="≥",
        assumptions=("independent Gaussian entries of all factors",),
        terms={"t": t, "s*": threshold},
        trivial=0.0,
    )
