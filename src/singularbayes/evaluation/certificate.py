"""The certified 0-1 risk of a trained model's randomised predictor."""

from dataclasses import replace

import keras
import numpy as np

from singularbayes.bounds import Bound, Refused, empirical_risk, pac_bayes
from singularbayes.checks import require_integer, require_share
from singularbayes.evaluation.certificate_conditions import (
    own_code,
    require_bounded_kl,
    require_distinct,
    require_drawn,
    seen_by_prior,
)
from singularbayes.likelihoods import why_no_elbo
from singularbayes.models import collected, find_random_posteriors, loss_of, position_of
from singularbayes.prediction import drawn_risks, has_other_noise

DRAWS = 10_000
EXAMPLES = 256  # per draw


def certify(
    model: keras.Model,
    x,
    y=None,
    delta: float = 0.05,
    draws: int = DRAWS,
    *,
    prior_data=None,
    frozen: bool = False,
    duplicates: str | None = None,
    tried: int = 1,
    allow_seen: bool = False,
    seed: int = 0,
    likelihood=None,
    output=None,
) -> Bound:
    """Returns an upper bound of the 0-1 risk, on new data, of the predictor that draws a network per prediction.

    PAC-Bayes in its kl⁻¹ form. The KL is a sum of closed forms or their upper bounds in float64; the risk on (x, y) is
    bounded from `draws` networks, each on random examples of its own, by betting; four fifths of δ are for the examples
    and one fifth for the draws. It holds however the model was trained, also on (x, y), if

    - the prior, the ranks and the architecture were chosen without (x, y); where `tried` candidates were compared on
      them, each pays for all,
    - all weights are drawn: a trained bias without posterior, a normalisation or a deterministic weight is refused,
      and so is a layer with random noise of its own,
    - the examples are independent: where more than one in a hundred is a copy of an earlier one, they are refused.

    What the data and the model cannot show is listed among the assumptions of the result. Where the compiled loss is no
    negative log-likelihood, as a focal loss, the result says that the objective of training was no ELBO.

    Args:
        x: data of every kind that `predict` takes. They are in memory, so all batches of a stream are read first.
        y: labels, integers from 0; None takes those of batches (x, y).
        draws: more draws make the bound tighter, by about ln(10/(δ/5))/draws; to be chosen before the result is seen.
        prior_data: inputs that the prior was learned on, where `learn_prior` and `centre_prior` have not remembered
            them; "disjoint" if examples that look the same were drawn apart. That is taken on trust, unless more
            of them came back than chance explains.
        frozen: weights outside posteriors, which are not trainable, were fixed before (x, y) were seen.
        duplicates: "independent" if examples that are equal, input and label, were drawn independently, as they are
            where inputs take few values.
        tried: number of models (ranks, priors, settings, seeds) that might have been chosen by their results on
            (x, y), this one included.
        seed: of the draws; fixed before the result is seen.
        allow_seen: compute the number even if the prior saw (x, y); then it is no certificate.
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
    if not isinstance(model, keras.Model):
        raise TypeError(f"certify needs a Keras model; got {type(model).__name__}.")
    require_share("certify", delta=delta)
    require_integer("certify", draws=draws, tried=tried)
    x, y, weight = collected(x, y, caller="certify")
    if y is None:
        raise ValueError("certify needs labels y; got y=None, and no batches (x, y).")
    if weight is not None:
        raise Refused("certify needs examples that count the same; got batches with sample weights.")
    if not model.built:
        model(keras.tree.map_structure(lambda array: array[:1], x), training=False)  # makes its weights
    words = (*require_drawn(model, frozen), *own_code(model), *require_distinct(x, y, duplicates))
    require_bounded_kl(model)
    seen, more = seen_by_prior(model, x, prior_data)
    if seen and not allow_seen:
        raise Refused(
            f"certify needs examples that the prior has not seen; {seen}. Certify on others, or pass allow_seen=True "
            "for a number that is no certificate."
        )
    if has_other_noise(model, x, draws, EXAMPLES, seed):
        raise Refused(
            f"certify needs outputs that depend on inputs and drawn weights alone; those of {model.name!r} change "
            "between two passes with the same draw, because a layer has random noise of its own at inference. Leave "
            "that layer out, or make it act in training only."
        )
    nats = certified_kl(model)
    risks = drawn_risks(model, x, y, draws, EXAMPLES, seed, likelihood=likelihood, output=output, caller="certify")
    bound = certificate(risks, *nats, len(np.asarray(y)), delta, tried)
    bound = replace(bound, assumptions=(*bound.assumptions, *words, *more))
    reason = why_no_elbo(loss_of(model, position_of(model, output, "certify")))
    if reason is not None:
        bound = replace(bound, sentence=f"{bound.sentence} {reason}; the bound holds for any objective.")
    return bound.with_defect(seen) if seen else bound


def certified_kl(model: keras.Model) -> tuple[float, float]:
    """Returns an upper bound of KL(Q ‖ P) in nats, by formula in float64, before and after the choice of the gauge."""
    found = [posterior.certified_kl() for posterior in find_random_posteriors(model)]
    return sum(before for before, _ in found), sum(after for _, after in found)


def certificate(
    risks: np.ndarray, kl: float, kl_in_gauge: float, num_data: int, delta: float = 0.05, tried: int = 1
) -> Bound:
    """Returns the bound from the shares of mistakes of independent draws and the KL before and after the gauge."""
    part = delta / 5
    empirical = empirical_risk(risks, part, 1 / tried, "betting")
    bound = pac_bayes(empirical, kl_in_gauge, num_data, delta - part, share=1 / tried)
    terms = {
        "mistakes of the draws": empirical.terms["estimate"],
        "with their error": empirical.value,
        "draws": len(risks),
        "KL": kl_in_gauge,
        "KL before the gauge": kl,
        "N": num_data,
        "(KL + ln(2√N/δ))/N": bound.terms["budget"],
        "tried": tried,
    }
    sentence = (
        f"With probability {100 * bound.confidence:.4g} % over the draw of these {num_data:,} examples and of "
        "networks, the randomised classifier, which draws a network for every prediction, errs on at most "
        f"{bound.percent} of new examples. `sb.predict`, which averages draws, is another classifier: this number does "
        "not bound its error."
    )
    quantity = "0-1 risk of the randomised predictor"
    return replace(bound, name="Risk certificate", quantity=quantity, terms=terms, sentence=sentence)
