"""Rules that watch a logged number while training, with a state that checkpoints hold.

Keras's own `EarlyStopping` and `ReduceLROnPlateau` forget theirs when training begins again.
"""

import math
from abc import abstractmethod

import keras
import numpy as np
from keras import ops

State = dict[str, np.ndarray]


class Resumable(keras.callbacks.Callback):
    """A callback that resumes after a kill as if nothing had happened."""

    @abstractmethod
    def state(self) -> State:
        """Returns all that later epochs depend on, beside the variables of model and optimizer."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Takes the state that `state` returned in another process."""


class _Best(Resumable):
    """Remembers the lowest value of a logged number and how many epochs have passed since, from epoch `start` on."""

    def __init__(self, monitor: str, patience: int, start: int = 0, min_delta: float = 0.0):
        super().__init__()
        if patience < 1:
            raise ValueError(f"{type(self).__name__} needs patience >= 1; got patience={patience!r}.")
        self.monitor, self.patience, self.start, self.min_delta = monitor, patience, start, min_delta
        self.best, self.waited = math.inf, 0

    def on_epoch_end(self, epoch, logs=None):
        if epoch < self.start:
            return
        if self.monitor not in (logs or {}):
            raise ValueError(
                f"{type(self).__name__} needs {self.monitor!r} among the logs; got {sorted(logs or {})}. "
                "Logs that begin with val_ need validation data."
            )
        if logs[self.monitor] < self.best - self.min_delta:
            self.best, self.waited = float(logs[self.monitor]), 0
            self.improved()
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.act()

    def improved(self) -> None:
        """Called when the number is the lowest so far."""

    @abstractmethod
    def act(self) -> None:
        """Called when it has not improved for `patience` epochs."""

    def state(self) -> State:
        return {"best": np.array(self.best), "waited": np.array(self.waited)}

    def restore(self, state: State) -> None:
        self.best, self.waited = float(state["best"]), int(state["waited"])


class Plateau(_Best):
    """Multiplies the learning rate by `factor` when a logged number has not improved for `patience` epochs."""

    def __init__(self, monitor="val_loss", patience=5, factor=0.5, start=0, min_delta=0.0, least=0.0):
        super().__init__(monitor, patience, start, min_delta)
        if not 0 < factor < 1:
            raise ValueError(f"Plateau needs 0 < factor < 1; got factor={factor!r}.")
        self.factor, self.least = factor, least

    def act(self) -> None:
        rate = float(ops.convert_to_numpy(self.model.optimizer.learning_rate))
        self.model.optimizer.learning_rate = max(rate * self.factor, self.least)
        self.waited = 0


class EarlyStop(_Best):
    """Ends training when a logged number has not improved for `patience` epochs, and goes back to the best weights.

    With an annealed KL let `start` be the epoch in which its weight is full.
    """

    def __init__(self, monitor="val_loss", patience=10, start=0, min_delta=0.0):
        super().__init__(monitor, patience, start, min_delta)
        self.weights: list[np.ndarray] = []

    def improved(self) -> None:
        self.weights = [np.array(ops.convert_to_numpy(weight)) for weight in self.model.trainable_variables]

    def act(self) -> None:
        self.model.stop_training = True

    def on_train_end(self, logs=None):
        if self.weights:
            for variable, value in zip(self.model.trainable_variables, self.weights, strict=True):
                variable.assign(value)

    def state(self) -> State:
        return {**super().state(), **{f"weight-{i}": value for i, value in enumerate(self.weights)}}

    def restore(self, state: State) -> None:
        super().restore(state)
        self.weights = [state[f"weight-{i}"] for i in range(len(state) - 2)]
