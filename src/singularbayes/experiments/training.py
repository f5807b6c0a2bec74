"""What every experiment does alike: fit by the ELBO with an annealed KL, count, and say how long it took."""

import math
import time
from collections.abc import Callable
from typing import Any, Protocol

import keras
import numpy as np

from singularbayes.inference import KLSchedule

Watch = Callable[[int, dict[str, float]], None]  # called after every epoch with its number and logs


class Schedule(Protocol):
    """The settings that training reads."""

    @property
    def epochs(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...
    @property
    def cosine(self) -> bool: ...
    @property
    def beta(self) -> float: ...
    @property
    def warmup(self) -> int: ...


def fit(model: keras.Model, loss: Any, x: np.ndarray, y: np.ndarray, settings: Schedule, watch: Watch | None) -> float:
    """Fits `model` with Adam, its rate constant or a cosine to 0, and returns the seconds, compilation included."""
    steps = math.ceil(len(x) / settings.batch_size)
    rate = settings.learning_rate
    if settings.cosine:
        rate = keras.optimizers.schedules.CosineDecay(rate, steps * settings.epochs)
    # An epoch as one program halves the time of small models; torch has no programs.
    together = 1 if keras.backend.backend() == "torch" else steps
    model.compile(keras.optimizers.Adam(rate), loss, steps_per_execution=together)
    callbacks: list[keras.callbacks.Callback] = [KLSchedule(len(x), settings.beta, warmup=settings.warmup)]
    if watch is not None:
        callbacks.append(keras.callbacks.LambdaCallback(on_epoch_end=watch))
    start = time.perf_counter()
    model.fit(x, y, batch_size=settings.batch_size, epochs=settings.epochs, callbacks=callbacks, verbose=0)
    return time.perf_counter() - start


def require_method(method: str, methods: dict[str, Any]) -> None:
    """Raises unless the experiment knows the method."""
    if method not in methods:
        raise ValueError(f"run needs method to be one of {list(methods)}; got method={method!r}.")
