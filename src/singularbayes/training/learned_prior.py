"""Priors that other data taught. What certifies a posterior later must not be among them.

A prior remembers its examples by their hashes: enough to notice that they come back.
"""

import hashlib
from dataclasses import dataclass

import keras
import numpy as np

from singularbayes.checks import require_positive
from singularbayes.likelihoods import require_activations, require_labels
from singularbayes.models import arranged
from singularbayes.posteriors import Origin, RandomPosterior, ScalePrior, find_random_posteriors


def centre_prior(model: keras.Model, *, learned_on, scale: float | None = None) -> None:
    """Makes what the posteriors are now their prior: centres at their means, widths at their scales.

    Every posterior needs a `Centred` prior of one scale, such as `LowRank(16, prior=Centred("normal"))`. The KL is 0
    afterwards, where prior and posterior are of one family and `scale` is not given.

    Args:
        learned_on: the examples (inputs) that means and scales were learned on, all of them, those included by which a
            stop or a setting was chosen. They are remembered with the prior, beside those that it knows already, and
            `certify` refuses them. None states that no data was seen since the model was built or last centred.
        scale: one prior scale for all weights in place of the posteriors' scales.

    >>> import singularbayes as sb
    >>> prior = sb.Centred("normal")
    >>> model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, posterior=sb.LowRank(2, prior=prior))])
    >>> centre_prior(model, learned_on=None)  # the posterior as it starts, which has seen no data
    >>> round(sb.kl(model, "exact"), 6)
    0.0
    """
    posteriors = [_centred(posterior) for posterior in find_random_posteriors(model)]
    if not posteriors:
        raise ValueError(f"centre_prior needs a model with posteriors, built; got {model.name!r} with none.")
    if learned_on is None and _trained(model):
        raise ValueError(
            f"centre_prior needs learned_on, the examples that the posteriors were learned on: {model.name!r} was "
            "trained, its means or scales are not those that it was built or last centred with. Got learned_on=None."
        )
    _centre(
        posteriors,
        None if learned_on is None else hash_examples(arranged(model, learned_on, "centre_prior")),
        Origin.NAMED,
        scale,
    )


def _centre(
    posteriors: list[tuple[RandomPosterior, ScalePrior]],
    examples: np.ndarray | None,
    origin: Origin,
    scale: float | None,
) -> None:
    if scale is not None:
        require_positive("centre_prior", scale=scale)
    for posterior, unit in posteriors:
        for factor in posterior.factors:
            loc, own, _ = factor.float64_values()
            memory = factor.prior_memory()
            if examples is not None:
                memory = memory.with_examples(examples, origin)
            # Widths are multiples of the scale that the prior has already.
            factor.set_prior(loc, (own if scale is None else np.array(scale)) / unit.scale, memory)


def remember_examples(model: keras.Model, x, caller: str) -> None:
    """Adds examples to what the prior remembers, and leaves the prior; raises unless the model is as it was centred.

    What is read off a prior, such as a constant of a bound, then stands to these examples as the prior itself does.
    """
    posteriors = find_random_posteriors(model)
    centred = bool(posteriors) and all(q.prior.has_centres for q in posteriors)
    if not centred or not all(all(factor.unchanged()) for q in posteriors for factor in q.factors):
        raise ValueError(
            f"{caller} needs a model as learn_prior or centre_prior left it; {model.name!r} was changed since, or has "
            "priors without centres, so what it shows would depend on other examples."
        )
    examples = hash_examples(arranged(model, x, caller))
    for posterior in posteriors:
        for factor in posterior.factors:
            _, _, reference = factor.float64_values()
            assert reference is not None
            factor.set_prior(reference[0], reference[1], factor.prior_memory().with_examples(examples, Origin.LEARNED))


