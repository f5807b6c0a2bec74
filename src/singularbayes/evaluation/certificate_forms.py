"""From the losses of draws and the KL to a certificate: the forms of the bound, how they share δ, and their statements.

The averaged predictor errs only where the mean over draws of p(label) is at most ½. With ℓ = 1 − p(label) that is
1{wrong} ≤ 2 E ℓ and 1{wrong} ≤ 4 (E ℓ)²: twice the bound of ℓ, or four times that of the loss of two networks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import keras
import numpy as np

from singularbayes.bounds import Bound, Refused, catoni, empirical_risk, mean_at_most, pac_bayes
from singularbayes.likelihoods import LabelPredictive
from singularbayes.posteriors import find_random_posteriors
from singularbayes.prediction import BoundedLoss, drawn_risks, fresh_draw_losses, paired_risks, predict

EXAMPLES = 256  # per draw

NAMES = {"kl": "PAC-Bayes-kl", "catoni": "Catoni", "tandem": "tandem", "holdout": "hold-out"}
_RANDOMISED = "the randomised {kind}, which draws a network for every prediction,"
_OTHER = " `sb.predict`, which averages draws, is another {kind}: this number does not bound its {what}."


@dataclass(frozen=True)
class Shares:
    """The parts of δ: of each form, and of the draws that bound an empirical risk."""

    forms: Mapping[str, float]
    monte_carlo: float
    kinds: int  # of empirical risks that are bounded from draws

    @property
    def deltas(self) -> dict[str, float]:
        """What may go wrong → its probability."""
        alone = len(self.forms) == 1
        parts = {"data" if alone else f"data, {NAMES[form]}": part for form, part in self.forms.items()}
        return {**parts, **({"Monte Carlo": self.monte_carlo} if self.kinds else {})}


def share_delta(forms: Sequence[str], delta: float) -> Shares:
    """Returns how forms that are compared share δ: an equal part each, and of PAC-Bayes a fifth for the draws.

    >>> share_delta(["kl"], 0.05).deltas
    {'data': 0.04, 'Monte Carlo': 0.01}
    >>> share_delta(["kl", "catoni", "holdout"], 0.06).deltas
    {'data, PAC-Bayes-kl': 0.016, 'data, Catoni': 0.016, 'data, hold-out': 0.02, 'Monte Carlo': 0.008}
    """
    drawn = [form for form in forms if form != "holdout"]
    rest = delta * len(drawn) / len(forms)
    part = rest / 5
    kinds = len({form == "tandem" for form in drawn})
    own = {form: (rest - part) / len(drawn) if form != "holdout" else delta / len(forms) for form in forms}
    return Shares(own, part if drawn else 0.0, kinds)


@dataclass(frozen=True)
class Predictor:
    """What a certificate is about: a loss, and a mean over `average` draws, or None for the randomised predictor."""

    loss: BoundedLoss
    average: int | None
    seed: int

    @property
    def quantity(self) -> str:
        which = "randomised" if self.average is None else f"averaged ({self.average} draws)"
        return f"{self.loss.words} of the {which} predictor"

    def factor(self, form: str) -> float:
        """Returns by how much the bound of the loss of draws is multiplied."""
        if form == "holdout" or self.average is None or not self.loss.binary:
            return 1.0
        return 4.0 if form == "tandem" else 2.0

    def sentence(self, bound: Bound, form: str, num_data: int) -> str:
        """Returns the statement in plain words."""
        kind = "classifier" if self.loss.classes else "predictor"
        over = f"over the draw of these {num_data:,} examples"
        over += "" if form == "holdout" and self.average else " and of networks"
        claim = f"errs on at most {bound.percent} of new examples"
        what = "error"
        if not self.loss.binary:
            what = "loss"
            claim = f"has a {self.loss.words} of at most {bound.rounded} on new examples"
            if self.loss.level is not None:
                level = replace(bound, value=bound.value * self.loss.level).rounded
                claim += f": {level} in the units of the target"
        start = f"With probability {100 * bound.confidence:.4g} % {over}, {_assumption(form, bound.terms['tried'])}, "
        if self.average is None:
            who = _RANDOMISED.format(kind=kind)
            return f"{start}{who} {claim}.{_OTHER.format(kind=kind, what=what)}"
        if form == "holdout":
            return f"{start}`sb.predict(draws={self.average}, seed={self.seed})` {claim}."
        who = f"`sb.predict(draws={self.average})` with draws made afresh"
        return f"{start}{who} {claim}, on average over its draws."


def _assumption(form: str, tried: float) -> str:
    """Returns what the examples may have been used for where the bound holds."""
    trained = "trained nothing" if form == "holdout" else "trained nothing but the posterior"
    selected = "selected nothing" if tried == 1 else f"selected only among the {tried} models tried"
    return f"if these examples {trained} and {selected}"


def compared_forms(form: str, predictor: Predictor, unseen: bool) -> tuple[str, ...]:
    """Returns the forms that are compared; raises where none is about the predictor."""
    averaged, binary = predictor.average is not None, predictor.loss.binary
    if form == "tandem" and not (averaged and binary):
        raise ValueError(
            "certify needs average= and the 0-1 loss for form='tandem', a bound of the averaged predictor."
        )
    if averaged and not (binary or predictor.loss.linear) and form != "holdout":
        raise Refused(
            f"certify needs form='holdout' for the {predictor.quantity}: PAC-Bayes bounds the mean loss of draws, and "
            "this loss, which is clipped and so not convex, can be larger for their average. Or leave out average=."
        )
    if form != "best":
        return (form,)
    return ("kl", "catoni", *(["tandem"] if averaged and binary else []), *(["holdout"] if unseen else []))


def pac_bayes_bound(
    form: str,
    predictor: Predictor,
    shares: Shares,
    *,
    risks: np.ndarray,
    kl: tuple[float, float],
    num_data: int,
    tried: int = 1,
    constant: float | None = None,
) -> Bound:
    """Returns one form of the bound from the losses of independent draws and the KL before and after the gauge."""
    empirical = empirical_risk(risks, shares.monte_carlo / shares.kinds, 1 / tried, "betting")
    before, nats = kl
    pairs = 2 if form == "tandem" else 1  # KL(Q² ‖ P²) = 2 KL(Q ‖ P)
    delta, share = shares.forms[form], 1 / tried
    if form == "catoni":
        bound = catoni(empirical, nats, num_data, delta, constant, share)
        budget = {"C": bound.terms["C"], "(KL + ln(1/δ))/N": bound.terms["budget"]}
    else:
        bound = pac_bayes(empirical, pairs * nats, num_data, delta, share=share)
        budget = {f"({'2 ' if pairs == 2 else ''}KL + ln(2√N/δ))/N": bound.terms["budget"]}
    factor = predictor.factor(form)
    terms = {
        f"{'mistakes' if predictor.loss.binary and factor == 1 else 'loss'} of the draws": empirical.terms["estimate"],
        "with their error": empirical.value,
        "KL": nats,
        "KL before the gauge": before,
        "N": num_data,
        **budget,
        **({"factor": factor} if factor != 1 else {}),
        "tried": tried,
    }
    return replace(bound, value=min(1.0, factor * bound.value), terms=terms)


def hold_out_bound(predictor: Predictor, shares: Shares, losses: np.ndarray, tried: int = 1) -> Bound:
    """Returns the hold-out bound from one loss per example."""
    method = "binomial" if predictor.loss.binary else "betting"
    bound = mean_at_most(losses, shares.forms["holdout"] / tried, method)
    return replace(bound, terms={**bound.terms, "tried": tried})


def bounds_of_forms(
    model: keras.Model,
    x,
    y,
    *,
    forms: tuple[str, ...],
    predictor: Predictor,
    shares: Shares,
    draws: int,
    tried: int,
    constant: float | None,
    loss,
    options: dict,
) -> dict[str, Bound]:
    """Returns the bound of every form."""
    found: dict[str, Bound] = {}
    num_data, seed = len(np.asarray(y)), predictor.seed
    drawn = [form for form in forms if form != "holdout"]
    if drawn:
        nats, risks = certified_kl(model), {}
        if "tandem" in drawn:
            pairs = paired_risks(model, x, y, draws, predictor.average or 1, EXAMPLES, seed, **options)
            risks = {"tandem": pairs[:, 1], "first": pairs[:, 0]}
        else:
            first = "probability" if predictor.average is not None else loss
            risks["first"] = drawn_risks(model, x, y, draws, EXAMPLES, seed, loss=first, caller="certify", **options)
        for form in drawn:
            own = risks["tandem" if form == "tandem" else "first"]
            bound = pac_bayes_bound(
                form, predictor, shares, risks=own, kl=nats, num_data=num_data, tried=tried, constant=constant
            )
            counted = {"pairs of draws" if "tandem" in drawn else "draws": len(own)}
            found[form] = replace(bound, terms={**bound.terms, **counted})
    if "holdout" in forms:
        if predictor.average is None:
            losses = fresh_draw_losses(model, x, y, seed, loss=loss, **options)
        else:
            p = predict(model, x, draws=predictor.average, seed=seed, **options)
            two = (2,) if isinstance(p, LabelPredictive) else ()  # classes of every label
            predictor.loss.require_single("certify", p.mean.shape + two)
            width = p.mean.shape[-1] if p.mean.ndim > 1 else 1
            losses = predictor.loss.values(p.mean, predictor.loss.targets("certify", y, num_data, width))
        found["holdout"] = hold_out_bound(predictor, shares, losses, tried)
    return found


def certified_kl(model: keras.Model) -> tuple[float, float]:
    """Returns an upper bound of KL(Q ‖ P) in nats, by formula in float64, before and after the choice of the gauge.

    Components of mixtures are drawn together in all layers, so Q is a mixture of products. KL is convex in (Q, P), and
    with that the mean over components of sums over layers, which is the sum of the posteriors' own means, is above it.
    """
    found = [posterior.certified_kl() for posterior in find_random_posteriors(model)]
    return sum(before for before, _ in found), sum(after for _, after in found)


def with_statement(
    bound: Bound, form: str, forms: Sequence[str], predictor: Predictor, shares: Shares, num_data: int
) -> Bound:
    """Returns a bound with its name, all the δ that was spent, the sentence, and what was to be fixed beforehand."""
    chosen = "what is certified and how (form, loss, average, draws, seed) chosen before the result was seen"
    if len(forms) > 1:
        chosen = chosen.replace("form, ", "")
    bound = replace(
        bound,
        name=f"Risk certificate, {NAMES[form]}",
        quantity=predictor.quantity,
        deltas=shares.deltas,
        assumptions=(*bound.assumptions, chosen),
    )
    return replace(bound, sentence=predictor.sentence(bound, form, num_data))
