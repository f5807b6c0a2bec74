"""Catoni's bound: PAC-Bayes with a constant that was fixed without the examples, and therefore without ln(2√N).

For every C > 0 that does not depend on the N examples, with probability 1 − δ over them, for all posteriors Q at once
(Catoni 2007),

    L(Q) ≤ (1 − exp(−C L̂(Q) − (KL(Q ‖ P) + ln(1/δ))/N)) / (1 − e^(−C)).

With the best C it is kl⁻¹(L̂ | (KL + ln(1/δ))/N), which is the kl form less ln(2√N). The best C depends on the examples,
so it is guessed from others, or taken from a grid that pays ln(its size).
"""

import math

from scipy.optimize import minimize_scalar

from singularbayes.bounds.bound import Bound
from singularbayes.bounds.pac_bayes import ASSUMPTIONS, read_risk, require_part
from singularbayes.checks import require_at_least, require_integer, require_positive, require_share, require_unit

CONSTANTS = tuple(2.0 ** (k / 2) for k in range(-11, 5))  # from 0.022 to 4, the grid where no C is given
_ROUNDING = 1e-12


def catoni(
    risk: float | Bound,
    kl: float,
    num_data: int,
    delta: float = 0.05,
    constant: float | None = None,
    share: float = 1.0,
) -> Bound:
    """Returns Catoni's upper bound of L(Q), the risk of the randomised predictor on new data.

    Args:
        risk, kl, num_data, delta, share: as `pac_bayes` takes them.
        constant: C, fixed without these examples, for example by `catoni_constant`; None takes the best of the grid
            `CONSTANTS` and pays for all of it.

    >>> [round(catoni(0.02, 5.0, 18_000, constant=c).value, 4) for c in (0.1, 0.3, 1.0)]
    [0.0257, 0.0248, 0.032]
    >>> round(catoni(0.02, 5.0, 18_000).value, 4), len(CONSTANTS)
    (0.0252, 16)
    """
    require_at_least("catoni", 0, kl=kl)
    require_integer("catoni", num_data=num_data)
    require_share("catoni", delta=delta)
    require_part("catoni", share)
    if constant is not None:
        require_positive("catoni", constant=constant)
    value, deltas, defect = read_risk("catoni", risk)
    grid = CONSTANTS if constant is None else (float(constant),)
    part = share / len(grid)
    budget = (kl + math.log(1 / (delta * part))) / num_data
    uncapped, best = min((_solve(c, value, budget), c) for c in grid)
    given = "empirical risk given exactly" if not isinstance(risk, Bound) else "independent draws"
    fixed = () if constant is None else (f"Catoni's constant C = {best:.4g} fixed without these examples",)
    return Bound(
        "PAC-Bayes, Catoni",
        "risk of the randomised predictor",
        min(1.0, uncapped),
        assumptions=(*ASSUMPTIONS, given, *fixed),
        deltas={"data": delta, **deltas},
        terms={
            "empirical risk": value,
            "KL": kl,
            "budget": budget,
            "C": best,
            "uncapped": uncapped,
            "share of δ": part,
        },
        trivial=1.0,
        defect=defect,
    )


def catoni_constant(risk: float, kl: float, num_data: int, delta: float = 0.05) -> float:
    """Returns the C with the smallest bound where the risk on `num_data` examples and the KL are as assumed.

    Args:
        risk: L̂(Q) as other examples have it, for example those that the prior was learned on.
        kl: KL(Q ‖ P) in nats that is expected.

    >>> round(catoni_constant(0.02, 5.0, 18_000), 3)
    0.2
    """
    require_unit("catoni_constant", risk=risk)
    require_at_least("catoni_constant", 0, kl=kl)
    require_integer("catoni_constant", num_data=num_data)
    require_share("catoni_constant", delta=delta)
    budget = (kl + math.log(1 / delta)) / num_data
    best = minimize_scalar(lambda log_c: _solve(math.exp(log_c), risk, budget), bounds=(-12, 6), method="bounded")
    return float(math.exp(best.x))


def _solve(constant: float, risk: float, budget: float) -> float:
    return math.expm1(-constant * risk - budget) / math.expm1(-constant) * (1 + _ROUNDING)
