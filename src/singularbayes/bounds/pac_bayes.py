"""PAC-Bayes bounds of the risk of the randomised predictor, which draws fresh weights for every prediction.

With probability 1 − δ over N examples, for all posteriors Q at once (Maurer 2004),

    kl(L̂(Q) ‖ L(Q)) ≤ (KL(Q ‖ P) + ln(2√N/δ)) / N.

Solved for L(Q) this is the tightest of three forms; the square-root form, which the paper prints, and the quadratic one
are relaxations of it. Because it holds for all Q, tempering, annealing and early stopping do not touch it. What must
not depend on the N examples is the prior P, and with it the ranks and every weight that Q does not draw.

`complexity_ratio`, `break_even_rank` and `critical_rank` show how the bound depends on the rank if every weight costs
the same KL: planning figures, no certificates.
"""

import math
from collections.abc import Sequence

import numpy as np

from singularbayes.bounds.bound import Bound
from singularbayes.bounds.confidence import betting_mean, kl_inverse
from singularbayes.checks import (
    require_at_least,
    require_choice,
    require_integer,
    require_positive,
    require_share,
    require_unit,
)

FORMS = ("kl", "sqrt", "quadratic")
_NAMES = {"kl": "kl inverse", "sqrt": "square root", "quadratic": "quadratic"}
ASSUMPTIONS = (
    "independent examples",
    "loss in [0, 1]",
    "prior, ranks and undrawn weights fixed without these examples",
    "KL not below its true value",
)
_DEFECT = (
    "takes the mean over draws for the empirical risk itself, with no term for its error, and does not count the other "
    "ranks that were tried"
)


def empirical_risk(risks: np.ndarray, delta: float = 0.01, share: float = 1.0, method: str = "kl") -> Bound:
    """Returns an upper bound of L̂(Q), given the empirical risk of every drawn network (draws,).

    L̂(Q) ≤ kl⁻¹(mean | ln(2/δ)/draws) with probability 1 − δ over the draws (Langford and Caruana 2001).

    Args:
        risks: mean loss of each drawn network over *all* the examples, or over examples that were picked at random for
            this draw alone: then each has the expectation L̂(Q) too. The draws are independent.
        share: part of δ for these draws, 1/k when k configurations are compared by theirs.
        method: "kl" as above, or "betting", which needs far fewer draws when their risks are nearly equal. It has to be
            chosen before the risks are seen.

    >>> round(empirical_risk(np.full(500, 0.1)).value, 3)  # 500 draws that each err on a tenth
    0.149
    """
    require_choice("empirical_risk", ("kl", "betting"), method=method)
    risks = np.asarray(risks)
    if risks.ndim != 1:
        raise ValueError(f"empirical_risk needs one risk per draw, an array (draws,); got shape {risks.shape}.")
    require_unit("empirical_risk", risks=risks)
    require_share("empirical_risk", delta=delta)
    require_part("empirical_risk", share)
    estimate = min(1.0, float(risks.mean(dtype="float64")))
    if method == "betting":
        value = betting_mean(risks, delta * share)
    else:
        value = kl_inverse(estimate, math.log(2 / (delta * share)) / len(risks))
    return Bound(
        "Monte Carlo",
        "empirical risk of the randomised predictor",
        value,
        assumptions=("independent draws", "loss in [0, 1]"),
        deltas={"Monte Carlo": delta},
        terms={"estimate": estimate, "draws": len(risks), "share of δ": share},
        trivial=1.0,
    )


