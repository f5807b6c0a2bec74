"""The networks of the estimators: what is built from the arguments, or by a function of the user."""

import itertools
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops
from scipy import special

from singularbayes.checks import require_choice, require_integer, require_positive
from singularbayes.estimators.defaults import DEFAULTS
from singularbayes.layers import Dense, LearnedNoise
from singularbayes.likelihoods import Bernoulli, Categorical, Classification, Likelihood, MeanScale, find_likelihood
from singularbayes.models.programs import as_numpy
from singularbayes.posteriors import FullRank, LowRank, Mixture, find_random_posteriors

ACTIVATIONS = {"identity": "linear", "logistic": "sigmoid", "tanh": "tanh", "relu": "relu"}  # scikit-learn's names
_START_NOISE = 0.3  # of standardised targets
_KEPT = 16  # models whose programs are kept


@keras.saving.register_keras_serializable(package="singularbayes")
class WeightedMeanScale(MeanScale):
    """The loss of a noise head: `MeanScale` with every example weighed by its scale σ (β-NLL with β = ½).

    Plain likelihood divides the gradient of the mean by σ², so a head can give up on examples by widening σ there. The
    weights have mean 1 over a batch, without its padding, whose `sample_weight` is 0; and no gradient.
    """

    def __call__(self, y_true, y_pred, sample_weight=None):
        rho = ops.split(y_pred, 2, axis=-1)[1]
        scale = ops.stop_gradient(ops.mean(ops.softplus(rho), axis=-1))
        weight = ops.ones_like(scale) if sample_weight is None else ops.cast(sample_weight, scale.dtype)
        mean = ops.sum(weight * scale) / ops.sum(weight)
        return super().__call__(y_true, y_pred, weight * scale / mean)


@keras.saving.register_keras_serializable(package="singularbayes")
class MultiLabel(Classification):
    """Labels that do not exclude each other, whose −log p is summed: the last axis has one logit per label."""

    from_logits = True
    activation = staticmethod(keras.activations.sigmoid)

    def call(self, y_true, y_pred):
        y_true = ops.cast(y_true, y_pred.dtype)
        return ops.sum(ops.softplus(y_pred) - y_true * y_pred, axis=-1)

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        return special.expit(np.asarray(outputs, "float64"))


