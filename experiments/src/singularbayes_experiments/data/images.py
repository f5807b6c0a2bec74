"""Images in ten classes: grey ones of 28 × 28 pixels, and CIFAR-10 in colour."""

import gzip
from dataclasses import dataclass

import numpy as np

from singularbayes_experiments.data import idx
from singularbayes_experiments.data.catalogue import CIFAR10, FASHION_MNIST, MNIST, NOTMNIST
from singularbayes_experiments.data.read import read
from singularbayes_experiments.data.source import Source

Labelled = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Images:
    """`train` and `test` are (x, y): x uint8 (n, 28, 28), 0 black to 255 white; y int64 (n,), the class from 0.

    Images in colour are (n, 32, 32, 3), red, green and blue.
    """

    train: Labelled | None
    test: Labelled
    classes: tuple[str, ...]
    description: str


def mnist() -> Images:
    """Returns MNIST: handwritten digits, 60,000 to train and 10,000 to test.

    >>> x, y = mnist().train  # doctest: +SKIP
    >>> x.shape, y[:5]  # doctest: +SKIP
    ((60000, 28, 28), array([5, 0, 4, 1, 9]))
    """
    return Images(_labelled(MNIST, "train"), _labelled(MNIST, "t10k"), tuple("0123456789"), MNIST.description)


def fashion_mnist() -> Images:
    """Returns Fashion-MNIST: clothes, 60,000 images to train and 10,000 to test.

    >>> images = fashion_mnist()  # doctest: +SKIP
    >>> images.classes[images.test[1][0]]  # doctest: +SKIP
    'ankle boot'
    """
    train, test = _labelled(FASHION_MNIST, "train"), _labelled(FASHION_MNIST, "t10k")
    return Images(train, test, CLOTHES, FASHION_MNIST.description)


def notmnist() -> Images:
    """Returns notMNIST: 10,000 letters A to J in many fonts, to test what a model of digits predicts for them.

    >>> x, y = notmnist().test  # doctest: +SKIP
    >>> x.shape, notmnist().train  # doctest: +SKIP
    ((10000, 28, 28), None)
    """
    return Images(None, _labelled(NOTMNIST, "t10k"), tuple("ABCDEFGHIJ"), NOTMNIST.description)


def cifar10() -> Images:
    """Returns CIFAR-10: small photographs, 50,000 to train and 10,000 to test.

    >>> images = cifar10()  # doctest: +SKIP
    >>> images.classes[images.test[1][0]]  # doctest: +SKIP
    'cat'
    """
    batches = [_photographs(f"data_batch_{i}.bin") for i in range(1, 6)]
    train = tuple(np.concatenate(parts) for parts in zip(*batches, strict=True))
    return Images((train[0], train[1]), _photographs("test_batch.bin"), THINGS, CIFAR10.description)


CLOTHES = (
    "T-shirt or top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


THINGS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32  # pixels of a photograph


def _photographs(name: str) -> Labelled:
    """Returns one batch of CIFAR-10's binary version: a byte of label, then the red, green and blue plane."""
    rows = np.frombuffer(read(CIFAR10, name), "uint8").reshape(-1, 1 + 3 * SIDE**2)
    x = rows[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(x), rows[:, 0].astype("int64")


def _labelled(source: Source, part: str) -> Labelled:
    x, y = (
        idx.parse(gzip.decompress(read(source, f"{part}-{kind}-ubyte.gz"))) for kind in ("images-idx3", "labels-idx1")
    )
    return x, y.astype("int64")
