"""PAC-Bayes bounds of the risk of the randomised predictor, which draws fresh weights for every prediction.

With probability 1 − δ over N examples, for all posteriors Q at once (Maurer 2004),

    kl(L̂(Q) ‖ L(Q)) ≤ (KL(Q ‖ P) + ln(2√N/δ)) / N.

Solved for L(Q) this is the tightest of three forms; the square-root form, which the paper prints, and the quadratic one
are relaxations of it. Because it holds for all Q, tempering, annealing and early stopping do not touch it. What must
not depend on the N examples is the prior P, and with it the ranks and every weight that Q does not draw.
"""

import math

import numpy as np

from singularbayes.bounds.bound import Bound
from singularbayes.bounds.confidence import betting_mean, kl_inverse
from singularbayes.checks import require_at_least, require_choice, require_integer, require_share, require_unit

FORMS = ("kl", "sqrt", "quadratic")
_NAMES = {"kl": "kl inverse", "sqrt": "square root", "quadratic": "quadratic"}
ASSUMPTIONS = (
    "independent examples",
    "loss in [0, 1]",
    "prior, ranks and undrawn weights fixed without these examples",
    "KL not below its true value",
)


def empirical_risk(risks: np.ndarray, delta: float = 0.01, share: float = 1.0) -> Bound:
    """Returns an upper bound of L̂(Q), given the empirical risk of every drawn network (draws,), by betting.

    Args:
        risks: mean loss of each drawn network over *all* the examples, or over examples that were picked at random for
            this draw alone: then each has the expectation L̂(Q) too. The draws are independent.
        share: part of δ for these draws, 1/k when k configurations are compared by theirs.

    >>> round(empirical_risk(np.full(500, 0.1)).value, 3)  # 500 draws that each err on a tenth
    0.114
    """
    risks = np.asarray(risks)
    if risks.ndim != 1:
        raise ValueError(f"empirical_risk needs one risk per draw, an array (draws,); got shape {risks.shape}.")
    require_unit("empirical_risk", risks=risks)
    require_share("empirical_risk", delta=delta)
    require_part("empirical_risk", share)
    return Bound(
        "Monte Carlo",
        "empirical risk of the randomised predictor",
        betting_mean(risks, delta * share),
        assumptions=("independent draws", "loss in [0, 1]"),
        deltas={"Monte Carlo": delta},
        terms={"estimate": float(risks.mean(dtype="float64")), "draws": len(risks), "share of δ": share},
        trivial=1.0,
    )


def pac_bayes(
    risk: float | Bound, kl: float, num_data: int, delta: float = 0.05, form: str = "kl", share: float = 1.0
) -> Bound:
    """Returns an upper bound of L(Q), the risk of the randomised predictor on new data.

    Args:
        risk: L̂(Q) where it is known exactly, or what `empirical_risk` returned; its δ is then added.
        kl: KL(Q ‖ P) in nats, exact or from above. An estimate from draws may be too small and voids the bound.
        num_data: number of examples that `risk` was measured on and that P did not see.
        form: "kl" (tightest), "sqrt" or "quadratic"; all three hold together, with one δ.
        share: part of δ for this posterior's prior, 1/k when k priors (ranks, widths) were tried on the same examples.

    >>> pac_bayes(0.1, kl=500.0, num_data=40406)
    PAC-Bayes, kl inverse: risk of the randomised predictor ≤ 0.1543 with probability ≥ 0.95
      certificate
      δ: data 0.05
      ...
    """
    require_choice("pac_bayes", FORMS, form=form)
    require_at_least("pac_bayes", 0, kl=kl)
    require_integer("pac_bayes", num_data=num_data)
    require_share("pac_bayes", delta=delta)
    require_part("pac_bayes", share)
    value, deltas, defect = read_risk("pac_bayes", risk)
    budget = (kl + math.log(2 * math.sqrt(num_data) / (delta * share))) / num_data
    uncapped = _solve(form, value, budget)
    return Bound(
        f"PAC-Bayes, {_NAMES[form]}",
        "risk of the randomised predictor",
        min(1.0, uncapped),
        assumptions=(*ASSUMPTIONS, "independent draws" if isinstance(risk, Bound) else "empirical risk given exactly"),
        deltas={"data": delta, **deltas},
        terms={"empirical risk": value, "KL": kl, "budget": budget, "uncapped": uncapped, "share of δ": share},
        trivial=1.0,
        defect=defect,
    )


def _solve(form: str, risk: float, budget: float) -> float:
    if form == "kl":
        return kl_inverse(risk, budget)
    if form == "sqrt":  # Pinsker: 2 (p − q)² ≤ kl(q ‖ p)
        return risk + math.sqrt(budget / 2)
    # kl(q ‖ p) ≥ (p − q)²/(2p) for q ≤ p
    return (math.sqrt(risk + budget / 2) + math.sqrt(budget / 2)) ** 2


def read_risk(name: str, risk: float | Bound) -> tuple[float, dict[str, float], str | None]:
    """Returns the risk that enters a bound, the parts of δ that it brings, and its defect."""
    if isinstance(risk, Bound):
        return risk.value, dict(risk.deltas), risk.defect
    if np.ndim(risk):
        raise ValueError(f"{name} needs one risk, or empirical_risk(risks); got an array of shape {np.shape(risk)}.")
    require_unit(name, risk=risk)
    return float(risk), {}, None


def require_part(name: str, share: float) -> None:
    """Raises unless `share` is a part of δ."""
    if share != 1:
        require_share(name, share=share)
