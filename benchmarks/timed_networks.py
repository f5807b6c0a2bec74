"""The networks of the benchmarks, by public names that stay, so that two versions of the library run the same code."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import keras
import numpy as np

import singularbayes as sb

NUM_DATA = 60_000  # what the KL is divided by
Kind = Callable[[int], Any] | None  # a posterior from a rank, or None for Keras's layer


def mixture(rank: int, components: int) -> Any:
    """Returns a mixture in which every component sees every example; versions before the redesign need it said."""
    said = {"examples": "repeat"} if "examples" in inspect.signature(sb.Mixture).parameters else {}
    return sb.Mixture(sb.LowRank.paper(rank), components, **said)


KINDS: dict[str, Kind] = {
    "Keras": None,
    "low-rank": sb.LowRank.paper,
    "full-rank": lambda rank: sb.FullRank(),
    "mixture of 4": partial(mixture, components=4),
    "mixture of 5": partial(mixture, components=5),
}


def layer(kind: Kind, name: str, rank: int, *arguments: Any, **options: Any) -> keras.layers.Layer:
    """Returns Keras's layer of this name, or ours with a posterior."""
    if kind is None:
        return getattr(keras.layers, name)(*arguments, **options)
    return getattr(sb.layers, name)(*arguments, posterior=kind(rank), **options)


def mlp(kind: Kind, width: int, rank: int = 25) -> keras.Model:
    hidden = [layer(kind, "Dense", rank, width, "relu") for _ in range(2)]
    return keras.Sequential([keras.Input((784,)), *hidden, layer(kind, "Dense", 10, 10)])


def body_and_head(kind: Kind, width: int) -> keras.Model:
    """Four layers of Keras, and a head of `kind`."""
    body = [keras.layers.Dense(width, "relu") for _ in range(4)]
    return keras.Sequential([keras.Input((width,)), *body, layer(kind, "Dense", 10, 10)])


def lstm(kind: Kind) -> keras.Model:
    recurrent = [layer(kind, "LSTM", 14, 64, return_sequences=True), layer(kind, "LSTM", 14, 64)]
    return keras.Sequential([keras.Input((24, 15)), *recurrent, layer(kind, "Dense", 1, 1)])


def cnn(kind: Kind) -> keras.Model:
    parts = [keras.Input((28, 28, 1))]
    for filters in (32, 64):
        parts += [layer(kind, "Conv2D", 8, filters, 3, activation="relu"), keras.layers.MaxPooling2D()]
    parts += [keras.layers.Flatten(), layer(kind, "Dense", 8, 128, "relu"), layer(kind, "Dense", 8, 10)]
    return keras.Sequential(parts)


@dataclass(frozen=True)
class Transformer:
    """An embedding, pre-norm encoder blocks, a dense layer on the first token; the defaults are the paper's for SST-2.

    The last block computes the first token alone. Token 0 is padding.
    """

    vocabulary: int = 30_522
    length: int = 64
    width: int = 256
    blocks: int = 4
    feed_forward: int = 512
    embedding_rank: int = 16
    rank: int = 16

    def build(self, kind: Kind) -> keras.Model:
        bias = {} if kind is None else {"bias_posterior": sb.FullRank()}
        ids = keras.Input((self.length,), dtype="int32")
        x = layer(kind, "Embedding", self.embedding_rank, self.vocabulary, self.width, mask_zero=True)(ids)
        for positions in [None] * (self.blocks - 1) + [1]:
            if kind is None:
                x = KerasBlock(self.width, self.feed_forward, positions)(x)
            else:
                encoder = partial(layer, kind, "TransformerEncoder", self.rank, self.feed_forward, 4)
                x = encoder(positions=positions, **bias)(x)
        return keras.Model(ids, layer(kind, "Dense", 2, 2, **bias)(x[:, 0]))

    def inputs(self, examples: int) -> np.ndarray:
        return np.random.default_rng(0).integers(1, self.vocabulary, (examples, self.length)).astype("int32")


class KerasBlock(keras.layers.Layer):
    def __init__(self, width: int, feed_forward: int, positions: int | None):
        super().__init__()
        self.supports_masking = True
        self.positions = positions
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-5) for _ in range(2)]
        self.attention = keras.layers.MultiHeadAttention(4, width // 4)
        self.inner, self.outer = keras.layers.Dense(feed_forward, "relu"), keras.layers.Dense(width)

    def call(self, x, mask=None):
        n = self.norms[0](x)
        x = x[:, : self.positions] + self.attention(n[:, : self.positions], n, value_mask=mask)
        return x + self.outer(self.inner(self.norms[1](x)))

    def compute_mask(self, x, mask):
        return None if mask is None else mask[:, : self.positions]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype("float32")


def targets(model: keras.Model, examples: int) -> np.ndarray:
    """Returns classes, or values for one output."""
    outputs = model.output_shape[-1]
    return normal(examples, 1) if outputs == 1 else np.random.default_rng(1).integers(0, outputs, examples)


def compiled(model: keras.Model, kind: Kind) -> keras.Model:
    """Returns the model with Adam, its loss and the weight of its KL."""
    classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(), "mse" if model.output_shape[-1] == 1 else classes)
    if kind is not None:
        sb.set_kl(model, NUM_DATA)
    return model


def program(model: keras.Model, x: np.ndarray) -> Callable[[int], int]:
    """Returns so many steps of Keras on JAX as one program: the data lie on the device and the weights stay there."""
    import jax

    y = targets(model, len(x))
    model.train_on_batch(x, y)  # makes the variables of the optimizer and of the metrics
    groups = [model.trainable_variables, model.non_trainable_variables, model.optimizer.variables]
    # Copies, because the program takes the memory of its state.
    state = tuple([v.value + 0 for v in group] for group in [*groups, model.metrics_variables])
    data, step = jax.device_put((x, y)), jax.jit(model.train_step, donate_argnums=0)

    def run(steps: int) -> int:
        nonlocal state
        for _ in range(steps):
            logs, state = step(state, data)
        jax.block_until_ready(logs)
        return steps

    return run
