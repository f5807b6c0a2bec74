"""Training and the compiled programs behind it, shared by all estimators with the same network.

On JAX a call runs many steps as one program with the data on the device. It is compiled once for a network and a
range of sizes: rows are padded to powers of two, batches have one size, and the number of steps, the KL weight and the
learning rate are values. Elsewhere training goes batch by batch, on one model that is kept for the same reason.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.estimators.network import Network
from singularbayes.layers import one_thread
from singularbayes.models.programs import as_numpy, share_programs
from singularbayes.training import set_kl

_STEPS = 256  # of one call of the program
_KEPT = 16  # networks whose programs are kept
_SMALL = 2**26  # parameters × rows
LOCK = threading.RLock()  # Keras traces and builds in one thread at a time

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Batches:
    """The rows of every step, (steps, batch), and their weights: 0 for padding, on average 1 for the others."""

    rows: np.ndarray
    weights: np.ndarray

    @classmethod
    def of_epochs(cls, epochs: int, weights: np.ndarray, size: int, rng: np.random.Generator, shuffle: bool):
        """Returns the fewest batches of at most `size` rows, of like size, so that no step sees a few rows alone."""
        ids: list[np.ndarray] = []
        for _ in range(epochs):
            order = rng.permutation(len(weights)) if shuffle else np.arange(len(weights))
            ids += np.array_split(order, math.ceil(len(weights) / size))
        batches = cls(np.zeros((len(ids), size), "int32"), np.zeros((len(ids), size), "float32"))
        for i, part in enumerate(ids):
            batches.rows[i, : len(part)] = part
            # A loss divides by the size of the batch, padding included.
            batches.weights[i, : len(part)] = weights[part] * (size / len(part))
        return batches


@dataclass
class State:
    """Values of the variables of a network and its optimizer."""

    trainable: list
    others: list
    optimizer: list


class Trainer:
    """Trains networks of one kind."""

    def __init__(self, network: Network):
        self.network, self.model = network, network.model
        set_kl(self.model, 1)
        network.optimizer.build(self.model.trainable_variables)
        self._start = _values(network.optimizer.variables)
        if network.sets_rate:
            rate = network.optimizer.learning_rate
            self._rate_place = [variable is rate for variable in network.optimizer.variables].index(True)
        self._run: Callable = self._jax_program() if keras.backend.backend() == "jax" else self._one_by_one

    def prepare(self, array: np.ndarray):
        """Returns data as the program takes them: on the device, with rows of zeros up to a power of two."""
        if keras.backend.backend() != "jax":
            return array
        rows = max(64, 1 << (len(array) - 1).bit_length())
        return ops.convert_to_tensor(
            np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])
        )

    def start(self, model: keras.Model, optimizer: Arrays | None = None) -> State:
        """Returns the state of a model before training: with a new optimizer, or the given one."""
        return State(
            _values(model.trainable_variables), _values(model.non_trainable_variables), optimizer or self._start
        )

    def run(self, state: State, x, y, uses, batches: Batches, rates: np.ndarray) -> np.ndarray:
        """Advances the state by one step per batch; returns the loss of every step.

        Args:
            uses: (rows, networks), by which the weight of a row is multiplied for each network of the mixture that all
                rows are repeated for, or for the one network; 0 leaves a row out.
        """
        losses: list[np.ndarray] = []
        with one_thread_if_small(self.model, batches.rows.shape[1]):
            for first in range(0, len(batches.rows), _STEPS):
                part = slice(first, first + _STEPS)
                losses.append(self._run(state, x, y, uses, batches.rows[part], batches.weights[part], rates[part]))
        return np.concatenate(losses)

    def finish(self, state: State, model: keras.Model) -> Arrays:
        """Writes the values into a model of this kind; returns those of the optimizer."""
        _assign(model.trainable_variables, state.trainable)
        _assign(model.non_trainable_variables, state.others)
        return [np.array(ops.convert_to_numpy(value)) for value in state.optimizer]

    def _jax_program(self) -> Callable:
        import jax
        from jax import numpy as jnp

        model, loss, optimizer = self.model, self.network.loss, self.network.optimizer

        def objective(trainable, others, x, y, weight):
            outputs, others, losses = model.stateless_call(trainable, others, x, training=True, return_losses=True)
            y = jnp.concatenate([y] * weight.shape[1])
            return loss(y, outputs, weight.T.reshape(-1)) + sum(losses), others

        def steps(state, x, y, *, uses, rows, weights, rates, count):
            def step(i, carried):
                (trainable, others, slots), losses = carried
                batch = x[rows[i]], y[rows[i]], weights[i][:, None] * uses[rows[i]]
                (value, others), gradient = jax.value_and_grad(objective, has_aux=True)(trainable, others, *batch)
                if self.network.sets_rate:
                    slots = [rates[i] if j == self._rate_place else slot for j, slot in enumerate(slots)]
                trainable, slots = optimizer.stateless_apply(slots, gradient, trainable)
                return (trainable, others, slots), losses.at[i].set(value)

            return jax.lax.fori_loop(0, count, step, (state, jnp.zeros(_STEPS)))

        program = jax.jit(steps)

        def run(state: State, x, y, uses, rows, weights, rates) -> np.ndarray:
            count = len(rows)
            padded = [
                np.concatenate([a, np.zeros((_STEPS - count, *a.shape[1:]), a.dtype)]) for a in (rows, weights, rates)
            ]
            values = state.trainable, state.others, state.optimizer
            parts = dict(zip(("rows", "weights", "rates"), padded, strict=True))
            values, losses = program(values, x, y, uses=uses, count=count, **parts)
            state.trainable, state.others, state.optimizer = values
            return np.asarray(losses)[:count]

        return run

    def _one_by_one(self, state: State, x, y, uses, rows, weights, rates) -> np.ndarray:
        model, optimizer = self.model, self.network.optimizer
        variables = model.trainable_variables, model.non_trainable_variables, optimizer.variables
        for some, values in zip(variables, (state.trainable, state.others, state.optimizer), strict=True):
            _assign(some, values)
        losses = []
        for i, ids in enumerate(rows):
            if self.network.sets_rate:
                optimizer.learning_rate.assign(rates[i])
            weight = (weights[i][:, None] * uses[ids]).T.reshape(-1)
            losses.append(self._step(x[ids], np.concatenate([y[ids]] * uses.shape[1]), weight.astype("float32")))
        state.trainable, state.others, state.optimizer = (_values(some) for some in variables)
        return np.array([float(value) for value in losses])

    def _objective(self, x, y, weight):
        outputs = self.model(x, training=True)
        return self.network.loss(y, outputs, weight) + sum(self.model.losses)

    def _step(self, *batch):
        """Advances the model by one step; returns the loss."""
        variables = self.model.trainable_variables
        if keras.backend.backend() == "tensorflow":
            return self._graph(*map(ops.convert_to_tensor, batch))
        self.model.zero_grad()
        value = self._objective(*map(ops.convert_to_tensor, batch))
        value.backward()
        self.network.optimizer.apply([variable.value.grad for variable in variables], variables)
        return value.detach()

    @cached_property
    def _graph(self) -> Callable:
        import tensorflow as tf

        @tf.function
        def step(x, y, weight):
            variables = self.model.trainable_variables
            with tf.GradientTape() as tape:
                value = self._objective(x, y, weight)
            self.network.optimizer.apply(tape.gradient(value, variables), variables)
            return value

        return step


_TRAINERS: OrderedDict[Any, Trainer] = OrderedDict()


def trainer_of(network: Network) -> Trainer:
    """Returns the trainer of a network: one for all with the same key, whose programs the network then uses too."""
    if network.key is None or (network.again is None and network.key not in _TRAINERS):
        return Trainer(network)
    if network.key not in _TRAINERS:
        # A model of its own, because elsewhere than on JAX it is trained in place of the network's.
        _TRAINERS[network.key] = Trainer(network.again())  # type: ignore[misc]
        if len(_TRAINERS) > _KEPT:
            _TRAINERS.popitem(last=False)
    _TRAINERS.move_to_end(network.key)
    trainer = _TRAINERS[network.key]
    share_programs([trainer.model, network.model])
    return trainer


@contextmanager
def one_thread_if_small(model: keras.Model, rows: int) -> Iterator[None]:
    """Keeps torch to one thread for a batch of a small network: there its threads wait longer for each other than
    they compute, by a factor of ten where the cores have other work too."""
    if keras.backend.backend() != "torch" or model.count_params() * rows > _SMALL:
        yield
        return
    with one_thread():
        yield


def _values(variables) -> list:
    return [as_numpy(variable) for variable in variables]


def _assign(variables, values) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
