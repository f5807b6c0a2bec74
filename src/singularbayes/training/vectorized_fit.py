"""Many members as one JAX program: `vmap` over members of Keras's own step, one `scan` per epoch."""

from functools import partial
from typing import Any

import jax
import keras
import numpy as np
from jax import numpy as jnp

from singularbayes.models.programs import kind_of, program_of, variable_values
from singularbayes.training.elbo import kl
from singularbayes.training.every_component import drawing_validation
from singularbayes.training.fit_many import Job, take
from singularbayes.training.kl_schedule import KLWeightCallback

_BATCH_HOOKS = ("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end")


class _Member:
    """One model with its callbacks, set up as `fit` does it."""

    def __init__(self, job: Job, number: int, seed: int):
        self.number, self.seed, self.model = number, seed, job.build(number, seed)
        x, y, *_ = take(job.train.arrays, np.arange(min(job.batch_size, len(job.train))))
        self.model.fit(x, y, epochs=0, verbose=0)  # makes the weights of metrics and optimizer
        callbacks = job.callbacks(number)
        _refuse_batch_hooks(callbacks)
        params = {"epochs": job.epochs, "steps": job.steps, "verbose": 0}
        self.callbacks = keras.callbacks.CallbackList(callbacks, add_history=True, model=self.model, **params)
        self.weigh = [callback for callback in callbacks if isinstance(callback, KLWeightCallback)]
        self.logs: dict[str, Any] = {}
        self.model.stop_training = False
        self.callbacks.on_train_begin()

    @property
    def variables(self) -> tuple:
        """What a step takes and gives: trainable, other, the optimizer's and the metrics' variables."""
        model = self.model
        others = model.non_trainable_variables, model.optimizer.variables, model.metrics_variables
        return model.trainable_variables, *others

    def take_logs(self, prefix: str = "") -> None:
        """Keeps the results of the metrics for the end of the epoch."""
        results = self.model.get_metrics_result()
        self.logs.update({f"{prefix}{name}": np.asarray(value).tolist() for name, value in results.items()})


def train_together(job: Job, wanted: list[tuple[int, int]]) -> list[keras.callbacks.History]:
    """Returns the history of every member (number, seed). One that has stopped goes along, and keeps what it had."""
    members = [_Member(job, *member) for member in wanted]
    model = members[0].model
    _require_same_kind(members)
    for callback in (callback for member in members for callback in member.weigh):  # one program of the KL for all
        callback.kl_of = lambda other: program_of(model, kl)(variable_values(other))
    data, held_out = (None if part is None else jax.device_put(part.arrays) for part in (job.train, job.held_out))
    train = jax.jit(jax.vmap(partial(_through, job, model.train_step), in_axes=(0, 0, None)), donate_argnums=0)
    test = jax.jit(jax.vmap(partial(_validate, job, model), in_axes=(0, None)), donate_argnums=0)
    stack = jax.jit(lambda states: jax.tree.map(lambda *values: jnp.stack(values), *states))
    part = jax.jit(lambda state, i: jax.tree.map(lambda values: values[i], state))

    def run(function, *arguments):
        states = [tuple([variable.value for variable in group] for group in member.variables) for member in members]
        state = function(stack(states), *arguments)
        for i, member in enumerate(members):
            if not member.model.stop_training:
                pairs = zip(keras.tree.flatten(member.variables), jax.tree.leaves(part(state, i)), strict=True)
                for variable, value in pairs:
                    variable.assign(value)

    for epoch in range(job.epochs):
        live = [member for member in members if not member.model.stop_training]
        if not live:
            break
        for member in live:
            member.model.reset_metrics()
            member.callbacks.on_epoch_begin(epoch)
            member.logs = {}
        run(train, np.stack([job.train.order(member.number, member.seed, epoch) for member in members]), data)
        for member in live:
            member.take_logs()
            if held_out is not None:
                member.callbacks.on_test_begin()
                member.model.reset_metrics()
        if held_out is not None:
            run(test, held_out)
        for member in live:
            if held_out is not None:
                member.take_logs("val_")
                member.callbacks.on_test_end(member.logs)
            member.callbacks.on_epoch_end(epoch, member.logs)
    for member in members:
        member.model.optimizer.finalize_variable_values(member.model.trainable_weights)
        member.callbacks.on_train_end(member.logs)
    return [member.model.history for member in members]


def _validate(job: Job, model: keras.Model, state, data):
    trainable, others, optimizer, metrics = state
    order = jnp.arange(len(keras.tree.flatten(data)[0]))
    with drawing_validation(model):
        trainable, others, metrics = _through(job, model.test_step, (trainable, others, metrics), order, data)
    return trainable, others, optimizer, metrics


def _through(job: Job, step, state, order, data):
    """Returns the state after a step on every batch; the last may be smaller, as in `fit`."""
    whole = len(order) // job.batch_size * job.batch_size
    batches = order[:whole].reshape(-1, job.batch_size)
    state, _ = jax.lax.scan(lambda state, ids: (step(state, take(data, ids))[1], None), state, batches)
    return step(state, take(data, order[whole:]))[1] if len(order) > whole else state


def _require_same_kind(members: list[_Member]) -> None:
    kind = kind_of(members[0].model)
    for member in members:
        if kind_of(member.model) != kind:
            raise ValueError(
                f"fit_many needs build() to make the same network for every member; got another one for member "
                f"{member.number}, seed {member.seed}. Pass together=1 to train different ones one after another."
            )


def _refuse_batch_hooks(callbacks) -> None:
    for callback in callbacks:
        plain = type(callback), keras.callbacks.Callback
        own = [hook for hook in _BATCH_HOOKS if hook in vars(callback) or len({getattr(c, hook) for c in plain}) > 1]
        if own and not isinstance(callback, KLWeightCallback):
            raise ValueError(
                f"fit_many runs an epoch as one program, where nothing is called at a batch; got "
                f"{type(callback).__name__} with {own[0]}. Pass together=1 to train one after another."
            )