@keras.saving.register_keras_serializable(package="singularbayes")
class ComponentLoss(keras.losses.Loss):
    """A loss with a weight for every row and component; targets end with these, a column per component.

    In training the batch lies there once for each component, a block behind the other.
    """

    def __init__(self, loss: keras.losses.Loss, components: int):
        super().__init__(name=loss.name)
        self.loss, self.components = loss, components

    @property
    def from_logits(self):
        return getattr(self.loss, "from_logits", None)

    def __call__(self, y_true, y_pred, sample_weight=None):
        k = self.components
        rows = ops.shape(y_true)[0]
        own = ops.sum(y_true[:, -k:] * ops.one_hot(ops.arange(rows) * k // rows, k), axis=-1)
        return self.loss(y_true[:, :-k], y_pred, own if sample_weight is None else own * sample_weight)


@dataclass(frozen=True)
class MultilayerPerceptron:
    """The settings of a network of dense low-rank layers."""

    inputs: int
    hidden: tuple[int, ...]
    outputs: int
    activation: str
    rank: int | None
    prior: Any
    eta: float
    components: int
    task: str  # "regression", "classes" or "labels"
    head: bool = False

    def build(self) -> keras.Model:
        """Returns a new model with random weights, compiled."""
        widths = [self.inputs, *self.hidden, 2 * self.outputs if self.head else self.outputs]
        activations = [ACTIVATIONS[self.activation]] * len(self.hidden) + ["linear"]
        layers: list[keras.layers.Layer] = [
            Dense(columns, activation, posterior=self._posterior(min(rows, columns)))
            for (rows, columns), activation in zip(itertools.pairwise(widths), activations, strict=True)
        ]
        if self.task == "regression" and not self.head:
            layers.append(LearnedNoise(_START_NOISE))
        model = keras.Sequential([keras.Input((self.inputs,)), *layers])
        return _compile(model, ComponentLoss(_loss(self.task, self.head), self.components))

    def _posterior(self, largest: int):
        options = {"prior": DEFAULTS.own_prior if self.prior is None else self.prior, "eta": self.eta}
        posterior = FullRank(**options) if self.rank is None else LowRank.paper(min(self.rank, largest), **options)
        return posterior if self.components == 1 else Mixture(posterior, self.components)


class Network:
    """A compiled model, what its outputs mean, and the values of its variables and of those of its optimizer.

    Networks with the same settings share one model, and with it the compiled programs, so its variables hold the values
    of the network that used it last. On JAX a fit of 1,000 rows takes five times as long where it compiles its own.

    Attributes:
        task: "regression", "classes" or "labels" (several per example).
        settings: those of a network of the estimators' own, or None for one of a function of the user.
        sets_rate: whether the estimator sets the learning rate, because the optimizer is its own.
        losses, scores: how training went: the loss of every epoch, and its score on watched rows.
        failed: (components,), whose training failed, so that they are copies of others; None where not requested.
    """

    losses: list[float]
    scores: list[float]
    failed: np.ndarray | None = None

    def __init__(self, model: keras.Model, task: str, likelihood: Likelihood, settings=None, sets_rate: bool = True):
        self.task, self.likelihood, self.settings, self.sets_rate = task, likelihood, settings, sets_rate
        model.optimizer.build(model.trainable_variables)
        self.values, self.optimizer = _values(model.variables), _values(model.optimizer.variables)
        self._model: Any = None if settings else model  # a function of the user made it
        if settings and repr(settings) not in _MODELS:
            _MODELS[repr(settings)] = model

    @property
    def model(self) -> keras.Model:
        """The model with the values of this network."""
        if self.settings:
            key = repr(self.settings)
            _MODELS[key] = model = _MODELS.pop(key, None) or self.settings.build()  # the last one is kept longest
            if len(_MODELS) > _KEPT:
                _MODELS.popitem(last=False)
        else:
            model = self._model
        _assign(model.variables, self.values)
        return model

    def copy_of_model(self) -> keras.Model:
        """Returns a model that no other network uses; of a function of the user the model itself."""
        if not self.settings:
            return self.model
        model = self.settings.build()
        _assign(model.variables, self.values)
        return model

    def take(self, model: keras.Model) -> None:
        """Takes the values of a model and its optimizer."""
        self.values, self.optimizer = _values(model.variables), _values(model.optimizer.variables)

    def targets(self, y: np.ndarray, used: np.ndarray | None) -> np.ndarray:
        """Returns labels or standardised values in the form that the loss takes.

        Args:
            used: (rows, components), weights; None is 1 for all.
        """
        if self.settings:
            used = np.ones((len(y), self.settings.components)) if used is None else used
            return np.concatenate([y.reshape(len(y), -1), used], axis=1).astype("float32")
        if self.task != "classes":
            return y.astype("float32")
        if isinstance(self.model.loss, keras.losses.CategoricalCrossentropy):
            return np.eye(self.model.output_shape[-1], dtype="float32")[y]
        return y[:, None].astype("float32") if isinstance(self.likelihood, Bernoulli) else y.astype("int32")

    def copy_component(self, source: int, target: int) -> None:
        """Copies a component of the mixtures of a network of the estimators' own to the place of another."""
        model = self.model
        for layer in model.layers:
            for variable in layer.trainable_variables if isinstance(layer, Dense) else ():  # and not of the noise
                values = as_numpy(variable)
                values[target] = values[source]
                variable.assign(values)
        self.values = _values(model.variables)

    def __getstate__(self) -> dict:
        return {**vars(self), "_model": None if self.settings else keras.saving.serialize_keras_object(self._model)}

    def __setstate__(self, state: dict) -> None:
        vars(self).update(state)
        if not self.settings:
            self._model = keras.saving.deserialize_keras_object(self._model, safe_mode=False)
            self._model.optimizer.build(self._model.trainable_variables)


_MODELS: OrderedDict[str, keras.Model] = OrderedDict()


def perceptron(estimator, inputs: int, outputs: int, task: str, head: bool = False) -> Network:
    """Returns a new network of the arguments of an estimator."""
    settings = MultilayerPerceptron(
        inputs=inputs,
        hidden=tuple(int(size) for size in _widths(estimator.hidden_layer_sizes)),
        outputs=outputs,
        activation=estimator.activation,
        rank=None if estimator.rank is None else int(estimator.rank),
        prior=estimator.prior,
        eta=float(estimator.eta),
        components=int(estimator.components),
        task=task,
        head=head,
    )
    return Network(settings.build(), task, _LIKELIHOODS[task](), settings)


def check_architecture(estimator) -> None:
    """Raises for arguments of an estimator that no network has."""
    name = type(estimator).__name__
    for size in _widths(estimator.hidden_layer_sizes):
        require_integer(name, hidden_layer_sizes=size)
    require_choice(name, tuple(ACTIVATIONS), activation=estimator.activation)
    require_integer(name, components=estimator.components)
    require_positive(name, eta=estimator.eta)
    if estimator.rank is not None:
        require_integer(name, rank=estimator.rank)


def built_by_user(estimator, x: np.ndarray, y: np.ndarray, task: str) -> Network:
    """Returns the network that the function `model` of an estimator makes; raises where it cannot be trained.

    Args:
        x, y: the standardised data; y has one column per output.
    """
    name, build = type(estimator).__name__, estimator.model
    if isinstance(build, keras.Model) or not callable(build):
        raise TypeError(
            f"{name} needs model to be a function that makes a Keras model, such as def build(X, y); got "
            f"{type(build).__name__}."
        )
    model = build(X=x, y=y, **estimator.model_kwargs or {})
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
    if model.compiled:
        return Network(model, task, _likelihood_of(name, model, task), sets_rate=False)
    outputs, width = model.compute_output_shape((None, x.shape[1]))[-1], y.shape[1]
    head = task == "regression" and outputs == 2 * width
    if outputs != width and not head:
        also = f", or {2 * width}: means and raw scales" if task == "regression" else ""
        raise ValueError(f"{name} needs a model with {width} outputs, y.shape[1]{also}; got {outputs}.")
    if task == "regression" and not head:
        inputs = keras.Input((x.shape[1],))
        model = keras.Model(inputs, LearnedNoise(_START_NOISE)(model(inputs)))
    return Network(_compile(model, _loss(task, head)), task, _LIKELIHOODS[task]())


def _likelihood_of(name: str, model: keras.Model, task: str) -> Likelihood:
    """Returns the likelihood that a compiled model is trained with."""
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
    return likelihood


_LIKELIHOODS: dict[str, type[Likelihood]] = {"regression": MeanScale, "classes": Categorical, "labels": MultiLabel}


def _loss(task: str, head: bool) -> keras.losses.Loss:
    """Returns what a network is trained with; `head` is whether it predicts the noise."""
    if task == "regression":
        return WeightedMeanScale() if head else MeanScale()
    return MultiLabel() if task == "labels" else keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _compile(model: keras.Model, loss: keras.losses.Loss) -> keras.Model:
    """Compiles with Adam whose gradients are limited, so that one batch of outliers does not end training.

    The limit is of each number: one on their norm would make the components of a mixture depend on each other.
    """
    model.compile(keras.optimizers.Adam(1e-3, clipvalue=1.0), loss)
    return model


def _widths(sizes) -> tuple:
    return tuple(sizes) if hasattr(sizes, "__iter__") else (sizes,)


def _values(variables) -> list[np.ndarray]:
    return [as_numpy(variable) for variable in variables]


def _assign(variables, values) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
