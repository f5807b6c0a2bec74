"""Nine small regression tables with the fixed splits of Gal and Ghahramani (2016).

Two hidden layers of 64 units, of protein 100, ranks up to 32, one learned noise; inputs and targets are standardised by
the training rows, and scores are in the units of the targets. Deterministic networks start as Keras's do, low-rank ones
with orthogonal columns, which trials for the defaults found better (`docs/protocol.md`).

A result seed has a split of its own: 2 the split 1, and so on. Tuning seeds have two validation parts of the training
rows of split 0. Rows that test one split may have trained or validated in tuning, as in all work with these splits.
"""

from dataclasses import dataclass
from itertools import pairwise

import keras
import numpy as np

from singularbayes import layers
from singularbayes.likelihoods import MeanScale
from singularbayes_experiments import data, protocol, scores
from singularbayes_experiments.methods import Settings, Weights
from singularbayes_experiments.problems.base import TUNING, Arrays, Data, Part, Predict, Problem, Scores

_FIRST = 2  # the seed that has the split 1


@dataclass(frozen=True)
class UCISettings(Settings):
    """Ranks are no more than a weight has rows or columns."""

    units: tuple[int, ...] = (64, 64)
    ranks: tuple[int, ...] = (32, 32, 1)
    batch_size: int = 32


class UCI(Problem):
    Settings = UCISettings
    seeds_share_data = False

    def data(self, task, seed, settings, stage) -> Data:
        table = data.uci_regression(task)
        if stage == TUNING:
            order = np.random.default_rng(seed).permutation(table.splits[0][0])
            train, asked = np.split(order, [len(order) * 4 // 5])
        else:
            train, asked = table.splits[split_of(seed, len(table.splits))]
        x, y = table.x[train], table.y[train]
        std = np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)  # naval has two columns that never vary

        def part(rows: np.ndarray) -> Part:
            scaled = (table.x[rows] - x.mean(axis=0)) / std
            targets = (table.y[rows] - y.mean()) / y.std()
            return Part(scaled.astype("float32"), targets.astype("float32")[:, None])

        known, unit = part(train), float(y.std())
        if stage == TUNING:
            perturbed = protocol.perturbed(known.x[: scores.PERTURBED], seed)
            return Data(known, part(asked), ood={"perturbed": perturbed}, unit=unit)
        return Data(known, test=part(asked), unit=unit)

    def network(self, weights: Weights, settings: UCISettings) -> keras.Model:
        """Returns standardised inputs → the mean and ρ of the noise of the standardised target."""
        first = hidden = keras.Input(weights.inputs)
        shapes = list(pairwise((*weights.inputs, *settings.units, 1)))
        for i, (shape, rank) in enumerate(zip(shapes, settings.ranks, strict=True), start=1):
            activation = "relu" if i < len(shapes) else None
            start = None if weights.random else "glorot_uniform"
            options = {"kernel_initializer": start, "posterior": weights(min(rank, *shape)), "name": f"dense_{i}"}
            hidden = layers.Dense(shape[1], activation, **options)(hidden)
        return keras.Model(first, layers.LearnedNoise()(hidden))

    def loss(self, settings) -> keras.losses.Loss:
        return MeanScale()

    def score(self, predict: Predict, data: Data, settings, stage) -> tuple[Scores, Arrays]:
        known = data.train.y * data.unit
        asked = data.validation if data.test is None else data.test
        assert asked is not None
        p, y = scores.in_units(predict(asked.x), 0.0, data.unit), asked.y[:, 0] * data.unit
        if data.test is None:
            perturbed = scores.in_units(predict(data.ood["perturbed"]), 0.0, data.unit)
            return scores.value_tuning(p, y, perturbed, known), {}
        return scores.value_result(p, y, {}, known), {}


def split_of(seed: int, splits: int) -> int:
    """Returns the split of a result seed.

    >>> split_of(2, 20), split_of(5, 5)
    (1, 4)
    """
    if not 1 <= seed - _FIRST + 1 < splits:
        raise ValueError(f"A result seed of this table must be from {_FIRST} to {splits}; got {seed}.")
    return seed - _FIRST + 1
