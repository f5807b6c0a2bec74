"""What would void a certificate: weights that no posterior draws, layers with a memory, a prior that saw the data."""

import keras

from singularbayes.inference import find_posteriors
from singularbayes.inference.find import flat_layers
from singularbayes.inference.seen import share_seen, sketch
from singularbayes.posteriors import Centred

_SHOWN = 4  # paths in an error


def require_drawn(model: keras.Model, frozen: bool) -> tuple[str, ...]:
    """Raises unless every weight that training changed is drawn; returns what is taken on the caller's word."""
    if not any(posterior.random for posterior in find_posteriors(model)):
        raise ValueError(f"certify needs a model with posteriors; got {model.name!r} with none.")
    for layer in flat_layers(model):
        if getattr(layer, "stateful", False):
            raise ValueError(f"certify needs answers that do not depend on earlier ones; {layer.path} is stateful.")
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable:
            raise ValueError(
                f"certify needs weights that are drawn, or fixed before the certifying examples; {layer.path} took its "
                "statistics from the training examples. Set its trainable = False before `fit`, or leave it out."
            )
    outside = _outside(model)
    trained = [weight for weight in outside if weight.trainable]
    if trained:
        raise ValueError(
            "certify needs every trained weight inside a posterior, because the bound speaks about drawn weights "
            f"only; got {_named(trained)}. Give biases bias_posterior=FullRank(…), or set trainable = False before "
            "`fit` and pass frozen=True."
        )
    if outside and not frozen:
        raise ValueError(
            "certify needs to know that weights outside posteriors were fixed before the certifying examples; got "
            f"{_named(outside)}. Pass frozen=True if they were."
        )
    return ("weights outside posteriors fixed without these examples (frozen=True)",) if outside else ()


def seen_by_prior(model: keras.Model, x, prior_data) -> tuple[str | None, tuple[str, ...]]:
    """Returns why the prior may depend on the examples `x`, or None; and what is taken on the caller's word.

    Args:
        prior_data: inputs that the prior was learned on, where the model does not know; "disjoint" says that examples
            which look the same were drawn apart.
    """
    priors = [posterior.prior for posterior in find_posteriors(model) if posterior.random]
    sketches = [prior.learned_on for prior in priors if isinstance(prior, Centred)]
    known = {str(found): found for found in sketches if found is not None}
    if isinstance(prior_data, str):
        if prior_data != "disjoint":
            raise ValueError(f"certify needs prior_data as inputs, 'disjoint' or None; got prior_data={prior_data!r}.")
        return None, ("the prior's examples drawn apart from these (prior_data='disjoint')",)
    if prior_data is not None:
        given = sketch(prior_data)
        known[str(given)] = given
    share = max((share_seen(found, x) for found in known.values()), default=0.0)
    if not share:
        return None, ()
    return f"the prior was learned on these examples: {100 * share:.0f} % of a sample of its own are among them", ()


def _outside(model: keras.Model) -> list:
    """Returns the weights that predictions depend on and no posterior draws."""
    posteriors = [posterior for posterior in find_posteriors(model) if posterior.random]
    inside = {id(posterior.kl_scale) for posterior in posteriors}
    inside |= {id(v) for q in posteriors for factor in q.factors for v in (factor.values, factor.reference)}
    return [weight for weight in model.weights if id(weight) not in inside]


def _named(weights: list) -> str:
    more = len(weights) - _SHOWN
    return ", ".join(weight.path for weight in weights[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
