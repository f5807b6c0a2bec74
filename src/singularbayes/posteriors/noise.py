"""Random numbers as pure functions of a key (two words).

Keys come from a `SeedGenerator` or from the seed of `predict`. Noise that belongs to a row of a large matrix is a hash
of (key, row, column): only the rows asked for are made, and a row has the same noise in every batch.
"""

import math

import keras
import numpy as np
from keras import ops

_GOLDEN = 0x9E3779B9  # 2^32 / golden ratio: i · _GOLDEN mod 2^32 is equidistributed
_ROOT = 0x6A09E667  # the fraction of √2, times 2^32
_MASK = 0xFFFFFFFF
# Unsigned words wrap by themselves on JAX; elsewhere they live in int64 and are masked.
_WORD = "uint32" if keras.backend.backend() == "jax" else "int64"
# Compiled, a hash costs a third of JAX's generator; operation by operation, many times torch's.
_HASHED = keras.backend.backend() == "jax"


class _Key(keras.random.SeedGenerator):
    """A key dressed as the generator that `keras.random` asks for."""

    def __init__(self, key):
        self.key = key

    def next(self, ordered=True):
        return self.key


def normal(shape, key):
    """Returns independent standard normal numbers."""
    if _HASHED:
        return normal_quantile(uniform(shape, key))
    return keras.random.normal(shape, dtype="float32", seed=_Key(key))


def uniform(shape, key):
    """Returns independent numbers, uniform on (0, 1) without its ends."""
    if _HASHED:
        *lead, columns = shape
        return ops.reshape(uniform_rows(key, ops.arange(math.prod(lead)), columns), shape)
    return ops.clip(keras.random.uniform(shape, dtype="float32", seed=_Key(key)), 2.0**-25, 1 - 2.0**-24)


def normal_quantile(u):
    """Returns the standard normal numbers below which lie the shares u."""
    return math.sqrt(2.0) * ops.erfinv(2.0 * u - 1.0)


def integers(shape, limit: int, key):
    """Returns independent whole numbers, uniform on 0 … limit − 1."""
    return keras.random.randint(shape, 0, limit, dtype="int32", seed=_Key(key))


def split(key, num: int) -> list:
    """Returns `num` independent keys."""
    keys = ops.cast(integers((num, 2), 2**31 - 1, key), _WORD)
    return [keys[i] for i in range(num)]


def as_keys(words: np.ndarray):
    """Returns keys from words that fit 31 bits."""
    return ops.convert_to_tensor(words, dtype=_WORD)


def uniform_rows(key, ids, columns: int):
    """Returns `(*ids.shape, columns)` uniform numbers; those of a row depend on the key and its id alone."""
    first, second = _scramble(key)
    rows = _mix(ops.bitwise_xor(ops.cast(ids, _WORD), first))
    along = _mix(ops.bitwise_xor(_words(columns), second))
    return _unit(_mix(ops.bitwise_xor(ops.expand_dims(rows, -1), along)))


def spread(shape, key):
    """Returns uniform numbers that fill (0, 1) evenly: one random shift of a golden-ratio sequence.

    Each number is uniform, so a mean of f over them is unbiased; together they are equidistributed, so it varies less
    than over independent numbers, and only one word is drawn. They are not independent: not for drawing weights.
    """
    shift, _ = _scramble(key)
    points = _wrap(_words(int(np.prod(shape))) * _constant(_GOLDEN) + shift)
    return ops.reshape(_unit(points), shape)


def spread_normal(shape, key):
    """Returns standard normal numbers that fill the line evenly, as `spread` does; not for drawing weights either.

    R cos(φ + θ) is normal for R² exponential and φ uniform (Box and Muller 1958), whatever θ is. Every position along
    the longest axis has its R and φ, every other position its θ: few logarithms, and none a weight.
    """
    axis = int(np.argmax(shape))
    steps = _words(shape[axis])
    first, second = _scramble(key)
    # Multiples of the golden ratio and of √2 are equidistributed in the square.
    u, v = (_unit(_wrap(steps * _constant(step) + shift)) for step, shift in ((_GOLDEN, first), (_ROOT, second)))
    radius, phi = ops.sqrt(-2.0 * ops.log(u)), 2 * np.pi * v
    others = shape[:axis] + shape[axis + 1 :]
    theta = (2 * np.pi * np.arange(np.prod(others)) / np.prod(others)).reshape(others)
    theta = np.expand_dims(theta, axis).astype("float32")
    along = [-1 if i == axis else 1 for i in range(len(shape))]
    x, y = (ops.reshape(radius * function(phi), along) for function in (ops.cos, ops.sin))
    cosine, sine = (ops.convert_to_tensor(function(theta)) for function in (np.cos, np.sin))
    return x * cosine - y * sine


def _constant(value: int):
    return ops.convert_to_tensor(np.asarray(value), dtype=_WORD)


def _words(num: int):
    return ops.cast(ops.arange(num, dtype="int32"), _WORD)


def _wrap(x):
    return x if _WORD == "uint32" else ops.bitwise_and(x, _constant(_MASK))


def _mix(x):
    # The integer hash "lowbias32": every input bit flips every output bit with probability close to ½.
    x = ops.bitwise_xor(x, ops.bitwise_right_shift(x, _constant(16)))
    x = _wrap(x * _constant(0x7FEB352D))
    x = ops.bitwise_xor(x, ops.bitwise_right_shift(x, _constant(15)))
    x = _wrap(x * _constant(0x846CA68B))
    return ops.bitwise_xor(x, ops.bitwise_right_shift(x, _constant(16)))


def _scramble(key):
    # A SeedGenerator counts up, and neighbouring words xor'ed with ids are the same words in another order. So both
    # are hashed first; the key can be read back from the two results, so different keys stay different.
    key = ops.cast(key, _WORD)
    first = _mix(ops.bitwise_xor(_mix(key[1]), key[0]))
    return first, _mix(ops.bitwise_xor(ops.bitwise_xor(first, key[1]), _constant(_GOLDEN)))


def _unit(bits):
    # The upper 23 bits, centred in their cell: with the half, all that a float32 holds, so never 0 and never 1.
    return (ops.cast(ops.bitwise_right_shift(bits, _constant(9)), "float32") + 0.5) * 2.0**-23