def pac_bayes(
    risk: float | Bound,
    kl: float,
    num_data: int,
    delta: float = 0.05,
    form: str = "kl",
    share: float = 1.0,
    variant: str = "sound",
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
      certificate (variant 'sound')
      δ: data 0.05
      ...
    """
    require_choice("pac_bayes", FORMS, form=form)
    require_choice("pac_bayes", ("sound", "published"), variant=variant)
    require_at_least("pac_bayes", 0, kl=kl)
    require_integer("pac_bayes", num_data=num_data)
    require_share("pac_bayes", delta=delta)
    require_part("pac_bayes", share)
    if variant == "published":
        form, share = "sqrt", 1.0
    published = variant == "published"
    value, deltas, defect = (_published_risk(risk), {}, _DEFECT) if published else read_risk("pac_bayes", risk)
    budget = (kl + math.log(2 * math.sqrt(num_data) / (delta * share))) / num_data
    uncapped = _solve(form, value, budget)
    return Bound(
        f"PAC-Bayes, {_NAMES[form]}",
        "risk of the randomised predictor",
        min(1.0, uncapped),
        variant=variant,
        assumptions=(*ASSUMPTIONS, "independent draws" if isinstance(risk, Bound) else "empirical risk given exactly"),
        deltas={"data": delta, **deltas},
        terms={"empirical risk": value, "KL": kl, "budget": budget, "uncapped": uncapped, "share of δ": share},
        trivial=1.0,
        defect=defect,
    )


def risk_certificate(
    risks: np.ndarray,
    kl: float,
    num_data: int,
    delta: float = 0.05,
    form: str = "kl",
    tried: int = 1,
    method: str = "kl",
) -> Bound:
    """Returns the PAC-Bayes bound from the risks of drawn networks, with δ in all: a fifth of it for the draws.

    Args:
        risks: mean loss in [0, 1] of each drawn network over the examples (draws,), see `empirical_risk`.
        tried: number of configurations (ranks, priors) compared on the same examples, this one included.
        method: how the error of the draws is bounded, see `empirical_risk`.

    >>> bound = risk_certificate(np.full(1000, 0.02), kl=5000.0, num_data=50000)
    >>> round(bound.value, 3), bound.deltas
    (0.186, {'data': 0.04, 'Monte Carlo': 0.01})
    >>> round(risk_certificate(np.full(1000, 0.02), kl=5000.0, num_data=50000, method="betting").value, 3)
    0.165
    """
    require_share("risk_certificate", delta=delta)
    require_integer("risk_certificate", tried=tried)
    empirical = empirical_risk(risks, delta / 5, 1 / tried, method)
    return pac_bayes(empirical, kl, num_data, delta - delta / 5, form, 1 / tried)


def _solve(form: str, risk: float, budget: float) -> float:
    if form == "kl":
        return kl_inverse(risk, budget)
    if form == "sqrt":  # Pinsker: 2 (p − q)² ≤ kl(q ‖ p)
        return risk + math.sqrt(budget / 2)
    # kl(q ‖ p) ≥ (p − q)²/(2p) for q ≤ p
    return (math.sqrt(risk + budget / 2) + math.sqrt(budget / 2)) ** 2


def _published_risk(risk: float | Bound) -> float:
    value = risk.terms.get("estimate", risk.value) if isinstance(risk, Bound) else risk
    require_unit("pac_bayes", risk=value)
    return float(value)


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


def complexity_ratio(rows: int, columns: int, rank: int) -> float:
    """Returns √(r(m + n)/(mn)): the complexity term of rank r over that of the full matrix, logarithms ignored.

    >>> complexity_ratio(256, 2, 16)  # a narrow head at rank 16: larger than 1
    2.84
    """
    require_integer("complexity_ratio", rows=rows, columns=columns, rank=rank)
    return math.sqrt(rank * (rows + columns) / (rows * columns))


def break_even_rank(rows: int, columns: int) -> float:
    """Returns mn/(m + n): below this rank the factors have fewer entries than the matrix. It is not min(m, n).

    >>> break_even_rank(100, 100)
    50.0
    """
    require_integer("break_even_rank", rows=rows, columns=columns)
    return rows * columns / (rows + columns)


def critical_rank(
    risk: float, weight_kl: float, shapes: Sequence[tuple[int, int]], num_data: int, delta: float = 0.05
) -> int:
    """Returns r*, the largest rank of all layers whose square-root bound stays below 1; 0 if none does.

    L̂ + √((C r Σ(m + n) + ln(2√N/δ))/(2N)) < 1, with the same KL C for every weight whatever the rank.

    Args:
        weight_kl: C, the KL of one weight in nats.
        shapes: rows and columns of every layer.

    >>> critical_rank(0.05, weight_kl=0.5, shapes=[(64, 64), (64, 8)], num_data=1_000)
    17
    """
    require_unit("critical_rank", risk=risk)
    require_positive("critical_rank", weight_kl=weight_kl)
    require_integer("critical_rank", num_data=num_data)
    require_share("critical_rank", delta=delta)
    if not len(shapes):
        raise ValueError("critical_rank needs the shape of at least one layer; got none.")
    for rows, columns in shapes:
        require_integer("critical_rank", rows=rows, columns=columns)
    slack = 2 * num_data * (1 - risk) ** 2 - math.log(2 * math.sqrt(num_data) / delta)
    return max(0, math.ceil(slack / (weight_kl * sum(rows + columns for rows, columns in shapes))) - 1)
