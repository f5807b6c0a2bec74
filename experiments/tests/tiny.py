"""Experiments so small that a method trains in seconds, on made-up data where the problem reads files."""

import made_up_air
import made_up_text
import numpy as np
from singularbayes_experiments import config, data
from singularbayes_experiments.problems import care_features

_BRIEF = {"epochs": 3, "warmup": 1, "svd_epochs": 1, "swag_epochs": 2, "swag_rank": 2}
_FEW = {"draws": 4, "members": 2, "batch_size": 16}
_IMAGES = {"num_train": 40, "num_validation": 30}
CHANGES = {
    "toy": {"num_train": 32, "num_test": 24, "units": 4, "ranks": [1, 2, 1], "iqr_draws": 4},
    "mnist": {**_IMAGES, "units": [6, 5], "ranks": [3, 3, 2]},
    "fashion_mnist": {**_IMAGES, "units": [6, 5], "ranks": [3, 3, 2]},
    "sst2": {"length": 8, "width": 8, "feed_forward": 8, "heads": 2, "ranks": [3, 3, 3], "num_train": 64}
    | {"num_validation": 20, "vocabulary": len(made_up_text.WORDS)},
    "beijing": {"windows": [64, 40, 30], "hours": 3, "units": 3, "ranks": [2, 2, 2, 2, 1], "every": 3},
    "icu": {"units": [6, 5], "ranks": [3, 3, 1]},
    "uci": {"units": [6, 5], "ranks": [3, 3, 1]},
    "cnn": {**_IMAGES, "filters": [2, 3], "units": [4], "ranks": [2, 2, 2, 2]},
}


def task(experiment: str, method: str, preset: str = "quick", stage: str = "result", **changes):
    """Returns the only task of a method, with two seeds and few steps."""
    found = config.read(experiment)
    every = {**_BRIEF, **_FEW, **CHANGES[experiment], **changes}
    (own,) = found.runs_of(preset, stage, methods=[method], seeds=[3, 8], changes=every)
    return found, own


def images(seed: int) -> data.Images:
    """Returns ten patterns under noise."""
    rng = np.random.default_rng(seed)
    patterns = rng.uniform(0, 255, (10, 28, 28))

    def draw(num: int):
        labels = np.arange(num) % 10
        return (patterns[labels] + rng.normal(0, 90, (num, 28, 28))).clip(0, 255).astype("uint8"), labels

    return data.Images(draw(80), draw(50), tuple("0123456789"))


def stays(sets: str = "abc") -> care_features.Stays:
    """Returns stays of all kinds, of whom those with a large first feature die."""
    rng, names = np.random.default_rng(0), np.repeat(list("abc"), 60)
    features = rng.normal(size=(180, 44)) * np.geomspace(0.1, 100, 44)
    features[rng.random(features.shape) < 0.1] = np.nan
    died = (features[:, 0] + rng.normal(0, 0.05, 180) > 0.08).astype(int)
    found = (features, features[:, :23], died, rng.integers(1, 5, 180), names)
    return care_features.Stays(*(part[np.isin(names, list(sets))] for part in found))


def table(name: str, changed=()) -> data.Regression:
    """Returns a table with nine splits, whose last column never varies; `changed` rows are other ones."""
    rng = np.random.default_rng(len(name))
    x = 5 + 3 * rng.normal(size=(60, 3))
    x[:, 2] = 7.0
    y = 100 + 20 * x[:, 0] + rng.normal(size=60)
    x[list(changed)] *= 9
    y[list(changed)] -= 500
    splits = [np.split(np.random.default_rng(i).permutation(60), [50]) for i in range(9)]
    return data.Regression(x, y, tuple((train, test) for train, test in splits))


def install(monkeypatch) -> None:
    """Puts made-up images, stays and tables in the place of the real ones."""
    monkeypatch.setattr(care_features, "physionet", stays)
    monkeypatch.setattr(data, "uci_regression", table)
    for seed, name in enumerate(("mnist", "fashion_mnist", "notmnist")):
        found = images(seed)
        monkeypatch.setattr(data, name, lambda found=found: found)
    made_up_text.install(monkeypatch)
    made_up_air.install(monkeypatch)
