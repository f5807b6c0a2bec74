"""From Gaussian complexity to the risk of the mean predictor, which averages over draws.

With probability 1 − δ over N examples, for all networks of a class and their averages,

    L ≤ L̂ + √(2π) λ Ĝ + 3 √(ln(2/δ)/(2N))

for a λ-Lipschitz loss in [0, 1]. The class must be fixed before the data are seen. An average over draws with
‖W_i‖₂ ≤ C_i lies in the closed convex hull of the class, whose Ĝ is the same: draws that exceed a norm are rejected.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from singularbayes.bounds.bound import Bound
from singularbayes.bounds.pac_bayes import require_part
from singularbayes.checks import require_integer, require_positive, require_share, require_unit

_ASSUMPTIONS = (
    "independent examples",
    "Lipschitz loss in [0, 1]",
    "norms and ranks of the class fixed before the data, or stratified",
    "every averaged draw within the norms",
)


@dataclass(frozen=True)
class Strata:
    """Norms rounded up to a grid that was fixed beforehand, and the share of δ that their cell has.

    >>> stratify([0.9, 3.0]).norms
    (1.0, 4.0)
    """

    norms: tuple[float, ...]
    share: float


def stratify(norms: Sequence[float], unit: float = 1.0) -> Strata:
    """Returns the cell C_i = unit · 2^k_i ≥ norms[i] of learned norms; its share of δ is ∏ 1/(2.29 (|k_i| + 1)²).

    The shares of all cells add to less than 1, so a bound with δ · share in place of δ holds for all cells together.

    >>> stratify([0.9, 3.0])
    Strata(norms=(1.0, 4.0), share=0.0212)
    """
    require_positive("stratify", norms=norms, unit=unit)
    powers = [math.ceil(math.log2(norm / unit)) for norm in norms]
    powers = [k if unit * 2.0**k >= norm else k + 1 for k, norm in zip(powers, norms, strict=True)]
    share = math.prod(1 / (2.29 * (abs(k) + 1) ** 2) for k in powers)
    return Strata(tuple(unit * 2.0**k for k in powers), share)


def complexity_risk(
    risk: float,
    complexity: Bound,
    num_data: int,
    lipschitz: float = 1.0,
    delta: float = 0.05,
    share: float = 1.0,
) -> Bound:
    """Returns an upper bound of the risk of a predictor that averages draws whose norms are surely bounded.

    Args:
        risk: empirical risk of the predictor itself; an average over finitely many draws has one exactly.
        complexity: Ĝ of the class, from `gaussian_complexity` or `linear_complexity`; its δ and defect are passed on.
        lipschitz: λ of the loss in the outputs.
        share: part of δ for this class: `stratify(norms).share`, divided by the number of ranks that were tried.

    >>> from singularbayes.bounds import Bound
    >>> everything = Bound("Ĝ", "all functions into [0, 1]", 1 / math.sqrt(2 * math.pi))
    >>> complexity_risk(0.0, everything, 10_000).terms["uncapped"]  # such a class can be wrong everywhere: risk 1
    1.0407
    """
    require_unit("complexity_risk", risk=risk)
    if not isinstance(complexity, Bound):
        raise TypeError(
            f"complexity_risk needs complexity as gaussian_complexity returns it; got {type(complexity).__name__}."
        )
    require_positive("complexity_risk", lipschitz=lipschitz)
    require_integer("complexity_risk", num_data=num_data)
    require_share("complexity_risk", delta=delta)
    require_part("complexity_risk", share)
    gap = math.sqrt(2 * math.pi) * lipschitz * complexity.value
    slack = 3 * math.sqrt(math.log(2 / (delta * share)) / (2 * num_data))
    uncapped = risk + gap + slack
    return Bound(
        "Gaussian complexity",
        "risk of the mean predictor",
        min(1.0, uncapped),
        assumptions=_ASSUMPTIONS + complexity.assumptions,
        deltas={"data": delta, **complexity.deltas},
        terms={"empirical risk": risk, "gap": gap, "slack": slack, "uncapped": uncapped, "share of δ": share},
        trivial=1.0,
        defect=complexity.defect,
    )
