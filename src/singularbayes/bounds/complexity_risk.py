"""From Gaussian complexity to the risk of the mean predictor, which averages over draws.

With probability 1 − δ over N examples, for all networks of a class and their averages,

    L ≤ L̂ + √(2π) λ Ĝ + 3 √(ln(2/δ)/(2N))

for a λ-Lipschitz loss in [0, 1]. The class must be fixed before the data are seen. An average over draws with
‖W_i‖₂ ≤ C_i lies in the closed convex hull of the class, whose Ĝ is the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from singularbayes.bounds.bound import Bound
from singularbayes.checks import require_choice, require_integer, require_positive, require_share, require_unit

_ASSUMPTIONS = (
    "independent examples",
    "Lipschitz loss in [0, 1]",
    "norms and ranks of the class fixed before the data, or stratified",
    "every averaged draw within the norms",
)
_CONTRACTION = "the constant √(πλ) is false: rescaling outputs and loss leaves the problem as it is and sends √λ Ĝ to 0"
_CONVEX = (
    "needs a convex loss into [0, 1] on the outputs: on all of Rᵏ only constants are; use probabilities with half the "
    "Brier score, or the rejection-sampled predictor"
)
_CONVEX_ASSUMPTIONS = (
    "loss convex and in [0, 1] on the outputs",
    "empirical risk of the exact mean over accepted draws",
)
APPROACHES = ("rejection", "A", "B")


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
    variant: str = "sound",
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
    >>> complexity_risk(0.0, everything, 10_000, variant="published").value
    0.7478
    """
    require_choice("complexity_risk", ("sound", "published"), variant=variant)
    _require("complexity_risk", risk, complexity, num_data, lipschitz, delta, share)
    constant = math.sqrt(math.pi * lipschitz) if variant == "published" else math.sqrt(2 * math.pi) * lipschitz
    gap = constant * complexity.value
    slack = 3 * math.sqrt(math.log(2 / (delta * share)) / (2 * num_data))
    bound = Bound(
        "Gaussian complexity",
        "risk of the mean predictor",
        min(1.0, risk + gap + slack),
        variant=variant,
        assumptions=_ASSUMPTIONS + complexity.assumptions,
        deltas={"data": delta, **complexity.deltas},
        terms={
            "empirical risk": risk,
            "gap": gap,
            "slack": slack,
            "uncapped": risk + gap + slack,
            "share of δ": share,
        },
        trivial=1.0,
        defect=complexity.defect,
    )
    return bound.with_defect(_CONTRACTION) if variant == "published" else bound


def good_event_risk(
    bound: Bound, failure: float, approach: str = "rejection", convex_on_outputs: bool = False
) -> Bound:
    """Returns a risk bound for draws whose norms are bounded only with probability 1 − `failure`.

    "rejection" is about f_good, the predictor that averages only the draws within the norms: it needs no more than
    `complexity_risk`, and `failure` only gives how many draws are rejected. Approaches A and B of the paper are about
    the average over *all* draws: they add `failure` and need a loss that is convex and in [0, 1] on the outputs.

    Args:
        bound: `complexity_risk` of f_good, for every approach.
        failure: probability that a draw exceeds a norm, δ_total; see `good_event_failure`.
        convex_on_outputs: the loss is convex and in [0, 1] on all outputs, as half the Brier score is on probabilities.

    >>> from singularbayes.bounds import NetworkClass, complexity_risk, gaussian_complexity
    >>> one_layer = NetworkClass(norms=[0.1], ranks=[1], widths=[4, 2])
    >>> risk = complexity_risk(0.1, gaussian_complexity(one_layer, 3.0, 1000), num_data=1000)
    >>> [good_event_risk(risk, 0.02, approach=approach).is_certificate for approach in ("rejection", "A")]
    [True, False]
    """
    require_choice("good_event_risk", APPROACHES, approach=approach)
    require_share("good_event_risk", failure=failure)
    rejection = approach == "rejection"
    uncapped = bound.terms["uncapped"] + (0.0 if rejection else failure)
    found = replace(
        bound,
        name=f"Gaussian complexity, {'by rejection' if rejection else 'approach ' + approach}",
        quantity=f"risk of the mean predictor of {'the accepted' if rejection else 'all'} draws",
        value=min(1.0, uncapped),
        assumptions=bound.assumptions + (() if rejection else _CONVEX_ASSUMPTIONS),
        terms={**bound.terms, "uncapped": uncapped, "probability of a bad draw": failure},
    )
    return found if rejection or convex_on_outputs else found.with_defect(_CONVEX)


def good_event_failure(failures: Sequence[float]) -> float:
    """Returns δ_total, the probability that any factor exceeds its norm, from that of each: they are independent.

    1 − ∏(1 − δ_i), a little below the union bound Σ δ_i.

    >>> round(good_event_failure([0.01, 0.02]), 4)
    0.0298
    """
    for failure in failures:
        require_share("good_event_failure", failure=failure)
    return -math.expm1(sum(math.log1p(-failure) for failure in failures))


def matrix_failure(failure: float, depth: int, approach: str = "A", variant: str = "sound") -> float:
    """Returns the δ of one factor matrix when all 2D of them together may fail with probability `failure`.

    The paper's approach B gives each *pair* δ/(2D), so that all D pairs fail with probability δ/2: true, but half of
    what it pays for is not used.

    >>> matrix_failure(0.01, depth=2)
    0.0025
    """
    require_share("matrix_failure", failure=failure)
    require_integer("matrix_failure", depth=depth)
    require_choice("matrix_failure", ("A", "B"), approach=approach)
    require_choice("matrix_failure", ("sound", "published"), variant=variant)
    wasted = 2 if approach == "B" and variant == "published" else 1
    return failure / (2 * depth * wasted)


def _require(name: str, risk, complexity, num_data, lipschitz, delta, share) -> None:
    require_unit(name, risk=risk)
    if not isinstance(complexity, Bound):
        raise TypeError(f"{name} needs complexity as gaussian_complexity returns it; got {type(complexity).__name__}.")
    require_positive(name, lipschitz=lipschitz)
    require_integer(name, num_data=num_data)
    require_share(name, delta=delta)
    if share != 1:
        require_share(name, share=share)
