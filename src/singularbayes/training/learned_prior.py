"""Priors that other data taught. What certifies a posterior later must not be among them.

A prior knows that it was learned, not from which examples: `certify` prints the assumption.
"""

import keras
import numpy as np

from singularbayes.checks import require_positive
from singularbayes.likelihoods import require_activations, require_labels
from singularbayes.posteriors import Origin, ScalePrior, Variational, find_random_posteriors


def centre_prior(model: keras.Model, *, scale: float | None = None) -> None:
    """Makes what the posteriors are now their prior: centres at their means, widths at their scales.

    Every posterior needs a `Centred` prior of one scale, such as `LowRank(16, prior=Centred("normal"))`. The KL is 0
    afterwards, where prior and posterior are of one family and `scale` is not given. Certify on examples that means,
    scales and settings were not learned on.

    Args:
        scale: one prior scale for all weights in place of the posteriors' scales.

    >>> import singularbayes as sb
    >>> prior = sb.Centred("normal")
    >>> model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, posterior=sb.LowRank(2, prior=prior))])
    >>> centre_prior(model)
    >>> round(sb.kl(model, "exact"), 6)
    0.0
    """
    posteriors = [_centred(posterior) for posterior in find_random_posteriors(model)]
    if not posteriors:
        raise ValueError(f"centre_prior needs a model with posteriors, built; got {model.name!r} with none.")
    if scale is not None:
        require_positive("centre_prior", scale=scale)
    for posterior, unit in posteriors:
        for factor in posterior.factors:
            loc, own, _ = factor.float64_values()
            # Widths are multiples of the scale that the prior has already.
            factor.set_prior(loc, (own if scale is None else np.array(scale)) / unit.scale, Origin.LEARNED)


def learn_prior(model: keras.Model, x, y, *, scale: float | None = None, **fit) -> keras.callbacks.History:
    """Fits a compiled model on examples that will not certify it, and makes the result its prior.

    Training then resumes from there: `fit` it on all examples, and `certify` it on those that `x` has not, nor the
    `validation_data` by which training was stopped.

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
    for posterior in find_random_posteriors(model):
        _centred(posterior)  # before it is trained in vain
    require_activations(model)
    require_labels("learn_prior(x, y)", model, y, fit.get("sample_weight"))
    history = model.fit(x, y, **fit)
    centre_prior(model, scale=scale)
    return history


def _centred(posterior: Variational) -> tuple[Variational, ScalePrior]:
    """Returns a posterior and the prior of u; raises unless it has one of one scale."""
    unit = posterior.prior.unit_scale_prior
    if unit is None or not posterior.factors:
        made = f'{type(posterior).__name__}(..., prior=Centred("normal"))'
        raise ValueError(
            f"A prior that is learned needs posteriors with a Centred prior of one scale, built; got {posterior!r} in "
            f"{posterior.path or posterior.name}. Make it {made}."
        )
    return posterior, unit
