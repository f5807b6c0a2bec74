"""Many members as one JAX program: `vmap` over members of Keras's own step, one `scan` per epoch."""

import math
from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp

from singularbayes.models import free_bytes, kind_of, optimizer_kind, share_programs, track
from singularbayes.posteriors import find_posteriors, scope, step_watch
from singularbayes.training.data_size import state_size
from singularbayes.training.fit_many import Job
from singularbayes.training.kl_schedule import validates_draws
from singularbayes.training.logged_loss import wrong_step_error
from singularbayes.training.member_examples import Examples

_CPU_BYTES = 4 << 30  # of a program on a CPU; on an accelerator it is a share of what is free
_ACCELERATOR_SHARE = 0.8
_BATCH_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


def train_together(job: Job, wanted: list[tuple[int, int]], most: int) -> list[keras.callbacks.History]:
    """Returns the history of every member (number, seed), by as few programs as the memory allows in turn."""
    program: Program | None = None
    histories: list[keras.callbacks.History] = []
    while wanted:
        size = math.ceil(len(wanted) / math.ceil(len(wanted) / most))  # equal groups are compiled once
        members = [Member(job, number, seed) for number, seed in wanted[:size]]
        program = program or Program(job, members[0].model)
        share_programs([program.model, *(member.model for member in members if member.model is not program.model)])
        if not program.fits(members):
            job.build.models.clear()  # these are given up, and may come again
            if size == 1:
                return [*histories, *job.one_after_another(wanted)]
            most = math.ceil(size / 2)
            continue
        program.train(members)
        histories += [member.history for member in members]
        wanted = wanted[size:]
    return histories


class Member:
    """One model with its callbacks, set up as `fit` does it."""

    def __init__(self, job: Job, number: int, seed: int):
        self.number, self.seed, self.model = number, seed, job.build(number, seed)
        first = np.arange(min(job.train.batch_size, len(job.train)))
        self.model._symbolic_build(data_batch=job.train.take(first))  # makes the weights of metrics and optimizer
        callbacks = job.callbacks(number)
        _refuse_batch_hooks(callbacks)
        params = {"epochs": job.epochs.stop, "steps": job.train.steps, "verbose": 0}
        with state_size(self.model, job.train.size):
            self.callbacks = keras.callbacks.CallbackList(callbacks, add_history=True, model=self.model, **params)
        self.history = self.model.history
        self.logs: dict[str, Any] = {}
        self.model.stop_training = False
        self.callbacks.on_train_begin()

    @property
    def variables(self) -> tuple:
        """What a step takes and gives: trainable, other, the optimizer's and the metrics' variables."""
        model = self.model
        return (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )

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

    def end(self) -> None:
        self.model.optimizer.finalize_variable_values(self.model.trainable_weights)
        self.callbacks.on_train_end(self.logs)


class Program:
    """The compiled epoch and evaluation of one network, for any number of members of one architecture."""

    def __init__(self, job: Job, model: keras.Model):
        self.job, self.model, self.kind = job, model, _kind(model)
        self.data = jax.device_put(job.train.arrays)
        self.held_out = None if job.held_out is None else jax.device_put(job.held_out.arrays)
        self._stack = jax.jit(lambda states: jax.tree.map(lambda *values: jnp.stack(values), *states))
        self._part = jax.jit(lambda state, i: jax.tree.map(lambda values: values[i], state))
        self._epoch = jax.jit(jax.vmap(self._train, in_axes=(0, 0, None, None)), donate_argnums=0)
        self._evaluate = jax.jit(jax.vmap(self._test, in_axes=(0, None)), donate_argnums=0)
        self._compiled: dict[int, Any] = {}

    def _train(self, state, order, kinds, data):
        step = self.model.train_step
        return _through(lambda state, batch: step(state, batch)[1], state, order, kinds, data, self.job.train)

    def _test(self, state, data):
        trainable, others, optimizer, metrics = state
        held_out = self.job.held_out
        assert held_out is not None

        drawn = find_posteriors(self.model) if validates_draws(self.model) else []

        def step(state, batch):
            with scope.drawing(drawn):
                return self.model.test_step(state, batch)[1]

        order, kinds = jnp.arange(len(held_out)), held_out.kinds(0)
        trainable, others, metrics = _through(step, (trainable, others, metrics), order, kinds, data, held_out)
        return trainable, others, optimizer, metrics

    def fits(self, members: list[Member]) -> bool:
        """Returns whether this many members fit the memory; raises where their networks differ."""
        for member in members:
            if _kind(member.model) != self.kind:
                raise ValueError(
                    f"fit_many needs build() to make the same network for every member; got another one for member "
                    f"{member.number}, seed {member.seed}. Pass together=1 to train different ones one after another."
                )
        size = len(members)
        if size not in self._compiled:
            state, order = jax.eval_shape(self._stack, [m.values for m in members]), self._orders(members, 0)
            with step_watch.watching() as watch:
                lowered = self._epoch.lower(state, order, self.job.train.kinds(0), self.data)
            error = wrong_step_error(self.model, watch)
            if error is not None:
                raise error
            self._compiled[size] = lowered.compile()
        needs = self._compiled[size].memory_analysis()
        free = free_bytes()
        limit = _CPU_BYTES if free is None else int(_ACCELERATOR_SHARE * free)
        return needs.temp_size_in_bytes + 2 * needs.argument_size_in_bytes < limit

    def _orders(self, members, epoch):
        return np.stack([self.job.train.order(member.number, member.seed, epoch) for member in members])

    def train(self, members: list[Member]) -> None:
        """Trains the members; one that has stopped goes along, and keeps what it had."""
        for epoch in track(self.job.epochs, len(self.job.epochs), f"epochs of {len(members)} members"):
            live = [member for member in members if not member.model.stop_training]
            if not live:
                break
            for member in live:
                member.model.reset_metrics()
                member.callbacks.on_epoch_begin(epoch)
                member.logs = {}
            batches = self._orders(members, epoch), self.job.train.kinds(epoch)
            self._run(members, lambda state: self._compiled[len(members)](state, *batches, self.data))  # noqa: B023
            for member in live:
                member.take_logs()
            if self.held_out is not None:
                self._validate(members, live)
            for member in live:
                member.callbacks.on_epoch_end(epoch, member.logs)
        for member in members:
            member.end()

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


def _through(step, state, order, kinds, data, examples: Examples):
    """Returns the state after a step on every batch; the last may be smaller, as in `fit`.

    The kind of a batch, how many columns it has, is one number for all members: so `switch` stays a branch under vmap,
    where with a number for each it would become a choice among the results of all branches.
    """
    size, whole = examples.batch_size, len(examples) // examples.batch_size
    steps = [lambda state, ids, c=c: step(state, examples.take(ids, c, data)) for c in examples.columns]

    def on(state, batch):
        kind, ids = batch
        return jax.lax.switch(kind, steps, state, ids), None

    if whole:
        state, _ = jax.lax.scan(on, state, (kinds[:whole], order[: whole * size].reshape(whole, size)))
    return steps[-1](state, order[whole * size :]) if len(examples) % size else state


def _kind(model: keras.Model) -> list:
    return [kind_of(model), optimizer_kind(model.optimizer)]


def _refuse_batch_hooks(callbacks) -> None:
    for callback in callbacks:
        for hook in _BATCH_HOOKS:
            if getattr(type(callback), hook) is not getattr(keras.callbacks.Callback, hook) or hook in vars(callback):
                raise ValueError(
                    f"fit_many runs an epoch as one program, where nothing is called at a batch; got "
                    f"{type(callback).__name__} with {hook}. Pass together=1 to train one after another."
                )
