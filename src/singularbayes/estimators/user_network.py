"""Networks that a function of the user makes for an estimator: what they need, and when two are the same."""

import keras
import numpy as np

from singularbayes.estimators.network import (
    START_NOISE,
    MultiLabel,
    Network,
    loss_and_likelihood,
    own_optimizer,
)
from singularbayes.layers import LearnedNoise
from singularbayes.likelihoods import Likelihood, find_likelihood
from singularbayes.posteriors import find_random_posteriors, flat_layers


def built_by_user(estimator, x: np.ndarray, y: np.ndarray, task: str) -> Network:
    """Returns the network that the function `model` of an estimator makes; raises where it cannot be trained.

    Args:
        x, y: the standardised data; y has one column per output.
    """
    name, build, options = type(estimator).__name__, estimator.model, estimator.model_kwargs or {}
    if isinstance(build, keras.Model) or not callable(build):
        raise TypeError(
            f"{name} needs model to be a function that makes a Keras model, such as def build(X, y); got "
            f"{type(build).__name__}."
        )
    model = build(X=x, y=y, **options)
    if not isinstance(model, keras.Model):
        raise TypeError(f"{name} needs model(X, y) to return a Keras model; got {type(model).__name__}.")
    if not model.built:
        model.build((None, x.shape[1]))
    if not find_random_posteriors(model):
        raise ValueError(
            f"{name} needs a model with a posterior; got {model.name!r} with none. Use layers such as "
            "singularbayes.layers.Dense(64, 'relu', posterior=singularbayes.LowRank(16)), or return "
            "singularbayes.bayesianize(model, singularbayes.LowRank(16))."
        )
    network = _compiled(name, model, task) if model.compiled else _uncompiled(name, model, x, y, task)
    key = (build, repr(options), x.shape[1], y.shape[1], repr(_wiring(network)))
    if not _has_own_code(model) and " at 0x" not in repr(key[1:]):
        network.key, network.again = key, lambda: built_by_user(estimator, x, y, task)
    return network


def _compiled(name: str, model: keras.Model, task: str) -> Network:
    loss = keras.losses.get(model.loss) if isinstance(model.loss, str) else model.loss
    likelihood: Likelihood | None
    if task == "labels":
        likelihood = MultiLabel() if getattr(loss, "from_logits", False) else None
    else:
        likelihood = find_likelihood(None, loss, model.name, name)
    fits = likelihood is not None and (likelihood.task == "regression") == (task == "regression")
    if likelihood is None or not fits or not likelihood.specifies_noise:
        needed = {
            "regression": "Gaussian(scale) or MeanScale()",
            "classes": "a cross-entropy",
            "labels": "BinaryCrossentropy(from_logits=True)",
        }[task]
        raise ValueError(
            f"{name} needs a model compiled with {needed}, or one that is not compiled; got loss={model.loss!r}."
        )
    return Network(model, task, loss, likelihood, model.optimizer, sets_rate=False)


def _uncompiled(name: str, model: keras.Model, x, y, task: str) -> Network:
    """Returns the network of a model without a loss: its outputs are logits, or the means of standardised targets."""
    outputs, width = model.compute_output_shape((None, x.shape[1]))[-1], y.shape[1]
    head = task == "regression" and outputs == 2 * width
    if outputs != width and not head:
        also = f", or {2 * width}: means and raw scales" if task == "regression" else ""
        raise ValueError(f"{name} needs a model with {width} outputs, y.shape[1]{also}; got {outputs}.")
    if task == "regression" and not head:
        inputs = keras.Input((x.shape[1],))
        model = keras.Model(inputs, LearnedNoise(START_NOISE)(model(inputs)))
    return Network(model, task, *loss_and_likelihood(task, head), own_optimizer())


def _has_own_code(model: keras.Model) -> bool:
    """Returns whether a model may compute something that its config does not show."""
    graphs = (keras.Sequential, keras.src.models.Functional)
    own = (layer for layer in flat_layers(model) if not type(layer).__module__.startswith(("keras.", "singularbayes.")))
    lambdas = (layer for layer in flat_layers(model) if isinstance(layer, keras.layers.Lambda))
    return not isinstance(model, graphs) or any(own) or any(lambdas)


def _wiring(network: Network) -> list:
    """Returns the configs of model, loss and optimizer, with names by the order in which they appear."""
    config = network.model.get_config()
    names: dict[str, int] = {}

    def collect(part):
        if isinstance(part, dict):
            if isinstance(part.get("name"), str):
                names.setdefault(part["name"], len(names))
            part = list(part.values())
        if isinstance(part, (list, tuple)):
            for inner in part:
                collect(inner)

    def renamed(part):
        if isinstance(part, dict):
            return {key: renamed(value) for key, value in part.items() if key != "shared_object_id"}
        if isinstance(part, (list, tuple)):
            return [renamed(inner) for inner in part]
        return names.get(part, part) if isinstance(part, str) else part

    collect(config)
    loss, optimizer = network.loss, network.optimizer
    return [renamed(config), type(loss), loss.get_config(), type(optimizer), optimizer.get_config()]
