"""Who trains the networks of a method: one after another, kept, or all seeds as one program. Both give the same."""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from singularbayes.baselines import SWAG
from singularbayes.training import fit_many
from singularbayes_experiments.methods.pools import MOMENTUM, Collect, fit_swag, offset_watch
from singularbayes_experiments.methods.stopping import Resumable
from singularbayes_experiments.methods.training import Watch, adam, annealed, fit
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.records.checkpoints import Keep, part

Network = Callable[[Weights], keras.Model]
Make = Callable[[int], keras.Model]  # given a seed


def class_loss() -> keras.losses.Loss:
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


@dataclass(frozen=True)
class Training:
    """What networks are trained on, and what is watched meanwhile.

    Args:
        loss: makes the negative log-likelihood of an example.
        validation: (x, y) that callbacks watch after every epoch; None where nobody does.
        weight: of every example, None is 1.
        padding: the id that fills up texts, see `fit_many`; None where x are no texts.
        callbacks: makes `Plateau`, `EarlyStop` and the like of one network from the settings that it is trained with.
        metrics: what Keras logs beside the loss, for these callbacks.
    """

    x: np.ndarray
    y: np.ndarray
    loss: Callable[[], keras.losses.Loss] = class_loss
    validation: tuple[np.ndarray, np.ndarray] | None = None
    weight: np.ndarray | None = None
    padding: int | None = None
    callbacks: Callable[[Any], list[Resumable]] = lambda settings: []
    metrics: tuple[str, ...] = ()


class Trainer(ABC):
    """Trains networks, and counts the epochs and the seconds of all it trained.

    Args:
        first: the number of its first network among those of a run, where others train the ones before.
    """

    def __init__(
        self,
        network: Network,
        training: Training,
        settings: Any,
        *,
        watch: Watch | None = None,
        keep: Keep | None = None,
        first: int = 0,
    ):
        self.network, self.data, self.settings = network, training, settings
        self.watch, self.keep, self.first = watch, keep, first
        self.epochs, self.seconds = 0, 0.0

    @abstractmethod
    def fit(self, make: Make, seeds: list[int], settings: Any, name: str) -> list[keras.Model]:
        """Returns `make(seed)` of every seed, trained; `name` is this training's among those of a run."""

    def fit_swag(self, models: list[keras.Model], seeds: list[int], name: str) -> list[SWAG]:
        """Returns the Gaussian of every trained network's weights along further epochs of SGD."""
        s, found = self.settings, []
        for i, (model, seed) in enumerate(zip(models, seeds, strict=True)):
            keras.utils.set_random_seed(seed)
            swag, seconds = fit_swag(
                model,
                self.data.loss(),
                self.data.x,
                self.data.y,
                rank=s.swag_rank,
                learning_rate=s.swag_rate,
                epochs=s.swag_epochs,
                batch_size=s.batch_size,
                **self._options(f"{name}-{self.first + i}"),
            )
            self.seconds += seconds
            self.epochs += s.swag_epochs
            found.append(swag)
        return found

    def _options(self, name: str) -> dict[str, Any]:
        """Returns the options of `train` for the part of a run with that name."""
        return {
            "watch": offset_watch(self.watch, self.epochs),
            "keep": part(self.keep, name),
            "weight": self.data.weight,
            "padding": self.data.padding,
        }


class OneByOne(Trainer):
    """Trains one network after another; each is a part of the run that `keep` keeps, under its number in the run."""

    def fit(self, make, seeds, settings, name):
        models = []
        for i, seed in enumerate(seeds):
            keras.utils.set_random_seed(seed)
            model = make(seed)
            data = self.data
            self.seconds += fit(
                model,
                data.loss(),
                data.x,
                data.y,
                settings,
                callbacks=data.callbacks(settings),
                metrics=data.metrics,
                validation=data.validation,
                **self._options(f"{name}-{self.first + i}"),
            )
            self.epochs += settings.epochs
            models.append(model)
        return models


class OneProgram(Trainer):
    """Trains the networks of all seeds as one program on JAX. Nothing is kept."""

    def fit(self, make, seeds, settings, name):
        def compiled(seed: int) -> keras.Model:
            model = make(seed)
            model.compile(adam(model, len(self.data.x), settings), self.data.loss(), metrics=list(self.data.metrics))
            return model

        def callbacks(model: keras.Model) -> list[keras.callbacks.Callback]:
            return annealed(model, len(self.data.x), settings) + self.data.callbacks(settings)

        return self._at_once(compiled, seeds, settings.epochs, callbacks, self.data.validation)

    def fit_swag(self, models, seeds, name):
        trained, collected = dict(zip(seeds, models, strict=True)), {}

        def compiled(seed: int) -> keras.Model:
            rate = keras.optimizers.SGD(self.settings.swag_rate, momentum=MOMENTUM)
            trained[seed].compile(rate, self.data.loss())
            return trained[seed]

        def callbacks(model: keras.Model) -> list[keras.callbacks.Callback]:
            collected[model] = Collect(self.settings.swag_rank)
            return [collected[model]]

        self._at_once(compiled, seeds, self.settings.swag_epochs, callbacks)
        return [SWAG.from_snapshots(model, collected[model].snapshots, inputs=self.data.x) for model in models]

    def _at_once(self, make: Make, seeds: list[int], epochs: int, callbacks, validation=None) -> list[keras.Model]:
        """Returns `make(seed)` of every seed, compiled models, after these epochs; `callbacks` is given the model."""
        start = time.perf_counter()
        models, made = {}, []
        for seed in seeds:
            keras.utils.set_random_seed(seed)
            model = make(seed)
            models[random.getrandbits(31)] = model  # what `train` hashes the order of the examples from

        def build(seed: int) -> keras.Model:
            made.append(models[seed])
            return made[-1]

        fit_many(
            build,
            self.data.x,
            self.data.y,
            list(models),
            epochs,
            self.settings.batch_size,
            callbacks=lambda: callbacks(made[-1]),
            validation_data=validation,
            sample_weight=self.data.weight,
            padding=self.data.padding,
        )
        self.seconds += time.perf_counter() - start
        return list(models.values())
