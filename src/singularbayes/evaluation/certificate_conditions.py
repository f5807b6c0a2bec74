"""What would void a certificate: weights that no posterior draws, a memory of earlier ones, a KL without a bound."""

import keras

from singularbayes.bounds import Refused
from singularbayes.posteriors import Origin, find_random_posteriors, flat_layers

_SHOWN = 4  # paths in an error
_ORIGINS = {
    Origin.GIVEN: "the arrays or the code that initialise the prior's centres chosen without these examples",
    Origin.LEARNED: "the examples that the prior was learned on drawn independently of these",
    Origin.START: "the weights that the means started at, around which the prior lies, learned on other examples",
}


def require_conditions(model: keras.Model, form: str, frozen: bool) -> tuple[str, ...]:
    """Raises where a form does not hold for a model; returns what is assumed, because nothing can show it."""
    if not find_random_posteriors(model):
        raise Refused(
            f"certify needs a model with posteriors; got {model.name!r} with none. Convert it with sb.bayesianize; or "
            "bound its error on held-out examples by their mistakes: sb.bounds.mean_at_most(predicted != y, delta)."
        )
    for layer in flat_layers(model):
        if getattr(layer, "stateful", False):
            raise Refused(f"certify needs predictions that do not depend on earlier ones; {layer.path} is stateful.")
    code = "layers without a memory of these examples and without random noise of their own at inference"
    if form == "holdout":
        return "the model neither trained, nor tuned, nor chosen on these examples", code
    return *_require_drawn(model, frozen), *_require_sound_priors(model), code


def _require_drawn(model: keras.Model, frozen: bool) -> tuple[str, ...]:
    """Raises unless every weight that training changed is drawn; returns what is taken on the caller's word."""
    posteriors = find_random_posteriors(model)
    inside = {id(weight) for q in posteriors for weight in (*q.random_weights, *q.training_weights)}
    outside = [weight for weight in model.weights if id(weight) not in inside]
    trained = [weight for weight in outside if weight.trainable]
    if trained:
        raise Refused(
            "certify needs every trained weight inside a posterior, because the bound is about drawn weights "
            f"only; got {_named(trained)}. Give biases bias_posterior=FullRank(…), or set trainable = False before "
            '`fit` and pass frozen=True. If the model has not seen these examples, pass form="holdout", which '
            "allows plain weights."
        )
    if outside and not frozen:
        raise Refused(
            "certify needs to know that weights outside posteriors were fixed before the certifying examples; got "
            f"{_named(outside)}. Pass frozen=True if they were."
        )
    return ("weights outside posteriors fixed without these examples (frozen=True)",) if outside else ()


def _require_sound_priors(model: keras.Model) -> tuple[str, ...]:
    """Raises where a prior has no bound of its KL, or depends on the data; returns where centres come from."""
    origin = Origin.INITIAL
    for posterior in find_random_posteriors(model):
        if not posterior.prior.has_kl_upper:
            raise Refused(
                f"certify needs priors whose KL has a bound, kl_upper; {posterior.prior!r} of {posterior.path} has "
                "none, and an estimate may be too small."
            )
        if posterior.learned_rank is not None:
            raise Refused(
                "certify needs ranks that were fixed without the certifying examples; got AdaptiveLowRank, which "
                f"learned its own, in {posterior.path}. Train LowRank with the rank that other examples gave."
            )
        for factor in posterior.factors:
            origin |= factor.prior_origin()
    return tuple(words for flag, words in _ORIGINS.items() if flag & origin)


def _named(weights: list) -> str:
    more = len(weights) - _SHOWN
    return ", ".join(sorted(weight.path for weight in weights)[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
