"""The networks of the trial as functions of drawn matrices."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

Shapes = dict[str, tuple[int, int]]  # of random matrices, by name
Matrix = tuple  # (W,) or (A, B) with W = A Bᵀ
Arrays = dict[str, jax.Array]


@dataclass(frozen=True)
class Network:
    """A network: the shapes of its random matrices, its plain weights, and outputs from both and from inputs."""

    shapes: Shapes
    plain: Arrays
    outputs: Callable[[dict[str, Matrix], Arrays, jax.Array], jax.Array]


def times(x, matrix: Matrix):
    """Returns x W."""
    return x @ matrix[0] if len(matrix) == 1 else (x @ matrix[0]) @ matrix[1].T


def rows(ids, matrix: Matrix):
    """Returns rows of W."""
    return matrix[0][ids] if len(matrix) == 1 else matrix[0][ids] @ matrix[1].T


def mlp(inputs: int, hidden: tuple[int, ...], outputs: int) -> Network:
    sizes = (inputs, *hidden, outputs)
    shapes = {str(i): size for i, size in enumerate(itertools.pairwise(sizes))}

    def apply(weights, plain, x):
        for name in shapes:
            x = jax.nn.relu(x) if name != "0" else x
            x = times(x, weights[name]) + plain[name]
        return x

    return Network(shapes, {name: jnp.zeros(size[1]) for name, size in shapes.items()}, apply)


def lstm(inputs: int, units: int, outputs: int) -> Network:
    """Two layers; kernels are drawn once for a sequence, forget biases start at 1."""
    shapes = {"0": (inputs, 4 * units), "0r": (units, 4 * units)}
    shapes |= {"1": (units, 4 * units), "1r": (units, 4 * units), "head": (units, outputs)}
    bias = jnp.zeros(4 * units).at[units : 2 * units].set(1.0)

    def layer(weights, plain, name, x):
        projected = times(x, weights[name]) + plain[name]

        def step(state, now):
            hidden, cell = state
            i, f, c, o = jnp.split(now + times(hidden, weights[f"{name}r"]), 4, axis=-1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(c)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            return (hidden, cell), hidden

        zero = jnp.zeros((x.shape[0], units))
        return jnp.moveaxis(jax.lax.scan(step, (zero, zero), jnp.moveaxis(projected, 1, 0))[1], 0, 1)

    def apply(weights, plain, x):
        hidden = layer(weights, plain, "1", layer(weights, plain, "0", x))
        return times(hidden[:, -1], weights["head"]) + plain["head"]

    return Network(shapes, {"0": bias, "1": bias, "head": jnp.zeros(outputs)}, apply)


def transformer(vocabulary: int, length: int, width: int = 128, blocks: int = 2, heads: int = 4) -> Network:
    """Pre-norm blocks behind a table of words with sines; the mean of the tokens' vectors goes into two logits."""
    shapes: Shapes = {"words": (vocabulary, width), "head": (width, 2)}
    plain = {"head": jnp.zeros(2)}
    for i in range(blocks):
        shapes |= {f"{i}{name}": (width, width) for name in "qkvo"}
        shapes |= {f"{i}in": (width, 2 * width), f"{i}out": (2 * width, width)}
        plain |= {f"{i}in": jnp.zeros(2 * width), f"{i}out": jnp.zeros(width)}
        plain |= {f"{i}norm{j}": jnp.ones(width) for j in range(2)}
    angles = jnp.arange(length)[:, None] / 10_000 ** (2 * jnp.arange(width // 2) / width)
    positions = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)

    def norm(x):
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def attend(weights, i, x, mask):
        q, k, v = (times(x, weights[f"{i}{name}"]).reshape(*x.shape[:2], heads, -1) for name in "qkv")
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / q.shape[-1] ** 0.5
        shares = jax.nn.softmax(jnp.where(mask[:, None, None], scores, -1e9))
        return times(jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(x.shape), weights[f"{i}o"])

    def apply(weights, plain, ids):
        mask = ids > 0
        x = rows(ids, weights["words"]) * width**0.5 + positions
        for i in range(blocks):
            x = x + attend(weights, i, norm(x) * plain[f"{i}norm0"], mask)
            inner = jax.nn.relu(times(norm(x) * plain[f"{i}norm1"], weights[f"{i}in"]) + plain[f"{i}in"])
            x = x + times(inner, weights[f"{i}out"]) + plain[f"{i}out"]
        x = jnp.where(mask[..., None], norm(x), 0).sum(1) / mask.sum(1, keepdims=True)
        return times(x, weights["head"]) + plain["head"]

    return Network(shapes, plain, apply)
