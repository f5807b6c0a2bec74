"""The table of likelihoods, and how one is found in it: by name, or by the loss that a model was compiled with."""

import keras

from singularbayes.likelihoods.base import Likelihood, as_loss, is_loss, kind_of_loss
from singularbayes.likelihoods.bernoulli import Bernoulli
from singularbayes.likelihoods.categorical import BoundedCrossentropy, Categorical
from singularbayes.likelihoods.counts import NegativeBinomial, Poisson
from singularbayes.likelihoods.gaussian import BoundedError, Gaussian
from singularbayes.likelihoods.heavy_tails import LaplaceNoise, StudentTNoise
from singularbayes.likelihoods.mean_scale import MeanScale

LIKELIHOODS: dict[str, Likelihood] = {
    "categorical_logits": Categorical(),
    "categorical": Categorical(from_logits=False),
    "bernoulli_logits": Bernoulli(),
    "bernoulli": Bernoulli(from_logits=False),
    "gaussian": Gaussian(),
    "mean_scale": MeanScale(),
    "laplace": LaplaceNoise(),
    "student_t": StudentTNoise(),
    "poisson_log": Poisson(),
    "poisson": Poisson(log_rate=False),
    "negative_binomial": NegativeBinomial(),
}

# Their outputs are probabilities, but the loss is not a negative log-likelihood of the labels.
_NO_LOG_LIKELIHOOD = (
    *(keras.losses.BinaryFocalCrossentropy, keras.losses.binary_focal_crossentropy),
    *(keras.losses.CategoricalFocalCrossentropy, keras.losses.categorical_focal_crossentropy),
    BoundedCrossentropy,
    BoundedError,
)


def find_likelihood(
    identifier: Likelihood | str | None, loss=None, model: str = "model", caller: str = "predict"
) -> Likelihood:
    """Returns a likelihood from itself, its name, or, for None, from the loss that the model was compiled with.

    Args:
        caller: the function that errors name.
    """
    if isinstance(identifier, Likelihood):
        return identifier
    names = sorted(LIKELIHOODS)
    if identifier is not None:
        if isinstance(identifier, str) and identifier in LIKELIHOODS:
            return LIKELIHOODS[identifier]
        raise ValueError(
            f"{caller} needs likelihood to be a Likelihood or one of {names}; got likelihood={identifier!r}."
        )
    found = likelihood_of_loss(loss)
    if found is None:
        fix = "Compile the model with its loss, or pass" if loss is None else "Pass"
        raise ValueError(
            f"{caller} needs to know what the outputs mean, and the loss of {model!r} does not specify it; got "
            f"loss={loss!r}. {fix} likelihood= one of {names}."
        )
    return found


def likelihood_of_loss(loss) -> Likelihood | None:
    """Returns the likelihood that a compiled loss stands for; None where it stands for none of the table."""
    loss = as_loss(loss)
    found = (kind.from_loss(loss) for kind in _KINDS)
    return next((likelihood for likelihood in found if likelihood is not None), None)


def why_no_elbo(loss) -> str | None:
    """Returns why the objective with a compiled loss is no ELBO, in words; None where it is one.

    >>> why_no_elbo(keras.losses.BinaryFocalCrossentropy())
    'BinaryFocalCrossentropy is no negative log-likelihood, so the objective of training was no ELBO'
    >>> why_no_elbo("mse") is None
    True
    """
    loss = as_loss(loss)
    smoothing = getattr(loss, "label_smoothing", 0)
    if loss is None:
        return None
    name = getattr(kind_of_loss(loss), "__name__", repr(loss))
    if likelihood_of_loss(loss) is None or is_loss(loss, _NO_LOG_LIKELIHOOD):
        which = (
            "no negative log-likelihood" if is_loss(loss, _NO_LOG_LIKELIHOOD) else "not known to be a log-likelihood"
        )
        return f"{name} is {which}, so the objective of training was no ELBO"
    if smoothing:
        return f"{name} has label_smoothing={smoothing:g}, so the objective of training was no ELBO of the labels"
    return None


def highest_label(loss, width: int | None) -> int | None:
    """Returns the highest label that a loss takes for an output of that width; None where targets are not labels.

    >>> highest_label("sparse_categorical_crossentropy", 3), highest_label("binary_crossentropy", 1)
    (2, 1)
    """
    if width is None:
        return None
    loss = as_loss(loss)
    found = (kind.highest_label(loss, width) for kind in _KINDS)
    return next((label for label in found if label is not None), None)


_KINDS = {type(likelihood): None for likelihood in LIKELIHOODS.values()}
