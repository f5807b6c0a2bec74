"""An upper bound of the mean of numbers in [0, 1] that profits when they vary little, as risks of drawn networks do.

If the mean were m, betting a part λ of one's wealth on "below m" at every number, ∏(1 + λ(m − x_i)), would be fair: it
reaches 1/δ with probability at most δ. So the mean is below every m at which it does (Waudby-Smith and Ramdas 2024).
"""

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp

from singularbayes.checks import require_share, require_unit

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
