"""Training as every story does it: Adam, the ELBO with an annealed KL, and one line on the terminal per network."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from rich.console import Console

from singularbayes.training import KLSchedule, fit_many


@dataclass(frozen=True)
class Training:
    """The settings of one training; each story has its own defaults.

    Args:
        cosine: let the learning rate fall to 0 in a cosine.
        beta: the weight of the KL; 1 is the ELBO.
        warmup: epochs over which that weight rises from 0.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    cosine: bool
    beta: float
    warmup: int


@dataclass
class Trainer:
    """Trains the networks of the demo one after another, all with the same seed.

    Args:
        total: how many networks there are in all.
    """

    console: Console
    seed: int
    total: int
    done: int = 0

    def fit(
        self,
        label: str,
        network: Callable[[], keras.Model],
        loss: Any,
        x: np.ndarray,
        y: np.ndarray,
        settings: Training,
    ) -> keras.Model:
        """Returns a trained network, and prints its label, epochs, last loss and seconds."""
        start = time.perf_counter()
        (run,) = fit_many(
            lambda: compiled(network(), loss, len(x), settings),
            x,
            y,
            [self.seed],
            settings.epochs,
            settings.batch_size,
            callbacks=lambda: [KLSchedule(len(x), settings.beta, warmup=settings.warmup)],
        )
        self.done += 1
        trained = f"{settings.epochs} epochs, loss {run.history['loss'][-1]:.3f}, {time.perf_counter() - start:.0f} s"
        self.console.print(f"{self.done}/{self.total} {label:<26} {trained}", highlight=False)
        return run.model


def compiled(model: keras.Model, loss: Any, num_data: int, settings: Training) -> keras.Model:
    """Returns the model, compiled with Adam."""
    rate: Any = settings.learning_rate
    if settings.cosine:
        steps = math.ceil(num_data / settings.batch_size) * settings.epochs
        rate = keras.optimizers.schedules.CosineDecay(rate, steps)
    model.compile(keras.optimizers.Adam(rate), loss)
    return model
