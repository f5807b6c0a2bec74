"""Training many networks of one architecture: as one program on JAX, else one after another.

A member is its seed, and what `build`, `callbacks` and `rows` give its number. The seed is set, the network is built,
and the order of the examples in epoch e is a hash of (seed, e): so a member does not depend on the others, nor on how
many of them train together, nor on the backend's way of shuffling.
"""

import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from singularbayes.checks import require_integer
from singularbayes.likelihoods import require_activations, require_labels
from singularbayes.models.data import as_arrays, collected, common_length
from singularbayes.training.kl_schedule import KLWeightCallback

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
    together: int | None = None,
) -> list[keras.callbacks.History]:
    """Returns one Keras history per seed, in order: `.model` is the trained model, `.history` what was logged.

    On JAX all members train as one vectorised program that runs an epoch at a time with the data on the device;
    elsewhere, and under a `keras.distribution`, one after another. Either way a member is what it would be alone: its
    seed is set with `keras.utils.set_random_seed`, then `build` is called, and Keras trains it. A class weight is a
    `sample_weight`, such as `np.where(y == 1, 12.0, 1.0)`.

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
        together: how many members are one program, at most, where the memory does not hold all; 1 trains them one after
            another by plain `fit`.

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
    if not seeds:
        raise ValueError("fit_many needs one or more seeds; got none.")
    for seed in seeds:
        require_integer("fit_many", 0, seed=seed)
    require_integer("fit_many", epochs=epochs, batch_size=batch_size, together=1 if together is None else together)
    train = read_examples("fit_many", x, y, sample_weight, rows, len(seeds))
    held_out = None
    if validation_data is not None:
        parts = validation_data if isinstance(validation_data, (tuple, list)) else [validation_data]
        held_out = read_examples("fit_many(validation_data)", *(*parts, None, None)[:3])
    job = Job(build, callbacks_factory(callbacks), train, held_out, int(batch_size), int(epochs))
    members = [(number, int(seed)) for number, seed in enumerate(seeds)]
    # A program over members would need every array of theirs on every device.
    if keras.backend.backend() != "jax" or together == 1 or keras.distribution.distribution() is not None:
        return [job.fit_alone(*member) for member in members]
    from singularbayes.training.vectorized_fit import train_together

    size = together or len(members)
    groups = [members[start : start + size] for start in range(0, len(members), size)]
    return [history for group in groups for history in train_together(job, group)]


@dataclass(frozen=True)
class Examples:
    """Arrays with the examples on the first axis: inputs (one array or several), targets, and weights if there are.

    With `rows` each member, by its number, sees some of the examples, as many as any other.
    """

    x: Any
    y: Any
    weight: np.ndarray | None = None
    rows: np.ndarray | None = None

    @property
    def arrays(self) -> tuple:
        return (self.x, self.y) if self.weight is None else (self.x, self.y, self.weight)

    def __len__(self) -> int:
        """How many examples a member sees in an epoch."""
        return len(keras.tree.flatten(self.x)[0] if self.rows is None else self.rows[0])

    def order(self, member: int, seed: int, epoch: int) -> np.ndarray:
        """Returns the order in which a member with that seed sees the examples in an epoch."""
        order = np.random.default_rng([seed, epoch]).permutation(len(self)).astype("int32")
        return order if self.rows is None else self.rows[member][order]


def take(arrays: tuple, ids) -> tuple:
    """Returns the batch of these examples, of arrays here or of copies on a device."""
    return keras.tree.map_structure(lambda array: array[ids], arrays)


@dataclass(frozen=True)
class Job:
    """What every member is given."""

    make_model: Callable[..., keras.Model]
    make_callbacks: Callbacks
    train: Examples
    held_out: Examples | None
    batch_size: int
    epochs: int
    models: weakref.WeakSet = field(default_factory=weakref.WeakSet)  # that were built

    @property
    def steps(self) -> int:
        return -(-len(self.train) // self.batch_size)

    def build(self, member: int, seed: int) -> keras.Model:
        """Returns the new model of a member; refuses what is none, or one that the data do not fit."""
        keras.utils.set_random_seed(seed)
        model = given(self.make_model, seed=seed, member=member)
        if not isinstance(model, keras.Model) or not model.compiled or model.optimizer is None:
            raise ValueError(f"fit_many needs build() to return a compiled keras.Model; got {model!r}.")
        if model in self.models:
            raise ValueError(
                f"fit_many needs build() to make a new model each time; got {model.name!r} twice. Build the network "
                "inside the function."
            )
        if not self.models:  # all members have the same network
            require_activations(model)
            for name, data in {"x, y": self.train, "validation_data": self.held_out}.items():
                if data is not None:
                    require_labels(f"fit_many({name})", model, data.y, data.weight)
        self.models.add(model)
        return model

    def callbacks(self, member: int) -> list[keras.callbacks.Callback]:
        """Returns the callbacks of a member, which know the number of its examples."""
        callbacks = given(self.make_callbacks, member=member)
        for callback in callbacks:
            if isinstance(callback, KLWeightCallback):
                callback.know(len(self.train))
        return callbacks

    def fit_alone(self, member: int, seed: int) -> keras.callbacks.History:
        """Returns the history of one member, trained by plain Keras."""
        model = self.build(member, seed)
        data = _ShuffledExamples(self, member, seed)
        return model.fit(
            data,
            epochs=self.epochs,
            callbacks=[keras.callbacks.LambdaCallback(on_epoch_begin=data.turn), *self.callbacks(member)],
            validation_data=None if self.held_out is None else self.held_out.arrays,
            validation_batch_size=self.batch_size,
            shuffle=False,
            verbose=0,
        )


class _ShuffledExamples(keras.utils.PyDataset):
    """The examples in the order of one member's epoch, batch by batch."""

    def __init__(self, job: Job, member: int, seed: int):
        super().__init__()
        self.job, self.member, self.seed = job, member, seed
        self.turn(0)  # Keras fetches batches before the first epoch begins

    def turn(self, epoch: int, logs=None) -> None:
        self.ids = self.job.train.order(self.member, self.seed, epoch)

    @property
    def num_batches(self):
        return self.job.steps

    def __getitem__(self, index):
        size = self.job.batch_size
        return take(self.job.train.arrays, self.ids[index * size : (index + 1) * size])


