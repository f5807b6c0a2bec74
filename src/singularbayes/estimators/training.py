"""Training one network with `fit` on some rows of the data, and its predictions."""

import math
import random
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np

from singularbayes.estimators.network import Network
from singularbayes.models.progress import quiet
from singularbayes.prediction import ClassPredictive, Predictive, ValuePredictive, predict
from singularbayes.training import set_kl

_BLOCKS = (128, 1024)  # rows of a prediction: programs of two sizes serve any number of rows
LOCK = threading.RLock()  # networks share models, and Keras builds in one thread at a time


@dataclass(frozen=True)
class Data:
    """Standardised features, labels or standardised targets, and weights; rows are the first axis."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray

    def __len__(self) -> int:
        return len(self.x)

    def rows(self, rows: np.ndarray) -> "Data":
        return Data(self.x[rows], self.y[rows], self.weight[rows])

    def followed_by(self, other: "Data") -> "Data":
        return Data(*(np.concatenate([a, b]) for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class Recipe:
    """How a network is trained; the arguments of the estimators.

    Attributes:
        num_data: the number of examples that the KL is weighed by; None is the sum of the weights.
        warm_up: share of the epochs in which the learning rate rises to `rate`. Products of factors move fast where
            features repeat each other; at once at full rate, units of a component can end at 0 for all rows.
    """

    epochs: int
    batch_size: int
    rate: float
    cosine: bool
    beta: float
    shuffle: bool
    tol: float
    patience: int
    verbose: bool
    num_data: float | None = None
    warm_up: float = 0.0

    def rate_of(self, epoch: int) -> float:
        """Returns the learning rate of an epoch: constant, or a cosine that falls to 0.

        >>> recipe = Recipe(8, 1, 1.0, True, 1.0, True, 0.0, 1, False, warm_up=0.25)
        >>> [round(recipe.rate_of(epoch), 2) for epoch in range(8)]
        [0.25, 0.69, 0.78, 0.6, 0.4, 0.22, 0.08, 0.01]
        """
        share = (epoch + 0.5) / self.epochs
        factor = (1 + math.cos(math.pi * share)) / 2 if self.cosine else 1.0
        return self.rate * factor * min(1.0, share / self.warm_up if self.warm_up else 1.0)


class Batches(keras.utils.PyDataset):
    """The fewest batches of at most `size` rows, of like size, so that no step sees a few rows alone.

    They are filled up with rows of weight 0 to one of eight sizes, so that few programs are compiled.
    """

    def __init__(self, x: np.ndarray, y: np.ndarray, weight: np.ndarray, size: int, shuffle: bool, seed: int):
        super().__init__()
        self.arrays, self.steps = (x, y, weight), math.ceil(len(x) / size)
        unit = math.ceil(size / 8)
        self.size = unit * math.ceil(len(x) / self.steps / unit)
        self.shuffle, self.rng = shuffle, np.random.default_rng([seed, 2])
        self.on_epoch_end()

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, index: int):
        rows = self.parts[index]
        x, y, weight = (array[np.resize(rows, self.size)] for array in self.arrays)
        # A loss divides by the size of the batch, padding included.
        return x, y, (weight * (np.arange(self.size) < len(rows)) * (self.size / len(rows))).astype("float32")

    def on_epoch_end(self):
        rows = len(self.arrays[0])
        self.parts = np.array_split(self.rng.permutation(rows) if self.shuffle else np.arange(rows), self.steps)


class _Course(keras.callbacks.Callback):
    """Sets learning rates, records losses, and, where a `watch` scores the network, stops early at its best."""

    def __init__(self, network: Network, recipe: Recipe, watch: Callable[[Network], float] | None):
        super().__init__()
        self.network, self.recipe, self.watch = network, recipe, watch
        self.losses: list[float] = []
        self.scores: list[float] = []
        self.best: tuple = ()

    def on_epoch_begin(self, epoch, logs=None):
        if self.network.sets_rate:
            self.model.optimizer.learning_rate = self.recipe.rate_of(epoch)

    def on_epoch_end(self, epoch, logs=None):
        network, recipe, loss = self.network, self.recipe, float(logs["loss"])
        if not math.isfinite(loss):
            fix = f"learning_rate_init={recipe.rate}" if network.sets_rate else "the optimizer's learning rate"
            raise ValueError(f"Training diverged: the loss is not finite by epoch {epoch + 1}. Lower {fix}.")
        self.losses.append(loss)
        if recipe.verbose:
            print(f"Iteration {epoch + 1}, loss = {loss:.8f}")
        if self.watch is None:
            return
        network.take(self.model)
        score = self.watch(network)
        self.scores.append(score)
        if recipe.verbose:
            print(f"Validation score: {score:.6f}")
        if score == max(self.scores):
            self.best = network.values, network.optimizer
        before = self.scores[: -recipe.patience]
        self.model.stop_training = bool(before) and max(self.scores[-recipe.patience :]) < max(before) + recipe.tol


def train(
    network: Network, data: Data, recipe: Recipe, seed: int, watch=None, used: np.ndarray | None = None
) -> Network:
    """Trains a network on all rows of the data; returns it.

    Args:
        watch: scores the network on held-out rows, higher is better; then training stops early and the best epoch wins.
        used: (rows, components), which rows train which component of the network's mixture; None is all.
    """
    total, share = float(data.weight.sum()), 1.0
    if used is not None:
        shares = data.weight @ used / total  # of the rows of each component
        used, share = used / shares, float(shares.mean())
    model, course = network.model, _Course(network, recipe, watch)
    for variable, value in zip(model.optimizer.variables, network.optimizer, strict=True):
        variable.assign(value)
    set_kl(model, recipe.num_data or share * total, recipe.beta)
    weight = data.weight * (len(data) / total)
    batches = Batches(data.x, network.targets(data.y, used), weight, recipe.batch_size, recipe.shuffle, seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "__array__", DeprecationWarning)  # of NumPy, about Keras's own variables
        model.fit(batches, epochs=recipe.epochs, shuffle=False, verbose=0, callbacks=[course])
    network.take(model)
    if course.best:
        network.values, network.optimizer = course.best
    network.losses, network.scores = course.losses, course.scores
    return network


def draw(network: Network, x: np.ndarray, draws: int, seed: int, keep_draws: bool = False) -> Predictive:
    """Returns what draws of a network predict for standardised features; a row's prediction depends on it alone."""
    p, rows = _predicted(network, x, draws, seed, network.likelihood, keep_draws), len(x)
    if isinstance(p, ClassPredictive):
        kept = None if p.draws is None else p.draws[:, :rows]
        return replace(p, mean=p.mean[:rows], std=p.std[:rows], expected_entropy=None, draws=kept)
    assert isinstance(p, ValuePredictive) and p.noise is not None
    wide = (len(p), -1)  # (rows, outputs) also for one output
    mean = p.mean.reshape(wide)
    noise = np.broadcast_to(np.reshape(p.noise, wide if np.ndim(p.noise) else ()), mean.shape)
    kept = None if p.draws is None else p.draws.reshape(len(p.draws), *mean.shape)[:, :rows]
    return replace(p, mean=mean[:rows], std=p.std.reshape(wide)[:rows], noise=noise[:rows], draws=kept)


def draw_outputs(network: Network, x: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Returns the outputs of every draw, (draws, rows, outputs), whatever they mean."""
    outputs = _predicted(network, x, draws, seed, "gaussian", True).draws
    assert outputs is not None
    return outputs.reshape(len(outputs), outputs.shape[1], -1)[:, : len(x)]


def _predicted(network: Network, x: np.ndarray, draws: int, seed: int, likelihood, keep_draws: bool) -> Predictive:
    """Returns predictions of rows that are filled up to whole blocks."""
    block = _BLOCKS[len(x) > _BLOCKS[-1]]
    padded = np.concatenate([x, np.zeros((-len(x) % block, x.shape[1]), x.dtype)])
    options: dict[str, Any] = {"likelihood": likelihood, "batch_size": block, "keep_draws": keep_draws}
    with LOCK, quiet():
        return predict(network.model, padded, draws, seed, **options)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Makes the seeds that Keras takes for itself depend on `seed` alone; leaves the global generators as they were."""
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - a function of the user may take numbers from it
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)  # noqa: NPY002
