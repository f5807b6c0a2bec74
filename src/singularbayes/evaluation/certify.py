"""The certified risk of a trained model on new data.

The averaged predictor errs only where the mean over draws of p(label) is at most ½. With ℓ = 1 − p(label) that is
1{wrong} ≤ 2 E ℓ: its error is at most twice the bound of ℓ.
"""

from dataclasses import dataclass, replace

import keras
import numpy as np

from singularbayes import bounds
from singularbayes.bounds import Bound, Refused
from singularbayes.checks import require_choice, require_integer, require_positive, require_share
from singularbayes.evaluation.certificate_conditions import require_conditions
from singularbayes.likelihoods import LabelPredictive, likelihood_of_output, why_no_elbo
from singularbayes.models.data import collected
from singularbayes.models.inputs import require_model
from singularbayes.models.outputs import loss_of, position_of
from singularbayes.posteriors import find_random_posteriors
from singularbayes.prediction import BoundedLoss, drawn_risks, find_bounded_loss, fresh_draw_losses, predict

EXAMPLES = 256  # per draw
FORMS = {"kl": "PAC-Bayes-kl", "catoni": "Catoni", "holdout": "hold-out"}


def certify(
    model: keras.Model,
    x,
    y=None,
    delta: float = 0.05,
    draws: int = 10_000,
    *,
    form: str = "kl",
    average: int | None = None,
    loss=None,
    constant: float | None = None,
    frozen: bool = False,
    tried: int = 1,
    seed: int = 0,
    likelihood=None,
    output=None,
) -> Bound:
    """Returns an upper bound of the risk, on new data, of the predictor that draws a network per prediction.

    With `average` it is about the predictor of `sb.predict` instead. The KL is a sum of closed forms or their upper
    bounds in float64; the risk on (x, y) is bounded from `draws` networks, each on random examples of its own, by
    betting. PAC-Bayes holds however the model was trained, also on (x, y), if

    - the prior, the ranks and the architecture were chosen without (x, y); where `tried` configurations were compared
      on them, each pays for all,
    - all weights are drawn: a trained bias without posterior, a normalisation or a deterministic weight is refused,
    - the examples are independent.

    What the data and the model cannot show is listed among the assumptions of the result. Where the compiled loss is no
    negative log-likelihood, as a focal loss, the result states that the objective of training was no ELBO.

    Args:
        x: data of every kind that `predict` takes. They are in memory, so all batches of a stream are read first.
        y: labels, integers from 0, or targets; None takes those of batches (x, y).
        draws: more draws make the bound tighter, by about ln(10/(δ/5))/draws; to be chosen before the result is seen.
        form: "kl" (PAC-Bayes-kl), "catoni", or "holdout" (Clopper–Pearson), which needs a model that never saw (x, y);
            to be chosen before the result is seen.
        average: None certifies the randomised predictor; S the classifier that averages the probabilities of S draws,
            as `sb.predict(draws=S)` does.
        loss: None or "error" is the 0-1 loss; "probability" 1 − p(label); else `BoundedCrossentropy(p_min)`, or
            `BoundedError(limit)` for a regression.
        constant: C of Catoni's bound, fixed without (x, y), as `catoni_constant` does; None pays for a grid.
        frozen: weights outside posteriors, which are not trainable, were fixed before (x, y) were seen.
        tried: number of models (ranks, priors, settings, seeds) that might have been chosen by their results on
            (x, y), this one included.
        seed: of the draws; fixed before the result is seen.
        likelihood, output: what the outputs mean, and which of several; see `predict`.

    >>> import singularbayes as sb
    >>> keras.utils.set_random_seed(0)
    >>> posterior = sb.FullRank(prior=sb.Centred(sb.Normal(0.1)), eta=0.1)
    >>> model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(2, use_bias=False, posterior=posterior)])
    >>> x = np.random.default_rng(0).normal(size=(500, 2)).astype("float32")
    >>> bound = certify(model, x, np.zeros(500, int), draws=200, likelihood="categorical_logits")
    >>> bound.is_certificate, bound.deltas
    (True, {'data': 0.04, 'Monte Carlo': 0.01})
    """
    require_model("certify", model)
    require_share("certify", delta=delta)
    require_integer("certify", draws=draws, tried=tried, **({} if average is None else {"average": average}))
    require_integer("certify", 0, seed=seed)
    require_choice("certify", tuple(FORMS), form=form)
    if constant is not None:
        require_positive("certify", constant=constant)
    x, y, weight = collected(x, y, caller="certify")
    if y is None:
        raise ValueError("certify needs labels y; got y=None, and no batches (x, y).")
    if weight is not None:
        raise Refused("certify needs examples that count the same; got batches with sample weights.")
    if not model.built:
        model(keras.tree.map_structure(lambda array: array[:1], x), training=False)  # makes its weights
    words = require_conditions(model, form, frozen)
    position, num_data = position_of(model, output, "certify"), len(np.asarray(y))
    meaning = likelihood_of_output(model, position, likelihood, "certify")
    predictor = Predictor(find_bounded_loss(loss, meaning, "certify"), average, seed, form)
    predictor.require_bound()
    options = {"likelihood": likelihood, "output": output}
    if form == "holdout":
        losses = predictor.losses(model, x, y, loss, options)
        bound = bounds.mean_at_most(losses, delta / tried, "binomial" if predictor.loss.binary else "betting")
        bound = replace(bound, deltas={"data": delta}, terms={**bound.terms, "tried": tried})
    else:
        loss_of_draws = loss if average is None else "probability"
        risks = drawn_risks(model, x, y, draws, EXAMPLES, seed, loss=loss_of_draws, caller="certify", **options)
        bound = pac_bayes_bound(predictor, risks, certified_kl(model), num_data, delta, tried, constant)
    levels = ("the level of the loss fixed without these examples",) if not isinstance(loss, (str, type(None))) else ()
    reason = None if form == "holdout" else why_no_elbo(loss_of(model, position))
    return predictor.stated(bound, num_data, (*levels, *words), reason)


