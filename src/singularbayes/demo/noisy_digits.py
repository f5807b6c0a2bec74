"""The 1,797 images of 8 × 8 pixels that are part of scikit-learn, without some digits and with noise on every pixel."""

from dataclasses import dataclass, replace

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

Part = tuple[np.ndarray, np.ndarray]  # images (examples, 64) and labels


@dataclass(frozen=True)
class Data:
    """Images with pixels in [0, 1] and labels counted from 0: 60 % to train, 20 % to validate, 20 % to test."""

    train: Part
    validation: Part
    test: Part
    ood: Part  # the held-out classes; labels are the digits themselves
    classes: tuple[int, ...]  # the digit that each label stands for


def load(held_out: tuple[int, ...], seed: int) -> Data:
    """Returns the split of a seed, stratified by class."""
    images, digits = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32")
    ood = np.isin(digits, held_out)
    classes = np.setdiff1d(digits, held_out)
    x, y = images[~ood], np.searchsorted(classes, digits[~ood])
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.2, random_state=seed, stratify=y)
    x, x_validation, y, y_validation = train_test_split(x, y, test_size=0.25, random_state=seed, stratify=y)
    return Data(
        (x, y),
        (x_validation, y_validation),
        (x_test, y_test),
        (images[ood], digits[ood]),
        tuple(int(c) for c in classes),
    )


def add_noise(data: Data, std: float, seed: int) -> Data:
    """Returns the data with Gaussian noise on every pixel."""
    rng = np.random.default_rng(seed)

    def noisy(part: Part) -> Part:
        return (part[0] + std * rng.normal(size=part[0].shape)).astype("float32"), part[1]

    train, validation, test, ood = map(noisy, (data.train, data.validation, data.test, data.ood))
    return replace(data, train=train, validation=validation, test=test, ood=ood)