def given(make: Callable, **arguments):
    """Calls a function with those of the arguments that it has."""
    known = inspect.signature(make).parameters
    return make(**{name: value for name, value in arguments.items() if name in known})


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


def read_examples(name: str, x, y=None, weight=None, rows=None, members: int = 0) -> Examples:
    """Returns arrays that are fit to train on; raises where they are not. Errors call them `name`."""
    x, y, weight = collected(x, y, weight, name)
    if y is None:
        raise ValueError(f"{name} needs targets, (x, y) or batches of both; got y=None.")
    # A pipeline of TensorFlow takes a list for an array.
    x, y = (tuple(part) if isinstance(part, list) else part for part in (x, y))
    total = common_length(name, x, y, weight)
    named = {"x": x, "y": y} if weight is None else {"x": x, "y": y, "sample_weight": weight}
    with_nan = [part for part, arrays in named.items() if any(map(_has_nan, keras.tree.flatten(arrays)))]
    if with_nan:
        raise ValueError(f"{name} needs {' and '.join(named)} without NaN; got NaN in {' and '.join(with_nan)}.")
    table = None if rows is None else as_arrays(rows, "fit_many(rows)")
    if table is not None and (table.ndim != 2 or len(table) != members or table.dtype.kind not in "iu"):
        raise ValueError(
            f"{name} needs rows, integers (members, examples), here ({members}, …); got {table.dtype} {table.shape}."
        )
    if table is not None and (table.min(initial=0) < 0 or table.max(initial=0) >= total):
        raise ValueError(f"{name} needs rows from 0 to {total - 1}; got {table.min()} to {table.max()}.")
    x, y = keras.tree.map_structure(_numbers, (x, y))
    return Examples(x, y, None if weight is None else _numbers(weight), table)


def _has_nan(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _numbers(array: np.ndarray) -> np.ndarray:
    return array.astype(keras.config.floatx()) if array.dtype.kind == "f" else array