def learn_prior(model: keras.Model, x, y, *, scale: float | None = None, **fit) -> keras.callbacks.History:
    """Fits a compiled model on examples that will not certify it, and makes the result its prior.

    Training then resumes from there: `fit` it on all examples, and `certify` it on those that `x` has not.

    Args:
        x: arrays in memory, because the prior remembers every example; no generator and no data set of batches.
        scale: one prior scale for all weights in place of the fitted scales, see `centre_prior`.
        **fit: arguments of `model.fit`, such as `epochs`, `callbacks=[KLSchedule(…)]`; inputs of
            `validation_data=(x, y)` are remembered too.

    >>> import singularbayes as sb
    >>> x, y = np.random.default_rng(0).normal(size=(40, 3)), np.zeros(40)
    >>> posterior = sb.FullRank(prior=sb.Centred(), kl_weight=0.0)
    >>> model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, use_bias=False, posterior=posterior)])
    >>> model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> _ = learn_prior(model, x[:20], y[:20], verbose=0)
    >>> abs(sb.kl(model, "exact")) < 1e-6
    True
    """
    posteriors = [_centred(posterior) for posterior in find_random_posteriors(model)]
    if _trained(model):
        raise ValueError(
            f"learn_prior needs a model that was not trained on other examples; {model.name!r} was trained, its "
            "means or scales are not those that it was built or last centred with. Take a fresh model, or "
            "centre_prior(model, learned_on=all that it has seen)."
        )
    require_activations(model)
    require_labels("learn_prior(x, y)", model, y, fit.get("sample_weight"))
    examples = hash_examples(arranged(model, x, "learn_prior"))
    validation = fit.get("validation_data")
    if validation is not None:
        if not isinstance(validation, (tuple, list)):
            raise TypeError(
                "learn_prior needs validation_data=(x, y) as arrays in memory, because the prior remembers every "
                f"example; got a {type(validation).__name__}."
            )
        require_labels("learn_prior(validation_data)", model, *validation[1:])
        examples = np.concatenate([examples, hash_examples(arranged(model, validation[0], "learn_prior"))])
    history = model.fit(x, y, **fit)
    _centre(posteriors, examples, Origin.LEARNED, scale)
    return history


def _centred(posterior: RandomPosterior) -> tuple[RandomPosterior, ScalePrior]:
    """Returns a posterior and the prior of u; raises unless it has one of one scale."""
    unit = posterior.prior.unit_scale_prior
    if unit is None or not posterior.factors:
        made = f'{type(posterior).__name__}(..., prior=Centred("normal"))'
        raise ValueError(
            f"A prior that is learned needs posteriors with a Centred prior of one scale, built; got {posterior!r} in "
            f"{posterior.path or posterior.name}. Make it {made}."
        )
    return posterior, unit


def _trained(model: keras.Model) -> bool:
    """Returns whether means or scales changed since the model was built or centred; `compile` does not hide it."""
    posteriors = find_random_posteriors(model)
    return not all(factor.unchanged()[1] for posterior in posteriors for factor in posterior.factors)


def hash_examples(x) -> np.ndarray:
    """Returns a hash of every example, (examples,), unsigned integers of 64 bits.

    >>> len(hash_examples(np.arange(6.0).reshape(3, 2)))
    3
    """
    rows = zip(*(map(_row_bytes, np.asarray(array)) for array in keras.tree.flatten(x)), strict=True)
    return np.frombuffer(b"".join(hashlib.blake2b(b"".join(row), digest_size=8).digest() for row in rows), "uint64")


def _row_bytes(row: np.ndarray) -> bytes:
    """Returns a row in single precision, which is what a model is given, and what integers lose by it."""
    single = np.ascontiguousarray(row, "float32") + np.float32(0)  # −0 is 0
    if row.dtype.kind not in "iu":
        return single.tobytes()
    lost = row.astype("int64") - single.astype("float64").astype("int64")
    return single.tobytes() + (lost.tobytes() if lost.any() else b"")


@dataclass(frozen=True)
class Seen:
    """How many of the examples that were remembered came back."""

    count: int
    total: int

    @property
    def share(self) -> float:
        return self.count / self.total


def seen_among(remembered: np.ndarray, hashes: np.ndarray) -> Seen:
    """Returns how many of the remembered hashes are among others.

    >>> hashes = hash_examples(np.arange(200.0).reshape(100, 2))
    >>> seen_among(hashes[:50], hashes), seen_among(hashes[:50], hashes[50:])
    (Seen(count=50, total=50), Seen(count=0, total=50))
    """
    return Seen(int(np.isin(remembered, hashes).sum()), len(remembered))


def count_repeats(hashes: np.ndarray) -> int:
    """Returns how many examples look like an earlier one.

    >>> count_repeats(hash_examples(np.array([[1.0], [2.0], [1.0], [1.0]])))
    2
    """
    return len(hashes) - len(np.unique(hashes))
