"""Priors that other data taught. What certifies a posterior later must not be among them."""

import keras
import numpy as np

from singularbayes.models.inputs import as_arrays
from singularbayes.models.traversal import find_posteriors
from singularbayes.posteriors import Centred, Posterior
from singularbayes.posteriors.priors import ScalePrior, require_positive
from singularbayes.training.data_sketch import merged, sketch


def centre_prior(model: keras.Model, *, learned_on, scale: float | None = None) -> None:
    """Makes what the posteriors are now their prior: centres at their means, widths at their scales.

    Every posterior needs a `Centred` prior of one scale, such as `LowRank(16, prior=Centred("normal"))`. The KL is 0
    afterwards, where prior and posterior are of one family and `scale` is not given.

    Args:
        learned_on: the examples (inputs) that the means were learned on, all of them, those included by which a stop
            or a setting was chosen. They are remembered with the prior, beside those that it knows already, and
            `certify` refuses them. None says that the means have seen no other data.
        scale: one prior scale for all weights in place of the posteriors' scales.
    """
    posteriors = [_centred(posterior) for posterior in find_posteriors(model) if posterior.random]
    if not posteriors:
        raise ValueError(f"centre_prior needs a model with posteriors, built; got {model.name!r} with none.")
    if learned_on is None and _moved(model):
        raise ValueError(
            f"centre_prior needs learned_on, the examples that the means were learned on: {model.name!r} was trained, "
            "its means are not where its prior is. Got learned_on=None."
        )
    _centre(posteriors, None if learned_on is None else sketch(as_arrays(learned_on)), scale)


def _centre(posteriors: list[tuple[Posterior, ScalePrior]], seen: dict | None, scale: float | None) -> None:
    if scale is not None:
        require_positive("centre_prior", scale=scale)
    for posterior, unit in posteriors:
        assert isinstance(posterior.prior, Centred)
        posterior.prior = Centred(unit, merged(posterior.prior.learned_on, seen))
        for factor in posterior.factors:
            loc, own, _ = factor.numbers()
            # Widths are multiples of the scale that the prior has already.
            factor.set_prior(posterior.prior, loc, (own if scale is None else np.array(scale)) / unit.scale)


def learn_prior(model: keras.Model, x, y, *, scale: float | None = None, **fit) -> keras.callbacks.History:
    """Fits a compiled model on examples that will not certify it, and makes the result its prior.

    The model then goes on from there: `fit` it on all examples, and `certify` it on those that `x` has not.

    Args:
        scale: one prior scale for all weights in place of the fitted scales, see `centre_prior`.
        **fit: arguments of `model.fit`, such as `epochs`, `callbacks=[KLSchedule(…)]`; inputs of `validation_data` are
            remembered too.

    >>> import singularbayes as sb
    >>> x, y = np.random.default_rng(0).normal(size=(40, 3)), np.zeros(40)
    >>> posterior = sb.FullRank(prior=sb.Centred(), kl_weight=0.0)
    >>> model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, use_bias=False, posterior=posterior)])
    >>> model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> _ = learn_prior(model, x[:20], y[:20], verbose=0)
    >>> abs(sb.kl(model, "exact")) < 1e-6
    True
    """
    posteriors = [_centred(posterior) for posterior in find_posteriors(model) if posterior.random]
    if _moved(model):
        raise ValueError(
            f"learn_prior needs a model that no other examples were seen by; {model.name!r} was trained, its means are "
            "not where its prior is. Take a fresh model, or centre_prior(model, learned_on=all that it has seen)."
        )
    seen: dict | None = sketch(as_arrays(x))
    if fit.get("validation_data") is not None:
        seen = merged(seen, sketch(as_arrays(fit["validation_data"][0])))
    history = model.fit(x, y, **fit)
    _centre(posteriors, seen, scale)
    return history


def _centred(posterior: Posterior) -> tuple[Posterior, ScalePrior]:
    """Returns a posterior and the prior of u; raises unless it has one of one scale."""
    prior = posterior.prior
    if not isinstance(prior, Centred) or not isinstance(prior.prior, ScalePrior) or not posterior.factors:
        made = f'{type(posterior).__name__}(..., prior=Centred("normal"))'
        raise ValueError(
            f"A prior that is learned needs posteriors with a Centred prior of one scale, built; got {posterior!r} in "
            f"{posterior.path or posterior.name}. Make it {made}."
        )
    return posterior, prior.prior


def _moved(model: keras.Model) -> bool:
    """Returns whether a mean is not at the centre of its prior: `compile` forgets the steps, the weights do not."""
    for posterior in find_posteriors(model):
        for factor in posterior.factors if posterior.random else ():
            loc, _, reference = factor.numbers()
            if reference is not None and not np.array_equal(loc, reference[0]):
                return True
    return False
