"""A sweep of small networks, and a formula that stands in for their training."""

import keras
import numpy as np

from singularbayes import LowRank, layers, ranks
from singularbayes.ranks import search

BUDGET = ranks.Budget(trials=5, epochs=2, draws=4)
SPACE = {"rank": (1, 8), "beta": (0.1, 1.0)}
GRID = {"rank": [1, 2, 4], "beta": [0.1, 1.0]}


def data(ood=True):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    x = (np.eye(3)[y] * 2 + rng.normal(size=(120, 3))).astype("float32")
    strange = 4 * rng.normal(size=(40, 3)).astype("float32")
    return ranks.Data((x[:80], y[:80]), (x[80:], y[80:]), strange if ood else None)


DATA = data()


def build(rank, units=8):
    hidden = layers.Dense(units, "relu", posterior=LowRank.paper(rank))
    model = keras.Sequential([keras.Input((3,)), hidden, layers.Dense(3, posterior=LowRank.paper(3))])
    model.compile(keras.optimizers.Adam(0.02), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def formula(settings, seed):
    rank, beta = settings["rank"], settings.get("beta", 1.0)
    scores = {"auroc_ood_mi": 1 - 0.05 * rank, "ece": 0.01 * rank, "num_trained": 10.0 * rank}
    return {"nll": 1 / rank + beta + 0.1 * seed, **scores}


def train_by_formula(monkeypatch, scores=formula):
    """Replaces the training of a trial by a formula, and returns the settings that were asked for."""
    asked = []

    def trained(self, trial, settings):
        asked.append(dict(settings))
        return search.over_seeds([scores(settings, seed) for seed in range(self.budget.seeds)])

    monkeypatch.setattr(search._Objective, "_trained", trained)
    return asked
