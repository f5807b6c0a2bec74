"""Experiments so small that a method trains in seconds, on made-up data where the problem reads files."""

import made_up_air
import made_up_text
import numpy as np
from singularbayes_experiments import data
from singularbayes_experiments.new import config

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

    return data.Images(draw(80), draw(50), tuple("0123456789"), "made up")


def install(monkeypatch) -> None:
    """Puts made-up images in the place of the real ones."""
    for seed, name in enumerate(("mnist", "fashion_mnist", "notmnist")):
        found = images(seed)
        monkeypatch.setattr(data, name, lambda found=found: found)
    made_up_text.install(monkeypatch)
    made_up_air.install(monkeypatch)
