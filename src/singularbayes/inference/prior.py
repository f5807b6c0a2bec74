"""Priors that other data taught. What certifies a posterior later must not be among them."""

from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.inference.find import find_posteriors
from singularbayes.inference.inputs import as_arrays
from singularbayes.inference.seen import sketch
from singularbayes.posteriors import Centred, Posterior
from singularbayes.posteriors.priors import ScalePrior, require_positive


def centre_prior(model: keras.Model, *, learned_on, scale: float | None = None) -> None:
    """Makes what the posteriors are now their prior: centres at their means, widths at their scales.

    Every posterior needs a `Centred` prior of one scale, such as `LowRank(16, prior=Centred("normal"))`. The KL is 0
    afterwards, where prior and posterior are of one family and `scale` is not given.

    Args:
        learned_on: the examples (inputs) that the means were learned on, all of them. They are remembered with the
            prior, and `certify` refuses them. None says that the means have seen no data.
        scale: one prior scale for all weights in place of the posteriors' scales.
    """
    posteriors = [_centred(posterior) for posterior in find_posteriors(model) if posterior.random]
    if not posteriors:
        raise ValueError(f"centre_prior needs a model with posteriors, built; got {model.name!r} with none.")
    steps = _steps(model)
    if learned_on is None and steps:
        raise ValueError(
            f"centre_prior needs learned_on, the examples that the means were learned on: {model.name!r} was trained "
            f"for {steps} steps. Got learned_on=None."
        )
    if scale is not None:
        require_positive("centre_prior", scale=scale)
    seen = None if learned_on is None else sketch(as_arrays(learned_on))
    for posterior, unit in posteriors:
        posterior.prior = Centred(unit, seen)
        for factor in posterior.factors:
            loc, own, _ = factor.numbers()
            # Widths are multiples of the scale that the prior has already.
            factor.set_prior(posterior.prior, loc, (own if scale is None else np.array(scale)) / unit.scale)


def learn_prior(model: keras.Model, x, y, *, scale: float | None = None, **fit) -> keras.callbacks.History:
    """Fits a compiled model on examples that will not certify it, and makes the result its prior.

    The model then goes on from there: `fit` it on all examples, and `certify` it on those that `x` has not.

    Args:
        scale: one prior scale for all weights in place of the fitted scales, see `centre_prior`.
        **fit: arguments of `model.fit`, such as `epochs`, `callbacks=[KLSchedule(…)]`.

    >>> import singularbayes as sb
    >>> x, y = np.random.default_rng(0).normal(size=(40, 3)), np.zeros(40)
    >>> posterior = sb.FullRank(prior=sb.Centred(), kl_weight=0.0)
    >>> model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, use_bias=False, posterior=posterior)])
    >>> model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> _ = learn_prior(model, x[:20], y[:20], verbose=0)
    >>> abs(sb.kl(model, "exact")) < 1e-6
    True
    """
    for posterior in find_posteriors(model):
        if posterior.random:
            _centred(posterior)
    if _steps(model):
        raise ValueError(
            f"learn_prior needs a model that no other examples were seen by; {model.name!r} was trained for "
            f"{_steps(model)} steps. Take a fresh model, or centre_prior(model, learned_on=all that it has seen)."
        )
    history = model.fit(x, y, **fit)
    centre_prior(model, learned_on=x, scale=scale)
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


def _steps(model: keras.Model) -> int:
    optimizer: Any = getattr(model, "optimizer", None)
    return 0 if optimizer is None else int(ops.convert_to_numpy(optimizer.iterations))
