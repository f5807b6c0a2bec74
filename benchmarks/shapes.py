"""The networks that every rival builds, whatever its library, and data that fit them. It imports NumPy alone."""

from dataclasses import dataclass

import numpy as np

NUM_DATA = 60_000  # what the KL is divided by


@dataclass(frozen=True)
class Mlp:
    """Dense layers with ReLU between them. An epoch of `fit` is `steps` batches; one output is a regression."""

    batch: int
    steps: int
    widths: tuple[int, ...]
    ranks: tuple[int, ...]

    @property
    def outputs(self) -> int:
        return self.widths[-1]

    def inputs(self, examples: int) -> np.ndarray:
        return _normal(examples, self.widths[0])


@dataclass(frozen=True)
class Headed(Mlp):
    """The same, with a posterior on the last layer alone."""


@dataclass(frozen=True)
class Lstm:
    """Two layers, then a dense one on the last hour."""

    batch: int
    steps: int
    hours: int = 24
    features: int = 15
    units: int = 64
    outputs: int = 1

    def inputs(self, examples: int) -> np.ndarray:
        return _normal(examples, self.hours, self.features)


@dataclass(frozen=True)
class Transformer:
    """An embedding, pre-norm encoder blocks, a dense layer on the first token. Token 0 is padding."""

    batch: int
    steps: int
    vocabulary: int = 30_522
    length: int = 64
    width: int = 256
    blocks: int = 4
    heads: int = 4
    feed_forward: int = 512
    outputs: int = 2

    def inputs(self, examples: int) -> np.ndarray:
        return np.random.default_rng(0).integers(1, self.vocabulary, (examples, self.length)).astype("int32")


@dataclass(frozen=True)
class Convolution:
    """One 3 × 3 convolution, averaged over the image."""

    batch: int
    steps: int
    size: int = 28
    channels: int = 128
    outputs: int = 128

    def inputs(self, examples: int) -> np.ndarray:
        return _normal(examples, self.size, self.size, self.channels)


Shape = Mlp | Headed | Lstm | Transformer | Convolution

SHAPES: dict[str, Shape] = {
    "mlp 784-1200-1200-10": Mlp(batch=128, steps=20, widths=(784, 1200, 1200, 10), ranks=(25, 25, 10)),
    "mlp 44-128-128-1": Mlp(batch=64, steps=200, widths=(44, 128, 128, 1), ranks=(15, 15, 1)),
    "body 4x2048 and head": Headed(batch=128, steps=5, widths=(2048,) * 5 + (10,), ranks=(10,)),
    "lstm 2x64 on 24x15": Lstm(batch=64, steps=40),
    "sst2 transformer": Transformer(batch=64, steps=2),
    "conv2d 3x3 128-128": Convolution(batch=16, steps=4),
}


def targets(shape: Shape, examples: int) -> np.ndarray:
    """Returns classes (examples), or values (examples, 1) for one output."""
    if shape.outputs == 1:
        return _normal(examples, 1)
    return np.random.default_rng(1).integers(0, shape.outputs, examples).astype("int32")


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")
