"""How probable an event surely is, from how often it happened."""

from scipy.stats import binomtest

from singularbayes.bounds.bound import Bound
from singularbayes.checks import require_integer, require_share


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