def catoni_constant(
    model: keras.Model,
    x,
    y,
    num_data: int,
    *,
    delta: float = 0.05,
    kl: float = 1.0,
    draws: int = 1000,
    loss=None,
    seed: int = 0,
    likelihood=None,
    output=None,
) -> float:
    """Returns the constant C that suits Catoni's bound, from the prior and examples that will not certify it.

    To be called after `learn_prior`, before training continues: C is the best one for the risk of the prior on (x, y).
    Good ones were not fitted: those by which the prior was stopped or chosen, such as its `validation_data`.

    Args:
        num_data: number of examples that will certify.
        kl: KL(Q ‖ P) in nats that further training is expected to cost.
        delta, loss, likelihood, output: as `certify` will have them.

    >>> import singularbayes as sb
    >>> x = np.random.default_rng(0).normal(size=(500, 2)).astype("float32")
    >>> posterior = sb.FullRank(prior=sb.Centred(), kl_weight=0.0)
    >>> model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(2, use_bias=False, posterior=posterior)])
    >>> model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> _ = sb.learn_prior(model, x[:200], np.zeros(200), verbose=0)
    >>> constant = catoni_constant(model, x[200:300], np.zeros(100, int), num_data=200, draws=100)
    >>> certify(model, x[300:], np.zeros(200, int), draws=100, form="catoni", constant=constant).is_certificate
    True
    """
    require_integer("catoni_constant", num_data=num_data, draws=draws)
    require_integer("catoni_constant", 0, seed=seed)
    options = {"loss": loss, "likelihood": likelihood, "output": output, "caller": "catoni_constant"}
    risks = drawn_risks(model, x, y, draws, EXAMPLES, seed, **options)
    return bounds.catoni_constant(float(risks.mean()), kl, num_data, 0.8 * delta)


def certified_kl(model: keras.Model) -> float:
    """Returns an upper bound of KL(Q ‖ P) in nats, by formula in float64.

    Components of mixtures are drawn together in all layers, so Q is a mixture of products. KL is convex in (Q, P), and
    with that the mean over components of sums over layers, which is the sum of the posteriors' own means, is above it.
    """
    return sum(posterior.certified_kl() for posterior in find_random_posteriors(model))


