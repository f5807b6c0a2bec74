"""SWAG inside a run, kept, and how the parts of a run count their epochs through."""

from typing import Any

import keras
import numpy as np

from singularbayes.baselines import SWAG, Snapshots, flat_weights
from singularbayes_experiments.methods.stopping import Resumable, State
from singularbayes_experiments.methods.training import Watch, train

MOMENTUM = 0.9  # of the SGD whose weights are collected


def fit_swag(
    model: keras.Model,
    loss: Any,
    x: np.ndarray,
    y: np.ndarray,
    *,
    rank: int,
    learning_rate: float,
    **options,
) -> tuple[SWAG, float]:
    """Returns the SWAG of a trained network, collected along epochs of SGD, and their seconds.

    Options are those of `train`.
    """
    collect = Collect(rank)
    model.compile(keras.optimizers.SGD(learning_rate, momentum=MOMENTUM), loss)
    seconds = train(model, x, y, callbacks=[collect], **options)
    return SWAG.from_snapshots(model, collect.snapshots, inputs=x), seconds


def offset_watch(watch: Watch | None, epochs: int) -> Watch | None:
    """Returns a watch that counts on from the epochs of earlier parts."""
    return None if watch is None else lambda epoch, logs: watch(epochs + epoch, logs)


class Collect(Resumable):
    """Takes a snapshot after every epoch."""

    def __init__(self, rank: int):
        super().__init__()
        self.snapshots = Snapshots(rank)

    def on_epoch_end(self, epoch, logs=None):
        self.snapshots.add(flat_weights(self.model.trainable_variables))

    def state(self) -> State:
        return {"collected": np.array(self.snapshots.collected), **self.snapshots.arrays()}

    def restore(self, state: State) -> None:
        self.snapshots = Snapshots.from_arrays(self.snapshots.rank, int(state["collected"]), state)
