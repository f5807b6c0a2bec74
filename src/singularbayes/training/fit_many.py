"""Training many networks of one architecture: as one program on JAX, else one after another.

A member is its seed, and what `build`, `callbacks` and `rows` give its number. The seed is set, the network is built,
and the order of the examples in epoch e is a hash of (seed, e): so a member does not depend on the others, nor on how
many of them train together, nor on the backend's way of shuffling. Sequences of like length may share a batch.
"""

import contextlib
import inspect
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace

import keras

from singularbayes.checks import require_integer
from singularbayes.likelihoods import require_activations, require_labels
from singularbayes.models import batches_of, require_any_length, track
from singularbayes.training.data_size import state_size
from singularbayes.training.member_examples import (
    Examples,
    ShuffledExamples,
    by_length,
    read_examples,
    read_held_out,
    rows_of_members,
    without_padding,
)

Callbacks = Callable[..., list[keras.callbacks.Callback]]


def fit_many(
    build: Callable[..., keras.Model],
    x,
    y,
    seeds: Sequence[int],
    epochs: int,
    batch_size: int = 32,
    *,
    callbacks: Callbacks | None = None,
    validation_data: tuple | None = None,
    sample_weight=None,
    rows=None,
    padding: int | None = None,
    together: int | None = None,
    initial_epoch: int = 0,
) -> list[keras.callbacks.History]:
    """Returns one Keras history per seed, in order: `.model` is the trained model, `.history` what was logged.

    On JAX all members train as one vectorised program that runs an epoch at a time with the data on the device, or in
    groups where they do not fit its memory; elsewhere, and under a `keras.distribution`, one after another. Either way
    a member is what it would be alone: its seed is set with `keras.utils.set_random_seed`, then `build` is called, and
    Keras trains it. A class weight is a `sample_weight`, such as `np.where(y == 1, 12.0, 1.0)`. Under a distribution
    whose devices do not divide every batch, the last one too, each device computes whole batches.

    Args:
        build: makes a new compiled model; arguments `seed` and `member`, where it has them, are the seed of the member
            and its number, the place of the seed. All members have the same network, because one program serves them
            all. Their own are weights and noise, and what is a variable: the learning rate of the optimizer.
        seeds: one a member, of its weights, noise and order of examples. Members with the same seed see the same
            batches.
        x: data of every kind that `predict` takes. They are in memory during training, so all batches of a stream are
            read first: `fit_many(build, dataset, None, …)` for batches (x, y) or (x, y, sample_weight).
        callbacks: makes the callbacks of one member, for example
            `lambda: [sb.KLSchedule(), sb.EarlyStopping(patience=5)]`. Each member has its own and can stop early. A
            program calls those of epochs, and refuses those of batches. With an argument `member`, the number, members
            may differ in β, warm-up, learning rates and the rule by which they stop.
        validation_data: (x, y) or (x, y, sample_weight), or such batches, evaluated after every epoch.
        rows: which examples each member sees, row numbers (members, examples), for folds or a bootstrap; None is all.
        padding: the id that fills up sequences of token ids (examples, length). Batches then have sequences of like
            length, at most three lengths in all, and the columns that are padding alone are cut off, which saves the
            work on them. The model must take any length and ignore padding (`mask_zero=True`); targets are one per
            sequence. On TensorFlow the batches are the same, but nothing is cut.
        together: how many members are one program, at most; 1 trains them one after another by plain `fit`.
        initial_epoch: the epoch to begin with, for training that resumes.

    >>> import keras, numpy as np
    >>> x = np.linspace(-1, 1, 20)[:, None]
    >>> def build():
    ...     model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    ...     model.compile(keras.optimizers.SGD(0.1), "mse")
    ...     return model
    >>> runs = fit_many(build, x, 3 * x, seeds=range(4), epochs=50)
    >>> len(runs), all(run.history["loss"][-1] < 0.01 for run in runs)
    (4, True)
    """
    if isinstance(build, keras.Model) or not callable(build):
        raise TypeError(f"fit_many needs build, a function that makes a compiled model; got {type(build).__name__}.")
    if not isinstance(seeds, Iterable):
        raise TypeError(f"fit_many needs seeds, such as range(3); got seeds={seeds!r}.")
    seeds = list(seeds)
    for seed in seeds:
        require_integer("fit_many", 0, seed=seed)
    seeds = [int(seed) for seed in seeds]
    if not seeds:
        raise ValueError("fit_many needs one or more seeds; got none.")
    require_integer("fit_many", epochs=epochs, batch_size=batch_size)
    require_integer("fit_many", 0, initial_epoch=initial_epoch)
    train = read_examples("fit_many", x, y, sample_weight, int(batch_size))
    held_out = None if validation_data is None else read_held_out(validation_data, batch_size)
    if rows is not None:
        train = replace(train, rows=rows_of_members(rows, len(seeds), len(train), padding))
    if padding is not None:
        train, held_out = by_length(train, padding), None if held_out is None else without_padding(held_out, padding)
    if together is not None:
        require_integer("fit_many", together=together)
    data = {"x, y": train} if held_out is None else {"x, y": train, "validation_data": held_out}
    job = Job(
        _Builds(build, data, padding is not None),
        callbacks_factory(callbacks),
        train,
        held_out,
        range(initial_epoch, epochs),
    )
    # A program over members would need every array of theirs on every device.
    if keras.backend.backend() != "jax" or together == 1 or keras.distribution.distribution() is not None:
        return job.one_after_another(list(enumerate(seeds)))
    from singularbayes.training.vectorized_fit import train_together

    return train_together(job, list(enumerate(seeds)), together or len(seeds))


