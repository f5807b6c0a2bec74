"""Training one network on some rows of the data, and its predictions."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from singularbayes.estimators.network import Network
from singularbayes.estimators.trainer import Batches, one_thread_if_small, trainer_of
from singularbayes.models.progress import quiet
from singularbayes.prediction import ClassPredictive, Predictive, ValuePredictive, predict
from singularbayes.training import set_kl

_CALL_STEPS = 256  # of a call of the trainer, where nothing happens between epochs
_BLOCKS = (128, 1024)  # rows of a prediction: programs of two sizes serve any number of rows


class Diverged(ValueError):
    """Training ended in a loss that is not finite."""


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
        warm_up: share of the steps in which the learning rate rises to `rate`. Products of factors move fast where
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

    def rates(self, first: int, count: int, total: int) -> np.ndarray:
        """Returns the learning rates of `count` steps of `total`: constant, or a cosine that falls to 0.

        >>> recipe = Recipe(1, 1, 1.0, True, 1.0, True, 0.0, 1, False, warm_up=0.25)
        >>> recipe.rates(0, 8, 8).round(2).tolist()
        [0.5, 0.96, 0.85, 0.69, 0.5, 0.31, 0.15, 0.04]
        """
        step = np.arange(first, first + count)
        factor = (1 + np.cos(np.pi * step / total)) / 2 if self.cosine else np.ones(count)
        rising = np.minimum(1.0, (step + 1) / max(1.0, self.warm_up * total))
        return (self.rate * factor * rising).astype("float32")


@dataclass
class Member:
    """A trained network, the values of its optimizer, and how training went.

    Attributes:
        failed: (components,), whose training failed, so that they are copies of others; None where not requested.
    """

    network: Network
    optimizer: list[np.ndarray]
    losses: list[float]
    scores: list[float]
    failed: np.ndarray | None = None


def train(
    network: Network, optimizer, data: Data, recipe: Recipe, seed: int, watch=None, used: np.ndarray | None = None
) -> Member:
    """Returns the network trained on all rows of the data.

    Args:
        optimizer: values of the optimizer to resume from; None starts a new one.
        used: (rows, components), which rows train which component of the network's mixture; None is all.
        watch: scores the network on held-out rows, higher is better; then training stops early and the best epoch wins.
    """
    rng = np.random.default_rng([seed, 2])
    total, count = float(data.weight.sum()), len(data)
    uses, share = np.ones((count, network.copies), "float32"), 1.0
    if used is not None:
        shares = data.weight @ used / total  # of the rows of each component
        uses, share = (used / shares).astype("float32"), float(shares.mean())
    set_kl(network.model, recipe.num_data or share * total, recipe.beta)
    trainer = trainer_of(network)
    state = trainer.start(network.model, optimizer)
    x, y, uses = (trainer.prepare(array) for array in (data.x, network.targets(data.y), uses))
    weights, steps = data.weight * (count / total), math.ceil(count / recipe.batch_size)
    together = 1 if watch or recipe.verbose else max(1, _CALL_STEPS // steps)  # epochs of a call
    losses: list[float] = []
    scores: list[float] = []
    best = state
    for first in range(0, recipe.epochs, together):
        epochs = min(together, recipe.epochs - first)
        batches = Batches.of_epochs(epochs, weights, recipe.batch_size, rng, recipe.shuffle)
        rates = recipe.rates(first * steps, epochs * steps, recipe.epochs * steps)
        values = trainer.run(state, x, y, uses, batches, rates).reshape(epochs, steps).mean(axis=1)
        if not np.isfinite(values).all():
            fix = f"learning_rate_init={recipe.rate}" if network.sets_rate else "the optimizer's learning rate"
            raise Diverged(f"Training diverged: the loss is not finite by epoch {first + epochs}. Lower {fix}.")
        losses += values.tolist()
        if recipe.verbose:
            print(f"Iteration {len(losses)}, loss = {losses[-1]:.8f}")
        if watch is None:
            continue
        trainer.finish(state, network.model)
        scores.append(watch(network))
        if recipe.verbose:
            print(f"Validation score: {scores[-1]:.6f}")
        if scores[-1] == max(scores):
            best = replace(state)
        before = scores[: -recipe.patience]
        if before and max(scores[-recipe.patience :]) < max(before) + recipe.tol:
            break
    return Member(network, trainer.finish(best if scores else state, network.model), losses, scores)


def draw(network: Network, x: np.ndarray, draws: int, seed: int, keep_draws: bool = False) -> Predictive:
    """Returns what draws of a network predict for standardised features; a row's prediction depends on it alone."""
    return _first(_predicted(network, x, draws, seed, network.likelihood, keep_draws), len(x))


def draw_outputs(network: Network, x: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Returns the outputs of every draw, (draws, rows, outputs), whatever they mean."""
    outputs = _predicted(network, x, draws, seed, "gaussian", True).draws
    assert outputs is not None
    return outputs.reshape(len(outputs), outputs.shape[1], -1)[:, : len(x)]


def _predicted(network: Network, x: np.ndarray, draws: int, seed: int, likelihood, keep_draws: bool) -> Predictive:
    """Returns predictions of rows that are filled up to whole blocks."""
    block = _BLOCKS[len(x) > _BLOCKS[-1]]
    missing = -len(x) % block
    padded = np.concatenate([x, np.zeros((missing, x.shape[1]), x.dtype)])
    options: dict[str, Any] = {"likelihood": likelihood, "batch_size": block, "keep_draws": keep_draws}
    with quiet(), one_thread_if_small(network.model, block):
        return predict(network.model, padded, draws, seed, **options)


def _first(p: Predictive, rows: int) -> Predictive:
    """Returns the predictions of the first rows; of regression (rows, outputs) also for one output."""
    if isinstance(p, ClassPredictive):
        draws = None if p.draws is None else p.draws[:, :rows]
        return replace(p, mean=p.mean[:rows], std=p.std[:rows], expected_entropy=None, draws=draws)
    assert isinstance(p, ValuePredictive) and p.noise is not None
    wide = (len(p), -1)
    mean = p.mean.reshape(wide)
    noise = np.broadcast_to(np.reshape(p.noise, wide if np.ndim(p.noise) else ()), mean.shape)
    draws = None if p.draws is None else p.draws.reshape(len(p.draws), *mean.shape)[:, :rows]
    return replace(p, mean=mean[:rows], std=p.std.reshape(wide)[:rows], noise=noise[:rows], draws=draws)
