"""Training as every story does it: all seeds as one program, Adam with a cosine, and one line on the terminal."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

import singularbayes as sb

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
        model.compile(keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(self.learning_rate, steps)), loss)
        return model


@dataclass(frozen=True)
class Trainer:
    """Trains the networks of the demo, one method after another, every method with all seeds at once."""

    seeds: tuple[int, ...]

    def fit(
        self,
        label: str,
        build: Callable[..., keras.Model],
        parts: Sequence[Part],
        training: Training,
        schedule: Callable[[], keras.callbacks.Callback] | None = None,
    ) -> list[keras.Model]:
        """Returns the networks that `build` makes, compiled; the one of each seed is trained on its part of the data.

        Args:
            schedule: makes the KL schedule of a Bayesian network.
        """
        return self._fit(label, build, parts, training, self.seeds, schedule)

    def fit_ensembles(
        self, label: str, build: Callable[..., keras.Model], parts: Sequence[Part], training: Training, members: int
    ) -> list[sb.baselines.DeepEnsemble]:
        """Returns the deep ensemble of every seed; its first member is the deterministic network of that seed."""
        ensemble = sb.baselines.DeepEnsemble
        seeds = [member for seed in self.seeds for member in ensemble(build, members, seed).seeds]
        repeated = [part for part in parts for _ in range(members)]
        models = self._fit(label, build, repeated, training, seeds)
        return [ensemble.from_models(models[i : i + members]) for i in range(0, len(models), members)]

    def _fit(self, label, build, parts, training, seeds, schedule=None) -> list[keras.Model]:
        start, examples = time.perf_counter(), len(parts[0][0])
        histories = sb.fit_many(
            build,
            np.concatenate([x for x, _ in parts]),
            np.concatenate([y for _, y in parts]),
            seeds,
            training.epochs,
            training.batch_size,
            callbacks=None if schedule is None else lambda: [schedule()],
            rows=np.arange(len(parts) * examples).reshape(len(parts), examples),
        )
        print(f"{label:<36} {len(seeds)} networks, {training.epochs} epochs, {time.perf_counter() - start:.0f} s")
        return [history.model for history in histories]


def predicted(model, x: np.ndarray, draws: int, seed: int) -> sb.prediction.Predictive:
    """Returns the predictions of a Keras model or of an ensemble."""
    return sb.predict(model, x, draws, seed) if isinstance(model, keras.Model) else model.predict(x, draws, seed)
