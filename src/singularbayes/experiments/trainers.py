"""Who trains the networks of a method: one after another with checkpoints, or all seeds as one program."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from singularbayes.experiments.methods import Network
from singularbayes.experiments.training import Watch, fit
from singularbayes.inference import KLSchedule, fit_many

Make = Callable[[int], keras.Model]


def class_loss() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@dataclass(frozen=True)
class Alone:
    """Trains one network after another; each is a part of the run that `keep` keeps."""

    network: Network
    x: np.ndarray
    y: np.ndarray
    settings: Any
    watch: Watch | None = None
    keep: Any = None
    seconds: list[float] = field(default_factory=list)

    def fit(self, make: Make, seeds: list[int], settings: Any, part: str) -> list[keras.Model]:
        """Returns `make(seed)` of every seed, trained."""
        models = []
        for i, seed in enumerate(seeds):
            keras.utils.set_random_seed(seed)
            models.append(make(seed))
            place = self.keep.part(f"{part}-{i}") if self.keep is not None else None
            self.seconds.append(fit(models[-1], class_loss(), self.x, self.y, settings, self.watch, place))
        return models


@dataclass(frozen=True)
class Together:
    """Trains the networks of all seeds as one program on JAX; each is what it would be alone. Nothing is kept."""

    network: Network
    x: np.ndarray
    y: np.ndarray
    settings: Any
    seconds: list[float] = field(default_factory=list)

    def fit(self, make: Make, seeds: list[int], settings: Any, part: str) -> list[keras.Model]:
        """Returns `make(seed)` of every seed, trained."""
        steps = math.ceil(len(self.x) / settings.batch_size)

        def build() -> keras.Model:
            model = make(keras.utils.get_random_seed())  # fit_many has just set it
            rate = settings.learning_rate
            if settings.cosine:
                rate = keras.optimizers.schedules.CosineDecay(rate, steps * settings.epochs)
            model.compile(keras.optimizers.Adam(rate), class_loss())
            return model

        def callbacks() -> list[keras.callbacks.Callback]:
            return [KLSchedule(len(self.x), settings.beta, warmup=settings.warmup)]

        start = time.perf_counter()
        runs = fit_many(build, self.x, self.y, seeds, settings.epochs, settings.batch_size, callbacks=callbacks)
        self.seconds.append(time.perf_counter() - start)
        return [run.model for run in runs]
