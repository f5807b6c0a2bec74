"""Who trains the networks of a method: one after another, kept, or all seeds as one program. Both give the same."""

import math
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from singularbayes.baselines import SWAG
from singularbayes.experiments.keep import Keep, part
from singularbayes.experiments.pools import fit_swag, later
from singularbayes.experiments.training import Watch, fit
from singularbayes.inference import KLSchedule, fit_many
from singularbayes.posteriors import Posterior

Weights = Callable[[int], Posterior]  # given the rank of a weight
Network = Callable[[Weights], keras.Model]
Make = Callable[[int], keras.Model]  # given a seed


class Trainer(ABC):
    """Trains networks on (x, y), and counts the epochs and the seconds of all it trained."""

    def __init__(
        self,
        network: Network,
        x: np.ndarray,
        y: np.ndarray,
        settings: Any,
        watch: Watch | None = None,
        keep: Keep | None = None,
    ):
        self.network, self.x, self.y, self.settings = network, x, y, settings
        self.watch, self.keep = watch, keep
        self.epochs, self.seconds = 0, 0.0

    @abstractmethod
    def fit(self, make: Make, seeds: list[int], settings: Any, name: str) -> list[keras.Model]:
        """Returns `make(seed)` of every seed, trained; `name` is this training's among those of a run."""

    def fit_swag(self, models: list[keras.Model], seeds: list[int], name: str) -> list[SWAG]:
        """Returns the Gaussian of every trained network's weights along further epochs of SGD."""
        s, found = self.settings, []
        for i, (model, seed) in enumerate(zip(models, seeds, strict=True)):
            keras.utils.set_random_seed(seed)
            options = (s.swag_rank, s.swag_epochs, s.batch_size, s.swag_rate)
            watch, place = later(self.watch, self.epochs), part(self.keep, f"{name}-{i}")
            swag, seconds = fit_swag(model, class_loss(), self.x, self.y, *options, watch, place)
            self.seconds += seconds
            self.epochs += s.swag_epochs
            found.append(swag)
        return found


class Alone(Trainer):
    """Trains one network after another; each is a part of the run that `keep` keeps."""

    def fit(self, make, seeds, settings, name):
        models = []
        for i, seed in enumerate(seeds):
            keras.utils.set_random_seed(seed)
            model = make(seed)
            watch, place = later(self.watch, self.epochs), part(self.keep, f"{name}-{i}")
            self.seconds += fit(model, class_loss(), self.x, self.y, settings, watch, place)
            self.epochs += settings.epochs
            models.append(model)
        return models


class Together(Trainer):
    """Trains the networks of all seeds as one program on JAX. Nothing is kept."""

    def fit(self, make, seeds, settings, name):
        start = time.perf_counter()
        orders, models = [], {}
        for seed in seeds:
            keras.utils.set_random_seed(seed)
            model = make(seed)
            model.compile(adam(settings, len(self.x)), class_loss())
            orders.append(random.getrandbits(31))  # what `train` hashes the order of the examples from
            keras.utils.set_random_seed(orders[-1])
            models[random.getstate()] = model

        def build() -> keras.Model:
            return models[random.getstate()]  # fit_many has just set the seed of this member

        def callbacks() -> list[keras.callbacks.Callback]:
            return [KLSchedule(len(self.x), settings.beta, warmup=settings.warmup)]

        fit_many(build, self.x, self.y, orders, settings.epochs, settings.batch_size, callbacks=callbacks)
        self.seconds += time.perf_counter() - start
        return list(models.values())


def class_loss() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def adam(settings: Any, num_data: int) -> keras.optimizers.Optimizer:
    """Returns Adam with the rate of the settings, constant or a cosine to 0."""
    rate = settings.learning_rate
    if settings.cosine:
        rate = keras.optimizers.schedules.CosineDecay(rate, math.ceil(num_data / settings.batch_size) * settings.epochs)
    return keras.optimizers.Adam(rate)
