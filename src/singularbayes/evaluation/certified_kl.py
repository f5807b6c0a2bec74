"""KL(Q ‖ P) of a whole model as certificates take it: by formula, in float64, with the cheapest factors of each W."""

from typing import Any

import keras
import numpy as np

from singularbayes.bounds import best_gauge, norm_probability, truncated_kl
from singularbayes.evaluation.certificate_conditions import Refused
from singularbayes.models import find_posteriors
from singularbayes.posteriors import Posterior, Scalars, standardised

_ROUNDING = 1e-5  # a draw is made again a little below the limit, in single precision


def certified_kl(model: keras.Model) -> tuple[float, float]:
    """Returns an upper bound of KL(Q ‖ P) in nats for the factors as they are, and for the best of their gauges.

    (A D, B D⁻¹) draws the same W as (A, B). A bound that holds for all Q holds for the Q with the smallest KL among
    those that draw the same networks, chosen after training.
    """
    found = [posterior_kl(posterior) for posterior in find_posteriors(model)]
    return sum(before for before, _ in found), sum(after for _, after in found)


def posterior_kl(posterior: Posterior) -> tuple[float, float]:
    """Returns the same of one posterior."""
    before = after = 0.0
    for factor in posterior.factors:
        nats = _redrawn(posterior, factor) if getattr(posterior, "redraws", 0) else float(_upper(factor).sum())
        before += nats
        product: Any = getattr(posterior, "product", None)  # of W = A Bᵀ, with or without a fixed part
        clipped = getattr(posterior, "clip", None) is not None  # then (A D, B D⁻¹) draws another W
        tied = factor.prior.by_column  # A to B, so that the best D is not to be sought in each of them
        free = product is not None and not clipped and not tied
        after += min(nats, _in_best_gauge(factor, product.rows)) if free else nats
    return before, after


def _upper(factor: Scalars) -> np.ndarray:
    """Returns the KL of every scalar."""
    return factor.prior.kl_upper(factor.family, *standardised(*factor.numbers()))


def _redrawn(posterior: Any, factor: Scalars) -> float:
    """Returns the KL of draws that are made again outside `clip`: (KL + h(Z))/Z of each matrix, on which they depend.

    It is that to the clipped prior, and holds for any number of redraws: see bounds.md.
    """
    if factor.prior.by_column:
        raise Refused(
            "certify needs a prior of single weights where draws are made again, so that every matrix has a KL of its "
            f"own; {posterior.path} has {type(factor.prior).__name__}, which ties A to B. Use redraws=0."
        )
    loc, scale, _ = factor.numbers()
    total = 0.0
    for m, s, kl in zip(*(posterior.matrices(numbers) for numbers in (loc, scale, _upper(factor))), strict=True):
        within = norm_probability(m, s, (1 - _ROUNDING) * posterior.clip)
        if factor.family.name != "gaussian" or within.vacuous:
            raise Refused(
                "certify needs to know how rarely draws are made again, by the norm of Gaussian factors; "
                f"{posterior.path} is of the {factor.family.name} family, with a probability of a norm within "
                f"clip={posterior.clip:g} of at least {within.value:g}. Train with a larger clip, or redraws=0."
            )
        total += truncated_kl(float(kl.sum()), within)
    return total


def _in_best_gauge(factor: Scalars, rows: int) -> float:
    """Returns the KL of A above B after the search for D, which uses a quicker bound of the KL where there is one."""
    loc, scale, reference = factor.numbers()
    parts = [slice(rows), slice(rows, None)]
    a, b = ((loc[part], scale[part]) for part in parts)

    def divergence(part: slice, quick: bool):
        own = None if reference is None else reference[:, part]

        def nats(m: np.ndarray, s: np.ndarray) -> np.ndarray:
            m, s = standardised(m, s, own)
            return factor.prior.kl_upper(factor.family, m, s, quick)

        return nats

    gauge = best_gauge(a, b, *(divergence(part, quick=True) for part in parts))
    (loc_a, loc_b), (scale_a, scale_b) = (gauge.apply(*pair) for pair in zip(a, b, strict=True))
    kl_a, kl_b = (divergence(part, quick=False) for part in parts)
    return float(kl_a(loc_a, scale_a).sum() + kl_b(loc_b, scale_b).sum())
