"""What would void a certificate: weights that no posterior draws, layers with a memory, a prior that saw the data."""

import keras
from scipy.stats import binom

from singularbayes.models import find_posteriors
from singularbayes.models.traversal import flat_layers
from singularbayes.posteriors import Centred
from singularbayes.posteriors.priors import Prior
from singularbayes.training.data_sketch import Seen, seen_among, share_alike, sketch

_SHOWN = 4  # paths in an error
_CHANCE = 1e-3  # less likely coincidences are not believed


class Refused(ValueError):
    """Why no certificate speaks about a model as it is: nothing is wrong with the call."""


def require_drawn(model: keras.Model, frozen: bool) -> tuple[str, ...]:
    """Raises unless every weight that training changed is drawn; returns what is taken on the caller's word."""
    if not any(posterior.random for posterior in find_posteriors(model)):
        raise Refused(f"certify needs a model with posteriors; got {model.name!r} with none.")
    learned = [posterior.path for posterior in find_posteriors(model) if getattr(posterior, "adaptive", False)]
    if learned:
        raise Refused(
            "certify needs ranks that were fixed without the certifying examples; got LowRank('auto'), which learned "
            f"its own, in {learned[0]}. Train LowRank with the rank that other examples gave."
        )
    for layer in flat_layers(model):
        if getattr(layer, "stateful", False):
            raise Refused(f"certify needs answers that do not depend on earlier ones; {layer.path} is stateful.")
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
            raise Refused(
                f"certify needs weights that are drawn, or fixed before the certifying examples; {layer.path} took its "
                "statistics from the training examples. Set its trainable = False before `fit`, or leave it out."
            )
    outside = _outside(model)
    trained = [weight for weight in outside if weight.trainable]
    if trained:
        raise Refused(
            "certify needs every trained weight inside a posterior, because the bound speaks about drawn weights "
            f"only; got {_named(trained)}. Give biases bias_posterior=FullRank(…), or set trainable = False before "
            "`fit` and pass frozen=True."
        )
    if outside and not frozen:
        raise Refused(
            "certify needs to know that weights outside posteriors were fixed before the certifying examples; got "
            f"{_named(outside)}. Pass frozen=True if they were."
        )
    return ("weights outside posteriors fixed without these examples (frozen=True)",) if outside else ()


def require_bounded_kl(model: keras.Model) -> None:
    """Raises unless the KL to every prior has an upper bound by formula."""
    for posterior in find_posteriors(model):
        prior = posterior.prior.prior if isinstance(posterior.prior, Centred) else posterior.prior
        if posterior.random and type(prior).kl_upper is Prior.kl_upper:
            raise Refused(
                f"certify needs priors whose KL has a bound, kl_upper; {type(prior).__name__} of {posterior.path} has "
                "none, and an estimate may be too small."
            )


def seen_by_prior(model: keras.Model, x, prior_data) -> tuple[str | None, tuple[str, ...]]:
    """Returns why the prior may depend on the examples `x`, or None; and what is taken on the caller's word.

    Args:
        prior_data: inputs that the prior was learned on, where the model does not know; "disjoint" says that examples
            which look the same were drawn apart. That is believed as far as these examples look like each other.
    """
    priors = [posterior.prior for posterior in find_posteriors(model) if posterior.random]
    sketches = [prior.learned_on for prior in priors if isinstance(prior, Centred)]
    known = {str(found): found for found in sketches if found is not None}
    apart = isinstance(prior_data, str)
    if apart and prior_data != "disjoint":
        raise ValueError(f"certify needs prior_data as inputs, 'disjoint' or None; got prior_data={prior_data!r}.")
    if prior_data is not None and not apart:
        given = sketch(prior_data)
        known[str(given)] = given
    found = max((seen_among(one, x) for one in known.values()), key=lambda seen: seen.share, default=None)
    if apart:
        return _on_their_word(found, x)
    if found is None or not found.count:
        return None, ()
    return f"the prior was learned on these examples: {100 * found.share:.0f} % of a sample of its own are here", ()


def _on_their_word(found: Seen | None, x) -> tuple[str | None, tuple[str, ...]]:
    """Returns why "disjoint" is not believed, or what is believed."""
    word = "the prior's examples drawn apart from these, on the caller's word (prior_data='disjoint')"
    if found is None:
        return None, (f"{word}: the prior remembers none",)
    told = f"{found.count} of {found.of} that it remembers are here"
    alike = share_alike(x)
    if found.count and binom.sf(found.count - 1, found.of, alike) < _CHANCE:
        return f"the prior was learned on these examples: {told}, and only {100 * alike:.1f} % of these have a twin", ()
    return None, (f"{word}: {told}",)


def _outside(model: keras.Model) -> list:
    """Returns the weights that predictions depend on and no posterior draws."""
    posteriors = [posterior for posterior in find_posteriors(model) if posterior.random]
    inside = {id(posterior.kl_scale) for posterior in posteriors}
    inside |= {id(v) for q in posteriors for factor in q.factors for v in (factor.values, factor.reference)}
    return [weight for weight in model.weights if id(weight) not in inside]


def _named(weights: list) -> str:
    more = len(weights) - _SHOWN
    return ", ".join(weight.path for weight in weights[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
