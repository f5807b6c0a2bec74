"""The small-variance certificate: when a sampled network stays close to the network of the mean weights.

With W̄_i = E[A_i] E[B_i]ᵀ, a_i = ‖A_i B_iᵀ − W̄_i‖₂/‖W̄_i‖₂, S = Σ a_i and P = ∏‖W̄_i‖₂, for all ‖x‖ ≤ R

    ‖f_w(x) − f_w̄(x)‖ ≤ R P (∏(1 + a_i) − 1) ≤ R P (e^S − 1).

The condition is on the sum as a whole: one layer may move much when the others move little. Dense layers without
biases, 1-Lipschitz activations that are 0 at 0 (`architecture`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from singularbayes.bounds.bound import Bound
from singularbayes.checks import require_at_least, require_choice, require_finite, require_positive, require_share

DEVIATION_FORMS = ("exponential", "product", "mean", "linear")
LINEAR_LIMIT = 1.7507867226801461  # e S ≥ e^S − 1 up to here, and not beyond
_ASSUMPTIONS = ("dense layers without biases", "1-Lipschitz activations with φ(0) = 0", "‖x‖ ≤ R")


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
        form: "product" R P (∏(1 + a_i) − 1) is the tightest; "mean" R P ((1 + S/D)^D − 1) and "exponential"
            R P (e^S − 1) depend on the sum alone; "linear" e R P S is false for S > 1.75.

    >>> round(deviation([0.01, 0.01], norms=[2.0, 3.0], radius=1.0).value, 4)
    0.1212
    """
    require_choice("deviation", DEVIATION_FORMS, form=form)
    for value in perturbations:
        require_at_least("deviation", 0, perturbation=value)
    require_positive("deviation", norms=norms, radius=radius)
    if len(perturbations) != len(norms):
        raise ValueError(f"deviation needs one perturbation per norm; got {len(perturbations)} and {len(norms)}.")
    total, depth, product = sum(perturbations), len(norms), math.prod(norms)
    with np.errstate(over="ignore"):  # infinity is a bound
        grown = {
            "product": np.expm1(np.log1p(perturbations).sum()),
            "mean": np.expm1(depth * np.log1p(total / depth)),
            "exponential": np.expm1(total),
            "linear": math.e * total,
        }[form]
    false = form == "linear" and total > LINEAR_LIMIT
    return Bound(
        f"Perturbation, {form} form",
        "distance from the mean network",
        float(radius * product * grown),
        assumptions=_ASSUMPTIONS,
        terms={"S": total, "product of norms": product},
        defect=f"e S is below e^S − 1 for S > {LINEAR_LIMIT:.4g}" if false else None,
    )


def sum_threshold(margin: float, norms: Sequence[float], radius: float, form: str = "exponential") -> float:
    """Returns s* with: S ≤ s* keeps the sampled network within margin/4 of the mean network on ‖x‖ ≤ radius.

    ln(1 + γ/(4 R P)); form "linear": min(1, γ/(4 e R P)), where the cap at 1 is needed.

    >>> sum_threshold(margin=1.0, norms=[1.0, 2.0], radius=1.0)
    0.1178
    """
    require_choice("sum_threshold", ("exponential", "linear"), form=form)
    require_positive("sum_threshold", margin=margin, norms=norms, radius=radius)
    ratio = margin / (4 * radius * math.prod(norms))
    return math.log1p(ratio) if form == "exponential" else min(1.0, ratio / math.e)


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


def sum_budget(layers: Sequence[GaussianLayer], probability: float = 0.5) -> float:
    """Returns Σ ρ_i(t), which S stays within with the given probability: t = √(2 ln(2D/(1 − probability))).

    Rounded up, so that `budget_probability` of it is at least the given probability.

    >>> from singularbayes.bounds import GaussianLayer
    >>> layer = GaussianLayer.from_factors((np.ones((4, 1)), 0.01), (np.ones((3, 1)), 0.01))
    >>> sum_budget([layer], 0.5) < sum_budget([layer], 0.99)
    True
    """
    require_share("sum_budget", probability=probability)
    if not len(layers):
        raise ValueError("sum_budget needs at least one layer; got none.")
    t = math.sqrt(2 * math.log(2 * len(layers) / (1 - probability))) * (1 + 1e-11)
    return sum(layer.perturbation(t) for layer in layers) * (1 + 1e-11)
