"""Every bound that applies to a model, in one table, and for those that do not apply the reason."""

from collections.abc import Iterator
from dataclasses import replace

import keras
import numpy as np

from singularbayes import bounds
from singularbayes.bounds import Bound, Refused
from singularbayes.checks import require_integer, require_positive, require_share
from singularbayes.evaluation import rank_curves
from singularbayes.evaluation.bounds_table import BoundsReport, Row
from singularbayes.evaluation.certificate_conditions import require_distinct
from singularbayes.evaluation.certificate_data import seen_by_prior
from singularbayes.evaluation.certify import certify
from singularbayes.evaluation.feed_forward import DenseWeight, read_dense_layers
from singularbayes.evaluation.norm_bounds import (
    Question,
    complexity_rows,
    explicit_curve,
    published_index,
    small_variance_rows,
)
from singularbayes.evaluation.rank_curves import RankCurves, Weight
from singularbayes.models import collected

_ONE_MAP = "about one linear map; per layer see bounds.truncation_bound with the singular values of `spectrum`"
_NO_TARGET = "needs the full-rank W* that is approximated; see bounds.learned_bound"
_INDEX = "the paper's Ĝ with C₀ = 1 for all weight matrices as if they were layers one after another; it bounds nothing"


def bounds_report(
    model: keras.Model,
    x,
    y,
    delta: float = 0.05,
    *,
    draws: int = 1000,
    margin: float = 1.0,
    radius: float | None = None,
    seed: int = 0,
    prior_data=None,
    frozen: bool = False,
    duplicates: str | None = None,
    tried: int = 1,
    allow_seen: bool = False,
    likelihood=None,
    output=None,
) -> BoundsReport:
    """Returns every bound of a classifier that (x, y) give, each alone with probability 1 − δ.

    PAC-Bayes bounds of the randomised predictor; bounds by Gaussian complexity of the mean predictor, for half the
    Brier score; and the small-variance certificate with the bound it gives for the mean network. The last two are about
    feed-forward networks without biases: for others the table has the reason. Published forms stand beside the sound
    ones with their defects, and so do figures that plan a rank.

    Args:
        draws: of networks, for each bound that needs some.
        margin: γ of the small-variance certificate; to be chosen without (x, y).
        radius: R with ‖x‖ ≤ R for all inputs, new ones too; None is the largest norm in `x`, and then the margin bound
            is not a certificate.
        prior_data, frozen, duplicates, tried, allow_seen, likelihood, output: as `certify` takes them.

    >>> report = bounds_report(model, x, y)  # doctest: +SKIP
    >>> report["PAC-Bayes, kl inverse"].bound.value  # doctest: +SKIP
    0.0690
    """
    require_share("bounds_report", delta=delta)
    require_integer("bounds_report", draws=draws, tried=tried)
    require_integer("bounds_report", 0, seed=seed)
    require_positive("bounds_report", margin=margin)
    x, y, weight = collected(x, y, caller="bounds_report")
    if weight is not None:
        raise ValueError("bounds_report needs examples that count the same; got batches with sample weights.")
    if y is None:
        raise ValueError("bounds_report needs labels y; got y=None, and no batches (x, y).")
    y = np.asarray(y)
    seen, prior_words = seen_by_prior(model, x, prior_data)
    repeated, words = None, ()  # type: str | None, tuple[str, ...]
    try:
        words = require_distinct(x, y, duplicates)
    except Refused as error:
        repeated = str(error)
    question = Question(model, x, y, delta, draws, seed, tried, likelihood)
    options = {
        "prior_data": prior_data,
        "frozen": frozen,
        "duplicates": duplicates,
        "tried": tried,
        "allow_seen": allow_seen,
        "output": output,
    }
    rows = list(_pac_bayes(question, options))
    weights, reasons = read_dense_layers(model)
    reasons = reasons or (() if isinstance(x, np.ndarray) else ("several inputs",))
    ranked = rank_curves.ranked_weights(model)
    rows += _planning(question, ranked, rows[0].bound)
    if reasons:
        names = ("Gaussian complexity", "Small variance", "Margin")
        rows += [
            Row(name, reason=f"about feed-forward networks without biases: {'; '.join(reasons)}") for name in names
        ]
        rows += _index(question, ranked)
    else:
        rows += [_under(row, words, repeated) for row in complexity_rows(question, weights)]
        *variance, margins = small_variance_rows(question, margin, radius, seen)
        rows += [*variance, _under(margins, (*words, *prior_words), repeated)]
    rows.append(Row("Truncation and learned rank", reason=_ONE_MAP if len(weights) != 1 else _NO_TARGET))
    return BoundsReport(model.name, len(y), tuple(rows), _curves(question, ranked, weights, rows))


