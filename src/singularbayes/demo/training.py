"""Training as every story does it: all seeds as one program, Adam with a cosine, and one line on the terminal."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from rich.console import Console

from singularbayes.baselines import DeepEnsemble
from singularbayes.prediction import Predictive, predict
from singularbayes.training import KLSchedule, fit_many

Part = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Training:
    """The settings of one training; the learning rate of Adam falls to 0 in a cosine."""

    epochs: int
    batch_size: int
    learning_rate: float

    def compiled(self, model: keras.Model, loss: Any, num_data: int) -> keras.Model:
        """Returns the model, compiled for this training."""
        steps = math.ceil(num_data / self.batch_size) * self.epochs
        model.compile(
            keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(self.learning_rate, steps)),
            loss,
        )
        return model


@dataclass
class Trainer:
    """Trains the networks of the demo, one method after another, every method with all seeds at once.

    Args:
        total: how many methods there are in all stories.
    """

    console: Console
    seeds: tuple[int, ...]
    total: int
    done: int = 0

    def fit(
        self,
        label: str,
        build: Callable[..., keras.Model],
        parts: Sequence[Part],
        training: Training,
        schedule: Callable[[], KLSchedule] | None = None,
    ) -> list[keras.Model]:
        """Returns the networks that `build` makes, compiled; the one of each seed is trained on its part of the data.

        Args:
            schedule: makes the KL schedule of a Bayesian network.
        """
        return self._fit(label, build, parts, training, self.seeds, schedule)

    def fit_ensembles(
        self, label: str, build: Callable[..., keras.Model], parts: Sequence[Part], training: Training, members: int
    ) -> list[DeepEnsemble]:
        """Returns the deep ensemble of every seed; its first member is the deterministic network of that seed."""
        seeds = [member for seed in self.seeds for member in DeepEnsemble(build, members, seed).seeds]
        repeated = [part for part in parts for _ in range(members)]
        models = self._fit(label, build, repeated, training, seeds)
        return [DeepEnsemble.from_models(models[i : i + members]) for i in range(0, len(models), members)]

    def _fit(self, label, build, parts, training, seeds, schedule=None) -> list[keras.Model]:
        start = time.perf_counter()
        examples = len(parts[0][0])  # the same for all
        histories = fit_many(
            build,
            np.concatenate([x for x, _ in parts]),
            np.concatenate([y for _, y in parts]),
            seeds,
            training.epochs,
            training.batch_size,
            callbacks=None if schedule is None else lambda: [schedule()],
            rows=np.arange(len(parts) * examples).reshape(len(parts), examples),
        )
        self.done += 1
        trained = f"{len(seeds)} networks, {training.epochs} epochs, {time.perf_counter() - start:.0f} s"
        self.console.print(f"{self.done}/{self.total} {label:<36} {trained}", highlight=False)
        return [history.model for history in histories]


def predicted(model, x: np.ndarray, draws: int, seed: int) -> Predictive:
    """Returns the predictions of a Keras model or of an ensemble."""
    return model.predict(x, draws, seed) if isinstance(model, DeepEnsemble) else predict(model, x, draws, seed)
