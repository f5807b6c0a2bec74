"""Many members as one JAX program: `vmap` over members of Keras's own step, one `scan` per epoch."""

import math
from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp

from singularbayes.models.programs import kind_of
from singularbayes.training.every_component import drawing_validation
from singularbayes.training.fit_many import Job, take

_BATCH_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


def train_together(job: Job, members: list[tuple[int, int]], most: int) -> list[keras.callbacks.History]:
    """Returns the history of every member (number, seed), by programs of at most so many members in turn."""
    size = math.ceil(len(members) / math.ceil(len(members) / most))  # equal groups are compiled once
    program: Program | None = None
    histories = []
    for start in range(0, len(members), size):
        group = [Member(job, *member) for member in members[start : start + size]]
        program = program or Program(job, group[0].model)
        program.train(group)
        histories += [member.model.history for member in group]
    return histories


class Member:
    """One model with its callbacks, set up as `fit` does it."""

    def __init__(self, job: Job, number: int, seed: int):
        self.number, self.seed, self.model = number, seed, job.build(number, seed)
        first = take(job.train.arrays, np.arange(min(job.batch_size, len(job.train))))
        self.model.fit(*first[:2], epochs=0, verbose=0)  # makes the weights of metrics and optimizer
        callbacks = job.callbacks(number)
        _refuse_batch_hooks(callbacks)
        params = {"epochs": job.epochs, "steps": job.steps, "verbose": 0}
        self.callbacks = keras.callbacks.CallbackList(callbacks, add_history=True, model=self.model, **params)
        self.logs: dict[str, Any] = {}
        self.model.stop_training = False
        self.callbacks.on_train_begin()

    @property
    def variables(self) -> tuple:
        """What a step takes and gives: trainable, other, the optimizer's and the metrics' variables."""
        model = self.model
        others = model.non_trainable_variables, model.optimizer.variables, model.metrics_variables
        return model.trainable_variables, *others

    @property
    def values(self) -> tuple:
        return tuple([variable.value for variable in part] for part in self.variables)

    def assign(self, values: tuple) -> None:
        for variables, new in zip(self.variables, values, strict=True):
            for variable, value in zip(variables, new, strict=True):
                variable.assign(value)

    def take_logs(self, prefix: str = "") -> dict[str, Any]:
        """Returns the results of the metrics, and keeps it for the end of the epoch."""
        results = self.model.get_metrics_result()
        found = {f"{prefix}{name}": np.asarray(value).tolist() for name, value in results.items()}
        self.logs.update(found)
        return found


class Program:
    """The compiled epoch and evaluation of one network, for any number of members of one architecture."""

    def __init__(self, job: Job, model: keras.Model):
        self.job, self.model, self.kind = job, model, kind_of(model)
        self.data = jax.device_put(job.train.arrays)
        self.held_out = None if job.held_out is None else jax.device_put(job.held_out.arrays)
        self._stack = jax.jit(lambda states: jax.tree.map(lambda *values: jnp.stack(values), *states))
        self._part = jax.jit(lambda state, i: jax.tree.map(lambda values: values[i], state))
        self._epoch = jax.jit(jax.vmap(self._train, in_axes=(0, 0, None)), donate_argnums=0)
        self._evaluate = jax.jit(jax.vmap(self._test, in_axes=(0, None)), donate_argnums=0)

    def _train(self, state, order, data):
        return self._through(lambda state, batch: self.model.train_step(state, batch)[1], state, order, data)

    def _test(self, state, data):
        trainable, others, optimizer, metrics = state
        order = jnp.arange(len(keras.tree.flatten(data)[0]))
        with drawing_validation(self.model):
            step = lambda state, batch: self.model.test_step(state, batch)[1]  # noqa: E731
            trainable, others, metrics = self._through(step, (trainable, others, metrics), order, data)
        return trainable, others, optimizer, metrics

    def _through(self, step: Callable, state, order, data):
        """Returns the state after a step on every batch; the last may be smaller, as in `fit`."""
        size = self.job.batch_size
        whole = len(order) // size
        batches = order[: whole * size].reshape(whole, size)
        state, _ = jax.lax.scan(lambda state, ids: (step(state, take(data, ids)), None), state, batches)
        return step(state, take(data, order[whole * size :])) if len(order) % size else state

    def train(self, members: list[Member]) -> None:
        """Trains the members; one that has stopped goes along, and keeps what it had."""
        for member in members:
            if kind_of(member.model) != self.kind:
                raise ValueError(
                    f"fit_many needs build() to make the same network for every member; got another one for member "
                    f"{member.number}, seed {member.seed}. Pass together=1 to train different ones one after another."
                )
        for epoch in range(self.job.epochs):
            live = [member for member in members if not member.model.stop_training]
            if not live:
                break
            for member in live:
                member.model.reset_metrics()
                member.callbacks.on_epoch_begin(epoch)
                member.logs = {}
            orders = np.stack([self.job.train.order(member.number, member.seed, epoch) for member in members])
            self._run(members, lambda state: self._epoch(state, orders, self.data))  # noqa: B023
            for member in live:
                member.take_logs()
            if self.held_out is not None:
                self._validate(members, live)
            for member in live:
                member.callbacks.on_epoch_end(epoch, member.logs)
        for member in members:
            member.model.optimizer.finalize_variable_values(member.model.trainable_weights)
            member.callbacks.on_train_end(member.logs)

    def _validate(self, members, live):
        for member in live:
            member.callbacks.on_test_begin()
            member.model.reset_metrics()
        self._run(members, lambda state: self._evaluate(state, self.held_out))
        for member in live:
            member.callbacks.on_test_end(member.take_logs("val_"))

    def _run(self, members, function: Callable) -> None:
        state = function(self._stack([member.values for member in members]))
        for i, member in enumerate(members):
            if not member.model.stop_training:
                member.assign(self._part(state, i))


def _refuse_batch_hooks(callbacks) -> None:
    for callback in callbacks:
        for hook in _BATCH_HOOKS:
            of_its_own = getattr(type(callback), hook) is not getattr(keras.callbacks.Callback, hook)
            if not hasattr(callback, "know") and (of_its_own or hook in vars(callback)):
                raise ValueError(
                    f"fit_many runs an epoch as one program, where nothing is called at a batch; got "
                    f"{type(callback).__name__} with {hook}. Pass together=1 to train one after another."
                )