def _pac_bayes(question: Question, options: dict) -> Iterator[Row]:
    model, x, y, delta = question.model, question.x, question.y, question.delta
    try:
        found = certify(
            model, x, y, delta, question.draws, form="kl", seed=question.seed, likelihood=question.likelihood, **options
        )
    except Refused as error:
        yield Row("PAC-Bayes, kl inverse", reason=str(error))
        return
    kl = found.terms["KL"]
    yield Row("PAC-Bayes, kl inverse", found)
    mistakes = {"Monte Carlo": found.deltas["Monte Carlo"]}
    empirical = Bound("Monte Carlo", "", found.terms["with their error"], deltas=mistakes)
    for form in ("sqrt", "quadratic", "catoni"):
        part = found.deltas["data"]
        if form == "catoni":
            other = bounds.catoni(empirical, kl, len(y), part, share=1 / question.tried)
        else:
            other = bounds.pac_bayes(empirical, kl, len(y), part, form, 1 / question.tried)
        other = replace(other, assumptions=tuple(dict.fromkeys((*other.assumptions, *found.assumptions))))
        yield Row(other.name, other.with_defect(found.defect) if found.defect else other)
    plain = found.terms["KL before the gauge"]
    published = bounds.pac_bayes(found.terms["mistakes of the draws"], plain, len(y), delta, variant="published")
    yield Row("PAC-Bayes, published", published)


def _under(row: Row, words: tuple[str, ...], defect: str | None) -> Row:
    """Returns the row of a bound with what it assumes of the examples, or why these do not fulfil it."""
    assert row.bound is not None
    bound = replace(row.bound, assumptions=(*row.bound.assumptions, *words))
    return replace(row, bound=bound.with_defect(defect) if defect else bound)


def _planning(question: Question, ranked: list[Weight], certificate: Bound | None) -> Iterator[Row]:
    low = [weight for weight in ranked if weight.rank is not None]
    if not low:
        yield Row("Complexity ratio", reason="about low-rank weights; the model has none")
    else:
        ratio, words = rank_curves.overall_ratio(low), rank_curves.ratio_words(low)
        yield Row("Complexity ratio", figure=ratio, words=words)
    if certificate is None or not ranked or not rank_curves.weight_kl(ranked):
        yield Row("Critical rank", reason="needs weight matrices with a KL above 0 and a risk that PAC-Bayes bounds")
        return
    each, risk = rank_curves.weight_kl(ranked), certificate.terms["with their error"]
    shapes = [weight.shape for weight in ranked]
    part = certificate.deltas["data"] / question.tried
    words = f"the largest rank whose square-root bound is below 1, if every weight costs {each:.3g} nats as it does now"
    rank = bounds.critical_rank(risk, each, shapes, question.num_data, part)
    yield Row("Critical rank", figure=float(rank), words=words)


def _index(question: Question, ranked: list[Weight]) -> Iterator[Row]:
    name = "Gaussian complexity, published index"
    why = _why_no_index(question, ranked)
    yield Row(name, reason=why) if why else Row(name, figure=published_index(question, ranked, None), words=_INDEX)


def _why_no_index(question: Question, ranked: list[Weight]) -> str | None:
    if not isinstance(question.x, np.ndarray) or not np.issubdtype(question.x.dtype, np.floating):
        return "needs one input of floating-point numbers, which has a norm"
    if not ranked:
        return "needs weight matrices with posteriors"
    return "; ".join(filter(None, (weight.posterior.why_no_norms() for weight in ranked))) or None


def _curves(question: Question, ranked: list[Weight], weights: list[DenseWeight], rows: list[Row]) -> RankCurves | None:
    """Returns the bounds at other ranks, which at the model's own are those of the rows."""
    if not ranked:
        return None
    ranks, own = rank_curves.ranks_to_show(ranked), rank_curves.own_rank(ranked)
    found = {row.name: row.bound for row in rows if row.bound is not None}
    curves: dict = {}
    certificate = found.get("PAC-Bayes, kl inverse")
    if certificate is not None:
        risk, part = certificate.terms["with their error"], certificate.deltas["data"] / question.tried
        curves["risk"] = risk
        curves["pac_bayes"] = rank_curves.pac_bayes_curve(
            ranked, ranks, risk, certificate.terms["KL"], question.num_data, part
        )
    if "Gaussian complexity, explicit" in found:
        explicit = explicit_curve(question, weights, ranks, found["Gaussian complexity, explicit"])
        curves |= {"complexity": tuple(explicit), "covered": True}
    elif not _why_no_index(question, ranked):
        curves["complexity"] = tuple(published_index(question, ranked, rank) for rank in ranks)
    return RankCurves(ranks, own, **curves)
