"""Small sets of images in the shape of MNIST: ten patterns under noise, and patterns of other sets."""

import numpy as np
from singularbayes_experiments import data

NUM_TRAIN, NUM_TEST = 260, 50


def made_up(seed: int, train: bool = True) -> data.Images:
    """Returns ten patterns of its own, with so much noise that a network makes mistakes."""
    rng = np.random.default_rng(seed)
    patterns = rng.uniform(0, 255, (10, 28, 28))

    def draw(num: int):
        labels = rng.integers(0, 10, num)
        pixels = patterns[labels] + rng.normal(0, 150, (num, 28, 28))
        return pixels.clip(0, 255).astype("uint8"), labels

    known, test = draw(NUM_TRAIN), draw(NUM_TEST)
    return data.Images(known if train else None, test, tuple("0123456789"), "made up")


def install(monkeypatch) -> None:
    """Puts made-up sets in the place of the real ones."""
    sets = {"mnist": made_up(1), "fashion_mnist": made_up(2), "notmnist": made_up(3, train=False)}
    for name, images in sets.items():
        monkeypatch.setattr(data, name, lambda images=images: images)
