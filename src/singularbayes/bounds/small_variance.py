"""Whether draws stay close to the mean network often enough, and what that means for the mean network's risk."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from singularbayes.bounds.bound import Bound
from singularbayes.bounds.confidence import probability_at_least
from singularbayes.bounds.perturbation import GaussianLayer
from singularbayes.checks import (
    require_at_least,
    require_finite,
    require_integer,
    require_positive,
    require_share,
    require_unit,
)

_EVENT = "S ≤ s*"
_ROUNDING = 1e-12  # relative, more than sums over layers and exponentials lose in float64


@dataclass(frozen=True, repr=False)
class SmallVariance:
    """Q(S ≤ s*) from below, by draws and by the analytic budget. It is reached when either has what is required.

    Args:
        threshold: s*, see `sum_threshold`.
        required: ½, or 1/(2 (1 − δ_total)) of draws that were accepted with probability 1 − δ_total.

    >>> sums = np.random.default_rng(0).uniform(0.01, 0.05, 200)
    >>> found = small_variance(sums, threshold=0.1)
    >>> found.reached, found.required
    (True, 0.5)
    """

    threshold: float
    required: float
    sampled: Bound
    analytic: Bound | None = None

    @property
    def analytic_reached(self) -> bool:
        return self.analytic is not None and self.analytic.value >= 0.5  # of all draws, accepted or not

    @property
    def reached(self) -> bool:
        return self.analytic_reached or self.sampled.value >= self.required

    @property
    def deltas(self) -> dict[str, float]:
        """What may go wrong: nothing where the budget suffices, else the draws."""
        return {} if self.analytic_reached else dict(self.sampled.deltas)

    def __repr__(self) -> str:
        parts = [f"Small variance: Q({_EVENT}) for s* = {self.threshold:.4g}, {self.required:.4g} required: "]
        parts[0] += "reached" if self.reached else "NOT reached"
        return "\n".join([*parts, repr(self.sampled), *([repr(self.analytic)] if self.analytic else [])])


def small_variance(
    sums: np.ndarray,
    threshold: float,
    delta: float = 0.05,
    layers: Sequence[GaussianLayer] | None = None,
    failure: float | None = None,
) -> SmallVariance:
    """Returns the certificate from S of independent draws, one number each (draws,).

    Args:
        threshold: s*, see `sum_threshold`.
        delta: probability that the lower bound by draws is above Q(S ≤ s*).
        layers: facts for the analytic budget, where all entries are Gaussian.
        failure: δ_total, when only draws within the good event were kept.

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
    if failure is not None:
        require_share("small_variance", failure=failure)
    within = int((sums <= threshold).sum())
    event = _EVENT if failure is None else f"{_EVENT} given the good event"
    return SmallVariance(
        float(threshold),
        0.5 / (1 - (failure or 0.0)),
        probability_at_least(within, len(sums), delta, event),
        None if layers is None else budget_probability(layers, threshold),
    )


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


def margin_risk(
    risk: float, kl: float, num_data: int, delta: float = 0.05, certificate: SmallVariance | None = None
) -> Bound:
    """Returns an upper bound of the 0-1 risk of the *mean network* from its empirical risk at a margin γ.

    L₀ ≤ L̂_γ + 4 √((KL + ln(6N/δ))/(N − 1)) (Neyshabur et al. 2018, Lemma 1), whenever sampled networks stay within γ/4
    of the mean network with probability ½: that is what the certificate is for.

    Args:
        risk: share of examples whose margin is at most γ.
        certificate: of the threshold `sum_threshold(γ, …)`; without one that is reached the number certifies nothing.

    >>> margin_risk(0.05, kl=20.0, num_data=10_000).is_certificate  # it needs `small_variance` as its certificate
    False
    """
    require_unit("margin_risk", risk=risk)
    require_at_least("margin_risk", 0, kl=kl)
    require_integer("margin_risk", 2, num_data=num_data)
    require_share("margin_risk", delta=delta)
    gap = 4 * math.sqrt((kl + math.log(6 * num_data / delta)) / (num_data - 1))
    reached = certificate is not None and certificate.reached
    return Bound(
        "Margin",
        "0-1 risk of the mean network",
        min(1.0, risk + gap),
        assumptions=("independent examples", "‖x‖ ≤ R", "prior and margin fixed without these examples"),
        deltas={"data": delta, **(certificate.deltas if certificate else {})},
        terms={"risk at the margin": risk, "KL": kl, "gap": gap, "uncapped": risk + gap},
        trivial=1.0,
        defect=None if reached else "not shown that draws stay within γ/4 of the mean network with probability ½",
    )