@dataclass(frozen=True)
class Predictor:
    """What a certificate is about: a loss, a mean over `average` draws or None for the randomised predictor, a form."""

    loss: BoundedLoss
    average: int | None
    seed: int
    form: str

    @property
    def quantity(self) -> str:
        which = "randomised" if self.average is None else f"averaged ({self.average} draws)"
        return f"{self.loss.words} of the {which} predictor"

    @property
    def factor(self) -> float:
        """By how much the bound of the loss of draws is multiplied."""
        return 2.0 if self.average is not None and self.loss.binary else 1.0

    def require_bound(self) -> None:
        """Raises where the form is not about the predictor."""
        if self.average is not None and self.form != "holdout" and not (self.loss.binary or self.loss.linear):
            raise Refused(
                f"certify needs form='holdout' for the {self.quantity}: PAC-Bayes bounds the mean loss of draws, and "
                "this loss, which is clipped and so not convex, can be larger for their average. Or leave out average=."
            )

    def losses(self, model: keras.Model, x, y, loss, options: dict) -> np.ndarray:
        """Returns the loss on every example, (examples,); the randomised predictor draws a network for each."""
        if self.average is None:
            return fresh_draw_losses(model, x, y, self.seed, loss=loss, **options)
        p = predict(model, x, draws=self.average, seed=self.seed, **options)
        two = (2,) if isinstance(p, LabelPredictive) else ()  # classes of every label
        self.loss.require_single("certify", p.mean.shape + two)
        width = p.mean.shape[-1] if p.mean.ndim > 1 else 1
        return self.loss.values(p.mean, self.loss.targets("certify", y, len(p.mean), width))

    def stated(self, bound: Bound, num_data: int, words: tuple[str, ...], reason: str | None) -> Bound:
        """Returns the bound with its name, its assumptions and its sentence; `reason`: why training had no ELBO."""
        chosen = "what is certified and how (form, loss, average, draws, seed) chosen before the result was seen"
        bound = replace(
            bound,
            name=f"Risk certificate, {FORMS[self.form]}",
            quantity=self.quantity,
            assumptions=(*bound.assumptions, chosen, *words),
        )
        more = f" {reason}; the bound holds for any objective." if reason else ""
        return replace(bound, sentence=self._sentence(bound, num_data) + more)

    def _sentence(self, bound: Bound, num_data: int) -> str:
        kind, what = "classifier" if self.loss.classes else "predictor", "error" if self.loss.binary else "loss"
        trained = "trained nothing" if self.form == "holdout" else "trained nothing but the posterior"
        tried = bound.terms["tried"]
        selected = "selected nothing" if tried == 1 else f"selected only among the {tried} models tried"
        over = "" if self.form == "holdout" and self.average else " and of networks"
        start = (
            f"With probability {100 * bound.confidence:.4g} % over the draw of these {num_data:,} examples{over}, if "
            f"these examples {trained} and {selected}, "
        )
        claim = self._claim(bound)
        if self.average is None:
            return (
                f"{start}the randomised {kind}, which draws a network for every prediction, {claim}. `sb.predict`, "
                f"which averages draws, is another {kind}: this number does not bound its {what}."
            )
        if self.form == "holdout":
            return f"{start}`sb.predict(draws={self.average}, seed={self.seed})` {claim}."
        return f"{start}`sb.predict(draws={self.average})` with draws made afresh {claim}, on average over its draws."

    def _claim(self, bound: Bound) -> str:
        if self.loss.binary:
            return f"errs on at most {bound.percent} of new examples"
        claim = f"has a {self.loss.words} of at most {bound.rounded} on new examples"
        if self.loss.level is None:
            return claim
        level = replace(bound, value=bound.value * self.loss.level).rounded
        return f"{claim}: {level} in the units of the target"


def pac_bayes_bound(
    predictor: Predictor,
    risks: np.ndarray,
    kl: float,
    num_data: int,
    delta: float = 0.05,
    tried: int = 1,
    constant: float | None = None,
) -> Bound:
    """Returns the bound from the losses of independent draws, with δ in all: a fifth of it for the draws."""
    share, part = 1 / tried, delta / 5
    empirical = bounds.empirical_risk(risks, part, share)
    if predictor.form == "catoni":
        bound = bounds.catoni(empirical, kl, num_data, delta - part, constant, share)
        budget = {"C": bound.terms["C"], "(KL + ln(1/δ))/N": bound.terms["budget"]}
    else:
        bound = bounds.pac_bayes(empirical, kl, num_data, delta - part, share=share)
        budget = {"(KL + ln(2√N/δ))/N": bound.terms["budget"]}
    factor = predictor.factor
    terms = {
        f"{'mistakes' if predictor.loss.binary and factor == 1 else 'loss'} of the draws": empirical.terms["estimate"],
        "with their error": empirical.value,
        "draws": len(risks),
        "KL": kl,
        "N": num_data,
        **budget,
        **({"factor": factor} if factor != 1 else {}),
        "tried": tried,
    }
    return replace(bound, value=min(1.0, factor * bound.value), terms=terms)
