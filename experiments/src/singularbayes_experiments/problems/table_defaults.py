"""Which defaults should the estimators have? A random design on training rows of the nine regression tables.

Every configuration draws each setting of `LEVELS` independently; so the mean score of a level averages over all others.
A configuration is fitted by `BayesianMLPRegressor` on at most `ROWS` of the four fifths of the training rows of a split
that train, and scored on the fifth that validates. Test rows are not read. Configurations are ranked by NLL on every
table and split; a level's score is the mean rank of its configurations, and the default is the best level of every
setting, unless the best configuration as a whole has a lower mean rank than these effects add up to for that
combination. `singularbayes-experiments tables search` runs it.

The records in `results/tables/search.jsonl.gz` are of the estimator of commit 53ac73d, which weighed rows by a power of
their variance ("weight_power") and trained in three phases; both are gone.
"""

import math

import numpy as np
from scipy.stats import rankdata

from singularbayes.estimators import BayesianMLPRegressor
from singularbayes.posteriors import Anchored, Normal
from singularbayes_experiments.problems.table_scores import value_scores
from singularbayes_experiments.problems.table_sets import REGRESSION, table

ROWS, CONFIGURATIONS, COMPONENTS = 1_500, 40, 5
PRIORS = {
    "anchored 0.1": Anchored(0.1),
    "anchored 0.3": Anchored(0.3),
    "anchored 1": Anchored(1.0),
    "normal 0.3": Normal(0.3),
}
LEVELS: dict[str, tuple] = {
    "beta": (0.1, 0.03, 0.01, 0.003),
    "prior": tuple(PRIORS),
    "eta": (0.1, 0.01, 0.001),
    "learning_rate_init": (0.002, 0.005, 0.015),
    "steps": (2_000, 4_000, 8_000),
    "network": ("50, rank 16", "64-64, rank 16", "64-64, rank 32"),
    "activation": ("relu", "tanh"),
    "batch_size": (32, 64),
    "noise": ("auto", "auto", "constant", "head"),
    "weight_power": (0.0, 0.5, 1.0),
}


def configurations() -> list[dict]:
    """Returns the design: every level of a setting as often as the others, in random order."""
    rng = np.random.default_rng(25)
    columns = {
        name: rng.permutation(np.resize(np.arange(len(levels)), CONFIGURATIONS)) for name, levels in LEVELS.items()
    }
    return [{name: LEVELS[name][column[i]] for name, column in columns.items()} for i in range(CONFIGURATIONS)]


def pieces() -> list[tuple[int, str, int]]:
    """Returns (configuration, table, split) of all fits: all of one split before the next."""
    return [(i, name, split) for split in range(2) for i in range(CONFIGURATIONS) for name in REGRESSION]


def run(piece: tuple[int, str, int]) -> dict:
    """Returns the record of one fit."""
    number, name, split = piece
    chosen, one = configurations()[number], table(name)
    train, valid = one.validation(split)
    train = train[:ROWS]
    hidden, rank = {"50, rank 16": ((50,), 16), "64-64, rank 16": ((64, 64), 16), "64-64, rank 32": ((64, 64), 32)}[
        chosen["network"]
    ]
    batch = chosen["batch_size"]
    model = BayesianMLPRegressor(
        hidden,
        chosen["activation"],
        rank=rank,
        components=COMPONENTS,
        prior=PRIORS[chosen["prior"]],
        eta=chosen["eta"],
        beta=chosen["beta"],
        noise=chosen["noise"],
        batch_size=batch,
        learning_rate_init=chosen["learning_rate_init"],
        max_iter=math.ceil(chosen["steps"] / math.ceil(len(train) / batch)),
        random_state=1000 + split,
    ).fit(one.x[train], one.y[train])
    mean, std = model.predict(one.x[valid], return_std=True)
    low, high = model.predict_interval(one.x[valid], coverage=0.9)
    scores = value_scores(one.y[valid], mean, std, low, high)
    return {"configuration": number, "table": name, "split": split, "settings": chosen, "scores": scores}


def mean_ranks(records: list[dict]) -> dict[int, float]:
    """Returns the mean rank by NLL of every configuration that has a record for all tables of split 0; 1 is best."""
    nll = {(r["configuration"], r["table"]): r["scores"]["nll"] for r in records if r["split"] == 0 and "scores" in r}
    numbers = sorted({number for number, _ in nll if all((number, name) in nll for name in REGRESSION)})
    ranks = np.mean([rankdata([nll[number, name] for number in numbers]) for name in REGRESSION], axis=0)
    return dict(zip(numbers, ranks.tolist(), strict=True))
