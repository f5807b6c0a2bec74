"""Confidence bounds of a mean or a probability: the inverse of the binary kl, betting, and Clopper–Pearson.

`betting_mean` profits when the numbers vary little, as risks of drawn networks do. If the mean were m, betting a part λ
of one's wealth on "below m" at every number, ∏(1 + λ(m − x_i)), would be fair: it reaches 1/δ with probability at most
δ. So the mean is below every m at which it does (Waudby-Smith and Ramdas 2024).
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp, rel_entr
from scipy.stats import binomtest

from singularbayes.bounds.bound import Bound
from singularbayes.checks import require_at_least, require_choice, require_integer, require_share, require_unit


def kl_inverse(q: float, c: float) -> float:
    """Returns kl⁻¹(q | c), the largest p with kl(q ‖ p) = q ln(q/p) + (1 − q) ln((1 − q)/(1 − p)) ≤ c, rounded up.

    It is never below the true value.

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


_PARTS = 2.0 ** -np.arange(10)  # the wealth is spread evenly over these λ, so that none has to be chosen from the data


def betting_mean(values: np.ndarray, delta: float) -> float:
    """Returns what the mean of independent numbers in [0, 1] exceeds with probability at most δ.

    With n numbers of little variance it is about ln(10/δ)/n above their average x̄, where kl⁻¹ is √(2 x̄ ln(2/δ)/n).

    >>> values = np.full(1000, 0.02)
    >>> betting_mean(values, delta=0.01)
    0.0269
    """
    values = np.asarray(values, "float64").ravel()
    require_unit("betting_mean", values=values)
    require_share("betting_mean", delta=delta)

    def excess(m: float) -> float:
        with np.errstate(divide="ignore"):
            wealth = np.log1p(_PARTS * (m - values[:, None])).sum(axis=0)
        return float(logsumexp(wealth) - math.log(len(_PARTS)) + math.log(delta))

    average = float(values.mean())
    if average >= 1 or excess(1.0) <= 0:
        return 1.0
    return min(1.0, brentq(excess, average, 1.0, xtol=1e-12) + 1e-10)  # the wealth grows with m: a little more is safe


def probability_at_least(successes: int, draws: int, delta: float = 0.05, event: str = "the event") -> Bound:
    """Returns the Clopper–Pearson lower bound of a probability: above it in at most δ of all repetitions.

    >>> round(probability_at_least(98, 100, delta=0.05).value, 4)
    0.9384
    """
    require_integer("probability_at_least", draws=draws)
    require_integer("probability_at_least", 0, successes=successes)
    require_share("probability_at_least", delta=delta)
    if successes > draws:
        raise ValueError(f"probability_at_least needs successes <= draws; got {successes} of {draws}.")
    interval = binomtest(int(successes), int(draws), alternative="greater").proportion_ci(1 - delta, method="exact")
    return Bound(
        "Clopper–Pearson",
        f"probability of {event}",
        float(interval.low),
        side="≥",
        assumptions=("independent draws",),
        deltas={"Monte Carlo": delta},
        terms={"successes": successes, "draws": draws},
        trivial=0.0,
    )


def mean_at_most(losses: np.ndarray, delta: float = 0.05, method: str = "binomial") -> Bound:
    """Returns the hold-out bound: what the mean of a loss in [0, 1] exceeds in at most δ of all repetitions.

    Args:
        losses: one per independent example (examples,), of a predictor that was fixed without them.
        method: "binomial" counts losses that are 0 or 1 (Clopper–Pearson); "betting" takes all in [0, 1]. It follows
            from the loss, not from the numbers.

    >>> mistakes = np.repeat([0, 1], [980, 20])
    >>> [round(mean_at_most(mistakes, 0.05, method).value, 4) for method in ("binomial", "betting")]
    [0.0289, 0.0373]
    """
    require_choice("mean_at_most", ("binomial", "betting"), method=method)
    losses = np.asarray(losses, "float64")
    if losses.ndim != 1 or not losses.size:
        raise ValueError(f"mean_at_most needs one loss per example, an array (examples,); got shape {losses.shape}.")
    require_unit("mean_at_most", losses=losses)
    require_share("mean_at_most", delta=delta)
    terms: dict[str, float] = {"mean": float(losses.mean()), "N": len(losses)}
    if method == "betting":
        name, value = "Hold-out, betting", betting_mean(losses, delta)
    else:
        if not np.isin(losses, (0.0, 1.0)).all():
            raise ValueError("mean_at_most needs losses of 0 or 1 for method='binomial'; use method='betting'.")
        count = int(losses.sum())
        interval = binomtest(count, len(losses), alternative="less").proportion_ci(1 - delta, method="exact")
        name, value = "Hold-out, Clopper–Pearson", float(interval.high)
        terms["mistakes"] = count
    return Bound(
        name,
        "mean loss",
        min(1.0, value),
        assumptions=("independent examples", "loss in [0, 1]", "predictor fixed without these examples"),
        deltas={"data": delta},
        terms=terms,
        trivial=1.0,
    )
