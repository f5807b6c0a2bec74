"""The certified risk of a trained model on new data."""

import hashlib
from dataclasses import fields, replace

import keras
import numpy as np

from singularbayes import bounds
from singularbayes.bounds import Bound, Refused
from singularbayes.checks import require_choice, require_integer, require_positive, require_share
from singularbayes.evaluation.certificate import Certificate, versions_now, weights_hash
from singularbayes.evaluation.certificate_conditions import own_code, require_distinct
from singularbayes.evaluation.certificate_data import require_conditions
from singularbayes.evaluation.certificate_forms import (
    EXAMPLES,
    Predictor,
    bounds_of_forms,
    compared_forms,
    share_delta,
    with_statement,
)
from singularbayes.likelihoods import likelihood_of_output, why_no_elbo
from singularbayes.models import collected, loss_of, position_of, require_model
from singularbayes.prediction import drawn_risks, find_bounded_loss, has_other_noise
from singularbayes.training import hash_examples, remember_examples

DRAWS = 10_000
FORMS = ("best", "kl", "catoni", "tandem", "holdout")


def certify(
    model: keras.Model,
    x,
    y=None,
    delta: float = 0.05,
    draws: int = DRAWS,
    *,
    form: str = "best",
    average: int | None = None,
    loss=None,
    constant: float | None = None,
    unseen: bool = False,
    prior_data=None,
    frozen: bool = False,
    duplicates: str | None = None,
    tried: int = 1,
    allow_seen: bool = False,
    seed: int = 0,
    likelihood=None,
    output=None,
) -> Certificate:
    """Returns an upper bound of the risk, on new data, of the predictor that draws a network per prediction.

    With `average` it is about the predictor of `sb.predict` instead. The KL is a sum of closed forms or their upper
    bounds in float64; the risk on (x, y) is bounded from `draws` networks, each on random examples of its own, by
    betting. PAC-Bayes holds however the model was trained, also on (x, y), if

    - the prior, the ranks and the architecture were chosen without (x, y); where `tried` configurations were compared
      on them, each pays for all,
    - all weights are drawn: a trained bias without posterior, a normalisation or a deterministic weight is refused,
      and so is a layer with random noise of its own,
    - the examples are independent: where more than one in a hundred is a copy of an earlier one, they are refused.

    What the data and the model cannot show is listed among the assumptions of the result. Where the compiled loss is no
    negative log-likelihood, as a focal loss, the result states that the objective of training was no ELBO.

    Args:
        x: data of every kind that `predict` takes. They are in memory, so all batches of a stream are read first.
        y: labels, integers from 0, or targets; None takes those of batches (x, y).
        draws: more draws make the bound tighter, by about ln(10/(δ/5))/draws; to be chosen before the result is seen.
        form: "kl" (PAC-Bayes-kl), "catoni", "tandem" (of `average`, by pairs of networks) or "holdout"
            (Clopper–Pearson), which needs a model that never saw (x, y). "best" takes the smallest of those that apply,
            which share δ: "holdout" is among them with `unseen=True`.
        average: None certifies the randomised predictor; S the classifier that averages the probabilities of S draws,
            as `sb.predict(draws=S)` does.
        loss: None or "error" is the 0-1 loss; "probability" 1 − p(label); else `BoundedCrossentropy(p_min)`, or
            `BoundedError(limit)` for a regression.
        constant: C of Catoni's bound, fixed without (x, y), as `catoni_constant` does; None pays for a grid.
        unseen: the model was neither trained nor selected on (x, y); taken on trust.
        prior_data: inputs that the prior was learned on, where `learn_prior` and `centre_prior` have not remembered
            them; "disjoint" if examples that look the same were drawn apart. That is taken on trust, unless more
            of them came back than chance explains.
        frozen: weights outside posteriors, which are not trainable, were fixed before (x, y) were seen.
        duplicates: "independent" if examples that are equal, input and label, were drawn independently, as they are
            where inputs take few values.
        tried: number of models (ranks, priors, settings, seeds) that might have been chosen by their results on
            (x, y), this one included.
        seed: of the draws; fixed before the result is seen.
        allow_seen: compute the number even if the prior saw (x, y); then it is not a certificate.
        likelihood, output: what the outputs mean, and which of several; see `predict`.

    >>> import singularbayes as sb
    >>> keras.utils.set_random_seed(0)
    >>> posterior = sb.FullRank(prior=sb.Centred(sb.Normal(0.1)), eta=0.1)
    >>> model = keras.Sequential([keras.Input((2,)), sb.layers.Dense(2, use_bias=False, posterior=posterior)])
    >>> x = np.random.default_rng(0).normal(size=(500, 2)).astype("float32")
    >>> bound = certify(model, x, np.zeros(500, int), draws=200, form="kl", likelihood="categorical_logits")
    >>> bound.is_certificate, bound.deltas
    (True, {'data': 0.04, 'Monte Carlo': 0.01})
    """
    require_model("certify", model)
    require_share("certify", delta=delta)
    require_integer("certify", draws=draws, tried=tried, **({} if average is None else {"average": average}))
    require_integer("certify", 0, seed=seed)
    require_choice("certify", FORMS, form=form)
    if constant is not None:
        require_positive("certify", constant=constant)
    x, y, weight = collected(x, y, caller="certify")
    if y is None:
        raise ValueError("certify needs labels y; got y=None, and no batches (x, y).")
    if weight is not None:
        raise Refused("certify needs examples that count the same; got batches with sample weights.")
    if not model.built:
        model(keras.tree.map_structure(lambda array: array[:1], x), training=False)  # makes its weights
    distinct = require_distinct(x, y, duplicates)
    seen, words = require_conditions(model, x, form, unseen, prior_data, frozen)
    if seen and not allow_seen:
        raise Refused(
            f"certify needs examples that the prior has not seen; {seen}. Certify on others, or pass allow_seen=True "
            "for a number that is not a certificate."
        )
    if has_other_noise(model, x, draws, EXAMPLES, seed):
        raise Refused(
            f"certify needs outputs that depend on inputs and drawn weights alone; those of {model.name!r} change "
            "between two passes with the same draw, because a layer has random noise of its own at inference. Leave "
            "that layer out, or make it act in training only."
        )
    meaning = likelihood_of_output(model, position_of(model, output, "certify"), likelihood, "certify")
    predictor = Predictor(find_bounded_loss(loss, meaning, "certify"), average, seed)
    forms = compared_forms(form, predictor, unseen)
    shares = share_delta(forms, delta)
    options = {"likelihood": likelihood, "output": output}
    found = bounds_of_forms(
        model,
        x,
        y,
        forms=forms,
        predictor=predictor,
        shares=shares,
        draws=draws,
        tried=tried,
        constant=constant,
        loss=loss,
        options=options,
    )
    chosen = min(found, key=lambda one: found[one].value)
    kind = "holdout" if chosen == "holdout" else "pac_bayes"
    bound = with_statement(found[chosen], chosen, forms, predictor, shares, len(np.asarray(y)))
    levels = ("the level of the loss fixed without these examples",) if not isinstance(loss, (str, type(None))) else ()
    bound = replace(
        bound,
        assumptions=(
            *bound.assumptions,
            *levels,
            *own_code(model),
            *distinct,
            *words[kind],
        ),
    )
    reason = why_no_elbo(loss_of(model, position_of(model, output, "certify")))
    if reason is not None and chosen != "holdout":
        bound = replace(bound, sentence=f"{bound.sentence} {reason}; the bound holds for any objective.")
    bound = bound.with_defect(seen) if seen else bound
    named = prior_data is not None and not isinstance(prior_data, str)
    call = {
        "delta": delta,
        "draws": draws,
        "form": form,
        "average": average,
        "constant": constant,
        "unseen": unseen,
        "prior_data": "arrays" if named else prior_data,
        "frozen": frozen,
        "duplicates": duplicates,
        "tried": tried,
        "allow_seen": allow_seen,
        "seed": seed,
        "output": output,
        "loss": keras.saving.serialize_keras_object(loss),
        "likelihood": keras.saving.serialize_keras_object(likelihood),
    }
    data = hashlib.sha256(hash_examples([x, np.asarray(y)]).tobytes()).hexdigest()
    own = {one.name: getattr(bound, one.name) for one in fields(Bound)}
    return Certificate(**own, form=chosen, call=call, data=data, weights=weights_hash(model), versions=versions_now())


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
    These are remembered with the prior, so that `certify` refuses them. Good ones were not fitted: those by which the
    prior was stopped or chosen, such as its `validation_data`.

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
    remember_examples(model, x, "catoni_constant")
    options = {"loss": loss, "likelihood": likelihood, "output": output, "caller": "catoni_constant"}
    risks = drawn_risks(model, x, y, draws, EXAMPLES, seed, **options)
    return bounds.catoni_constant(float(risks.mean()), kl, num_data, 0.8 * delta)
