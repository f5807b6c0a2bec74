"""The objective: mean negative log-likelihood per example + β · KL(q ‖ p) / num_data.

The first term is the compiled loss, the second comes from the posteriors through `model.losses`, so plain `fit` and any
loop that adds `model.losses` maximise the ELBO. Here the KL's weight is set; `kl_schedule.py` sets it for `fit`.
"""

import warnings
from operator import methodcaller
from pathlib import Path
from typing import Any

import keras
import numpy as np

from singularbayes.checks import require_choice, require_not_negative, require_positive
from singularbayes.likelihoods import require_activations
from singularbayes.models.programs import compilation_of
from singularbayes.models.saving import read_model
from singularbayes.posteriors import find_random_posteriors
from singularbayes.training.every_component import prepare_mixtures

BETA = 0.03  # chosen with the defaults of `LowRank`: docs/protocol.md
_KL_METHODS = {"training": methodcaller("kl"), "bound": methodcaller("kl_bound"), "exact": methodcaller("kl_exact")}


def kl(model: keras.layers.Layer, method: str = "training"):
    """Returns KL(q ‖ p) summed over all the weights of `model`, in nats.

    Args:
        method: "training" (what the loss adds: exact, or an unbiased estimate), "bound" (closed-form upper bound) or
            "exact" (float64, by closed form or quadrature; a plain float).

    >>> import keras, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, posterior=sb.LowRank(2))])
    >>> sb.kl(model, "exact") > 0
    True
    """
    require_choice("kl", tuple(_KL_METHODS), method=method)
    return sum((_KL_METHODS[method](posterior) for posterior in find_random_posteriors(model)), 0.0)


def set_kl(model: keras.layers.Layer, num_data: float, beta: float = BETA) -> None:
    """Sets the KL weight β / num_data for every posterior of `model`, for custom loops and `train_on_batch`.

    β = 1 is the ELBO. With β < 1, as by default, the loss is no longer a bound of the evidence.

    >>> import keras, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((3,)), sb.layers.Dense(2, posterior=sb.LowRank(2))])
    >>> sb.set_kl(model, num_data=1000, beta=1)  # then model.train_on_batch, or a loop that adds sum(model.losses)
    """
    require_kl_weight(num_data, beta)
    if getattr(model, "compiled", False):
        require_activations(model)
        steps_of(model).bring_back(model)
    prepare_mixtures(model)
    for posterior in find_random_posteriors(model):
        posterior.set_kl_weight(float(beta / num_data))
    spare_from_decay(model)


def require_kl_weight(num_data, beta) -> None:
    """Raises unless β / num_data can weigh a KL."""
    if np.ndim(num_data):
        raise ValueError(f"The KL weight needs num_data=len(x); got num_data of shape {np.shape(num_data)}.")
    require_positive("The KL weight", num_data=num_data)
    require_not_negative("The KL weight", beta=beta)


class Steps:
    """Compiled steps of a model, for as long as it is not compiled again.

    A step that was compiled while a KL weight was set does not see that it is unset: without weight it is put away, and
    the next training begins without one. So `KLGuard` knows training, which makes a step, from evaluation.
    """

    def __init__(self, model: keras.Model):
        self.compilation = compilation_of(model)
        self.train: Any = None
        self.test: Any = None
        self.validation: Any = None  # the one of `test` that draws

    def put_away(self, model: keras.Model) -> None:
        """Takes the training step from a model whose KL weight is unset."""
        self.train, model.train_function = model.train_function, None

    def bring_back(self, model: keras.Model) -> None:
        """Gives the training step back, before a KL weight is set."""
        if model.train_function is None:
            self.train, model.train_function = None, self.train


def steps_of(model: keras.Model) -> Steps:
    """Returns the compiled steps that are kept for a model."""
    steps = getattr(model, "_kl_steps", None)
    if steps is None or steps.compilation != compilation_of(model):
        steps = model._kl_steps = Steps(model)
    return steps


def spare_from_decay(model: keras.layers.Layer) -> None:
    """Keeps the weight decay of a model's optimizer from the posteriors: it would pull ρ to 0 and be a second prior."""
    optimizer = inner_optimizer(model)
    if not getattr(optimizer, "weight_decay", None):
        return
    posteriors = find_random_posteriors(model)
    if not all(posterior.built for posterior in posteriors):
        raise ValueError(
            f"The weight decay of {type(optimizer).__name__} has to spare the posteriors, and those of {model.name!r} "
            "are not built yet. Call the model on a batch before `fit`, or give it a keras.Input."
        )
    variables = [variable for posterior in posteriors for variable in posterior.random_weights]
    # `exclude_from_weight_decay` refuses once the optimizer is built, and Keras builds it before any callback.
    spared = {*getattr(optimizer, "_exclude_from_weight_decay", ()), *map(optimizer._var_key, variables)}
    optimizer._exclude_from_weight_decay, optimizer._exclude_from_weight_decay_cache = spared, {}


def inner_optimizer(model: keras.layers.Layer) -> Any:
    """Returns the optimizer of a model without what scales its loss; None where it has none."""
    optimizer: Any = getattr(model, "optimizer", None)
    while isinstance(optimizer, keras.optimizers.LossScaleOptimizer):  # Keras adds one under mixed_float16
        optimizer = optimizer.inner_optimizer
    return optimizer


def warn_of_optimizer(model: keras.Model) -> None:
    """Warns where an optimizer would leave weights as they are."""
    optimizer = inner_optimizer(model)
    # β₂ = 0.999 is 1 in bfloat16, and the step size is √(1 − β₂ᵗ) times something.
    still = [v.path for v in model.trainable_variables if keras.backend.standardize_dtype(v.dtype) == "bfloat16"]
    if still and getattr(optimizer, "beta_2", 0.0) > 1 - 2**-9:
        warnings.warn(
            f"{type(optimizer).__name__} does not move weights of type bfloat16, where β₂ = {optimizer.beta_2} is 1: "
            f'{still[0]!r} stays as it is. Use dtype="mixed_bfloat16", whose weights are float32.',
            stacklevel=2,
        )


def load(path: str | Path, **kwargs) -> keras.Model:
    """Returns the model of a `.keras` file; arguments are those of `keras.saving.load_model`.

    `fit` of the model without `KLSchedule` uses the KL weight of the file, and warns that it does.
    `keras.saving.load_model` works too once `singularbayes.layers` is imported, but does not name what is wrong with a
    file that is not a whole model. It leaves the KL weight unset, as `load_weights` and copies of a model do: training
    then needs `KLSchedule` or `set_kl`.

    >>> import singularbayes as sb
    >>> model.save("model.keras")  # doctest: +SKIP
    >>> again = sb.load("model.keras")  # on any backend  # doctest: +SKIP
    """
    model = read_model(path, **kwargs)
    prepare_mixtures(model)
    posteriors = find_random_posteriors(model)
    for posterior in posteriors:
        posterior.resume_kl_weight()
    if any(posterior.kl_weight_from_file for posterior in posteriors):
        spare_from_decay(model)
    return model
