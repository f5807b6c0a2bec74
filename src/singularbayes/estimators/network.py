"""The networks of the estimators: what is built from the arguments, and what its outputs mean."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops
from scipy import special

from singularbayes.checks import require_choice, require_integer, require_positive
from singularbayes.estimators.defaults import DEFAULTS
from singularbayes.layers import Dense, LearnedNoise
from singularbayes.likelihoods import (
    Bernoulli,
    Categorical,
    Classification,
    Likelihood,
    MeanScale,
)
from singularbayes.models.programs import as_numpy
from singularbayes.posteriors import FullRank, LowRank, Mixture, find_posteriors, find_random_posteriors
from singularbayes.training import set_kl

ACTIVATIONS = {"identity": "linear", "logistic": "sigmoid", "tanh": "tanh", "relu": "relu"}  # scikit-learn's names
START_NOISE = 0.3  # of standardised targets


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


@dataclass
class Network:
    """A built model with its loss, its optimizer, and what its outputs mean. It can be pickled.

    Attributes:
        task: "regression", "classes" or "labels" (several per example).
        again: builds another one of its kind.
        key: equal for networks that compute the same function of weights and inputs; None where that is not known.
        sets_rate: whether the estimator sets the learning rate of every step, because the optimizer is its own.
    """

    model: keras.Model
    task: str
    loss: keras.losses.Loss
    likelihood: Likelihood
    optimizer: keras.optimizers.Optimizer
    again: "Callable[[], Network] | None" = None
    key: Any = None
    sets_rate: bool = True

    @property
    def copies(self) -> int:
        """How often a training pass repeats every row: for each component of a mixture."""
        return max([1, *(one.components for one in find_random_posteriors(self.model))])

    def targets(self, y: np.ndarray) -> np.ndarray:
        """Returns labels or standardised values in the form that the loss takes."""
        if self.task != "classes":
            return y.astype("float32")
        if isinstance(self.loss, keras.losses.CategoricalCrossentropy):
            return np.eye(self.model.output_shape[-1], dtype="float32")[y]
        return y[:, None].astype("float32") if isinstance(self.likelihood, Bernoulli) else y.astype("int32")

    def __getstate__(self) -> dict:
        objects = {name: keras.saving.serialize_keras_object(getattr(self, name)) for name in _SERIALIZED}
        values = [as_numpy(variable) for variable in self.model.variables]
        shared = isinstance(self.key, str)  # else `again` may be a function that cannot be pickled
        others = {"again": self.again if shared else None, "key": self.key if shared else None}
        return {**vars(self), **others, **objects, "values": values}

    def __setstate__(self, state: dict) -> None:
        values = state.pop("values")
        for name in _SERIALIZED:
            state[name] = keras.saving.deserialize_keras_object(state[name], safe_mode=False)
        vars(self).update(state)
        if self.model.compiled:
            self.loss, self.optimizer = self.model.loss, self.model.optimizer
        set_kl(self.model, 1)  # posteriors then share the variables that they shared
        for variable, value in zip(self.model.variables, values, strict=True):
            variable.assign(value)


_SERIALIZED = ("model", "loss", "optimizer")


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

    def build(self) -> Network:
        """Returns a new network with random weights."""
        widths = [self.inputs, *self.hidden, 2 * self.outputs if self.head else self.outputs]
        pairs = itertools.pairwise(widths)
        activations = [ACTIVATIONS[self.activation]] * len(self.hidden) + ["linear"]
        layers: list[keras.layers.Layer] = [
            Dense(columns, activation, posterior=self._posterior(min(rows, columns)))
            for (rows, columns), activation in zip(pairs, activations, strict=True)
        ]
        if self.task == "regression" and not self.head:
            layers.append(LearnedNoise(START_NOISE))
        loss, likelihood = loss_and_likelihood(self.task, self.head)
        model = keras.Sequential([keras.Input((self.inputs,)), *layers])
        return Network(model, self.task, loss, likelihood, own_optimizer(), self.build, repr(self))

    def _posterior(self, largest: int):
        options = {"prior": DEFAULTS.own_prior if self.prior is None else self.prior, "eta": self.eta}
        posterior = FullRank(**options) if self.rank is None else LowRank.paper(min(self.rank, largest), **options)
        return posterior if self.components == 1 else Mixture(posterior, self.components)


def loss_and_likelihood(task: str, head: bool) -> tuple[keras.losses.Loss, Likelihood]:
    """Returns what a network of the estimators is trained with; `head` is whether it predicts the noise."""
    if task == "regression":
        return (WeightedMeanScale() if head else MeanScale()), MeanScale()
    if task == "labels":
        return MultiLabel(), MultiLabel()
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True), Categorical()


def own_optimizer() -> keras.optimizers.Optimizer:
    """Returns Adam with limited gradients, so that one batch of outliers does not end training.

    The limit is of each number: one on their norm would make the components of a mixture depend on each other.
    """
    return keras.optimizers.Adam(1e-3, clipvalue=1.0)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Makes what is random inside depend on the seed alone, and leaves the global generators as they were."""
    import random

    from keras.src.backend.common import global_state
    from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR
    from keras.src.utils.rng_utils import GLOBAL_RANDOM_SEED

    names = (GLOBAL_SEED_GENERATOR, GLOBAL_RANDOM_SEED)
    before = [global_state.get_global_attribute(name) for name in names]
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch = None
    if keras.backend.backend() == "torch":
        import torch as library

        torch = library
        torch_state = torch.get_rng_state()
        torch.manual_seed(seed)
    # As keras.utils.set_random_seed, which imports TensorFlow for this wherever it is installed.
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, None)
    global_state.set_global_attribute(GLOBAL_RANDOM_SEED, seed)
    if keras.backend.backend() == "tensorflow":
        keras.utils.set_random_seed(seed)
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(torch_state)
        for name, value in zip(names, before, strict=True):
            global_state.set_global_attribute(name, value)


def copy_component(network: Network, source: int, target: int) -> None:
    """Copies a component of the mixtures of a network to the place of another."""
    for layer in network.model.layers:
        for variable in layer.trainable_variables if find_posteriors(layer) else ():
            values = as_numpy(variable)
            values[target] = values[source]
            variable.assign(values)


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


def perceptron(estimator, inputs: int, outputs: int, task: str, head: bool = False) -> Network:
    """Returns a new network of the arguments of an estimator."""
    return MultilayerPerceptron(
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
    ).build()


def _widths(sizes) -> tuple:
    return tuple(sizes) if hasattr(sizes, "__iter__") else (sizes,)