def given(make: Callable, **arguments):
    """Calls a function with those of the arguments that it has."""
    known = inspect.signature(make).parameters
    return make(**{name: value for name, value in arguments.items() if name in known})


class _Builds:
    """Calls `build` for a seed, and refuses what is not a new compiled model, or one that the data do not fit.

    Args:
        data: what all members train on and are validated on, by its name in errors.
        any_length: the model must take sequences of any length.
    """

    def __init__(self, build, data: "dict[str, Examples]", any_length: bool = False):
        self.build, self.data, self.any_length = build, data, any_length
        self.models: weakref.WeakSet = weakref.WeakSet()

    def __call__(self, member: int, seed: int) -> keras.Model:
        keras.utils.set_random_seed(seed)
        model = given(self.build, seed=seed, member=member)
        if not isinstance(model, keras.Model) or not model.compiled or model.optimizer is None:
            raise ValueError(f"fit_many needs build() to return a compiled keras.Model; got {model!r}.")
        if model in self.models:
            raise ValueError(
                f"fit_many needs build() to make a new model each time; got {model.name!r} twice. Build the network "
                "inside the function."
            )
        if self.any_length:
            require_any_length(model)
        if not self.models:  # all members have the same network
            require_activations(model)
            for name, data in self.data.items():
                require_labels(f"fit_many({name})", model, data.y, data.weight)
        self.models.add(model)
        return model


@dataclass(frozen=True)
class Job:
    """What every member is given."""

    build: _Builds
    make_callbacks: Callbacks
    train: Examples
    held_out: Examples | None
    epochs: range

    def callbacks(self, member: int) -> list[keras.callbacks.Callback]:
        return given(self.make_callbacks, member=member)

    def one_after_another(self, members: Sequence[tuple[int, int]]) -> list[keras.callbacks.History]:
        """Returns the history of every member (number, seed), each trained by plain Keras."""
        total = len(members) * len(self.epochs)
        bar = track(range(total), total, f"epochs of {len(members)} members")
        parts = [part for part in (self.train, self.held_out) if part is not None]
        sizes = {size for part in parts for size in (self.train.batch_size, len(part) % self.train.batch_size)}
        with contextlib.closing(bar), batches_of(*sizes):
            return [self._alone(*member, bar) for member in members]

    def _alone(self, member: int, seed: int, bar: Generator) -> keras.callbacks.History:
        model = self.build(member, seed)
        data = ShuffledExamples(self.train, member, seed, self.epochs.start)

        def begin(epoch, logs):
            next(bar)
            data.turn(epoch)

        turn = keras.callbacks.LambdaCallback(on_epoch_begin=begin)
        validation = None if self.held_out is None else self.held_out.arrays
        with state_size(model, self.train.size):
            return model.fit(
                data,
                epochs=self.epochs.stop,
                initial_epoch=self.epochs.start,
                callbacks=[turn, *self.callbacks(member)],
                validation_data=validation,
                validation_batch_size=self.train.batch_size,
                shuffle=False,
                verbose=0,
            )


def callbacks_factory(callbacks) -> Callbacks:
    """Returns what makes the callbacks of one member; raises for a list, whose callbacks members would share."""
    if callbacks is None:
        return list
    if not callable(callbacks):
        raise ValueError(
            "fit_many needs callbacks to be a function, because each member has its own; got a "
            f"{type(callbacks).__name__}. Write callbacks=lambda: [...]."
        )
    return callbacks
