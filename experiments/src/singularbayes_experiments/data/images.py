"""Images in ten classes: grey ones of 28 × 28 pixels, and CIFAR-10 in colour."""

import gzip
import struct
from dataclasses import dataclass

import numpy as np

from singularbayes_experiments.data.files import read

Labelled = tuple[np.ndarray, np.ndarray]
CLOTHES = "T-shirt or top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot"
THINGS = "airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck"


@dataclass(frozen=True)
class Images:
    """`train` and `test` are (x, y): x uint8 (n, 28, 28), 0 black to 255 white; y int64 (n,), the class from 0.

    Images in colour are (n, 32, 32, 3), red, green and blue.
    """

    train: Labelled | None
    test: Labelled
    classes: tuple[str, ...]


def mnist() -> Images:
    """Returns MNIST: handwritten digits, 60,000 to train and 10,000 to test."""
    return Images(_grey("mnist", "train"), _grey("mnist", "t10k"), tuple("0123456789"))


def fashion_mnist() -> Images:
    """Returns Fashion-MNIST: clothes, 60,000 images to train and 10,000 to test."""
    train, test = (_grey("fashion_mnist", part) for part in ("train", "t10k"))
    return Images(train, test, tuple(CLOTHES.split(", ")))


def notmnist() -> Images:
    """Returns notMNIST: 10,000 letters A to J in many fonts, to test what a model of digits predicts for them."""
    return Images(None, _grey("notmnist", "t10k"), tuple("ABCDEFGHIJ"))


def cifar10() -> Images:
    """Returns CIFAR-10: small photographs, 50,000 to train and 10,000 to test."""
    x, y = (np.concatenate(part) for part in zip(*(_photographs(f"data_batch_{i}") for i in range(1, 6)), strict=True))
    return Images((x, y), _photographs("test_batch"), tuple(THINGS.split(", ")))


def _grey(name: str, part: str) -> Labelled:
    x, y = (unpack(gzip.decompress(read(name, f"{part}-{kind}-ubyte.gz"))) for kind in ("images-idx3", "labels-idx1"))
    return x, y.astype("int64")


def unpack(raw: bytes) -> np.ndarray:
    """Returns the array of a file of MNIST's format: 0, 0, 8, the number of dimensions, the dimensions, the bytes.

    >>> unpack(bytes([0, 0, 8, 2, 0, 0, 0, 1, 0, 0, 0, 3, 7, 8, 9]))
    array([[7, 8, 9]], dtype=uint8)
    """
    start = 4 + 4 * raw[3]
    return np.frombuffer(raw, "uint8", offset=start).reshape(struct.unpack(f">{raw[3]}I", raw[4:start])).copy()


def _photographs(name: str) -> Labelled:
    """Returns one batch of CIFAR-10's binary version: a byte of label, then the red, green and blue plane."""
    rows = np.frombuffer(read("cifar10", f"{name}.bin"), "uint8").reshape(-1, 1 + 3 * 32**2)
    x = rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(x), rows[:, 0].astype("int64")
