"""Random numbers as pure functions of a key (two words).

Keys come from a `SeedGenerator` or from the seed of `predict`. On JAX a number is a hash of (key, row, column), which
compiled into one loop is cheaper than JAX's generator. Elsewhere it is the backend's.
"""

import math
import threading
from functools import partial

import keras
import numpy as np
from keras import ops
from keras.src.backend.common.stateless_scope import in_stateless_scope

_GOLDEN = (
    0x9E3779B9  # 2^32 / golden ratio: bits without a pattern, so that no key gives rows and columns the same words
)
# Giles's polynomials of erfinv(x) / x, highest power first: near the middle, and in the tails.
_INNER = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    2.1858087e-04,
    -1.25372503e-03,
    -4.17768164e-03,
    2.46640727e-01,
    1.50140941,
)
_OUTER = (
    -2.00214257e-04,
    1.00950558e-04,
    1.34934322e-03,
    -3.67342844e-03,
    5.73950773e-03,
    -7.6224613e-03,
    9.43887047e-03,
    1.00167406,
    2.83297682,
)
_MASK = 0xFFFFFFFF
_WORD = "uint32" if keras.backend.backend() == "jax" else "int64"
_HASHED = keras.backend.backend() == "jax"  # operation by operation a hash is dearer than a generator


def one_program(*static: int):
    """Returns a decorator that compiles a function on JAX, where else each of its operations would be compiled alone.

    Inside a function that is compiled anyway nothing changes: the operations are put there one by one.

    Args:
        static: the positions of the arguments that are not arrays.
    """
    if keras.backend.backend() != "jax":
        return lambda function: function
    import jax

    return partial(jax.jit, static_argnums=static, inline=True)


class _Key(keras.random.SeedGenerator):
    """A key dressed as the generator that `keras.random` expects."""

    def __init__(self, key):
        self.key = key

    def next(self, ordered=True):
        # Keras on torch looks for shapes with tensors without data first; where that fails, it leaves such a key.
        without_data = getattr(getattr(self.key, "device", None), "type", "") == "meta"
        return np.zeros(2, "int64") if without_data else self.key


@one_program(0)
def normal(shape, key):
    """Returns independent standard normal numbers."""
    if _HASHED:
        return normal_quantile(uniform(shape, key))
    if keras.backend.backend() == "tensorflow":
        return _box_muller(shape, key)
    generator = _torch_generator(key)
    if generator is not None:
        import torch

        return torch.randn(tuple(shape), generator=generator, device=generator.device)
    return keras.random.normal(shape, dtype="float32", seed=_Key(key))


def _box_muller(shape, key):
    """Returns standard normal numbers by Box and Muller's formula (1958), in half the time of TensorFlow's own."""
    size = math.prod(shape)
    u, v = ops.split(keras.random.uniform((2 * -(-size // 2),), dtype="float32", seed=_Key(key)), 2)
    radius, angle = ops.sqrt(-2.0 * ops.log(1.0 - u)), (2.0 * math.pi) * v  # u may be 0
    return ops.reshape(ops.concatenate([radius * ops.cos(angle), radius * ops.sin(angle)])[:size], shape)


@one_program(0)
def uniform(shape, key):
    """Returns independent numbers, uniform on (0, 1) without its ends."""
    if _HASHED:
        *lead, columns = shape
        return ops.reshape(_hashed(key, math.prod(lead), columns), shape)
    return ops.clip(keras.random.uniform(shape, dtype="float32", seed=_Key(key)), 2.0**-25, 1 - 2.0**-24)


@one_program()
def normal_quantile(u):
    """Returns the standard normal numbers below which lie the shares u.

    Giles (2010), in single precision: one logarithm, one root, two polynomials. `erfinv` computes the same, but XLA
    does not vectorise it on a CPU.
    """
    w = -ops.log(4.0 * u * (1.0 - u))
    inner, outer = _polynomial(_INNER, w - 2.5), _polynomial(_OUTER, ops.sqrt(w) - 3.0)
    return math.sqrt(2.0) * (2.0 * u - 1.0) * ops.where(w < 5.0, inner, outer)


def _polynomial(coefficients, x):
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def _torch_generator(key):
    """Returns torch's generator with the seed that Keras would take from a key; None where the key has no values.

    One object for each thread: making a generator, and the operations by which Keras reads a key, cost more than small
    draws.
    """
    import torch
    from keras.src.backend.torch.core import get_device

    device = get_device()
    if device == "meta" or getattr(key, "is_meta", False):  # where shapes are sought
        return None
    known = _OF_THREAD.__dict__.setdefault("generators", {})
    if device not in known:
        known[device] = torch.Generator(device)
    return known[device].manual_seed(sum(key.tolist()) & _MASK)


_OF_THREAD = threading.local()  # threads that seed one generator would get each other's numbers


def next_key(seeds: keras.random.SeedGenerator):
    """Returns the next key of a generator of Keras; on torch by two operations instead of ten."""
    if keras.backend.backend() != "torch" or in_stateless_scope():
        return seeds.next()
    state = seeds.state.value
    key = state.clone()
    state[1].add_(1)
    return key


def integers(shape, limit: int, key):
    """Returns independent integers, uniform on 0 … limit − 1."""
    return keras.random.randint(shape, 0, limit, dtype="int32", seed=_Key(key))


@one_program(1)
def split(key, num: int) -> list:
    """Returns `num` independent keys."""
    keys = ops.cast(integers((num, 2), 2**31 - 1, key), _WORD)
    return [keys[i] for i in range(num)]


def as_keys(words: np.ndarray):
    """Returns keys from words that fit 31 bits."""
    return ops.convert_to_tensor(words, dtype=_WORD)


def _hashed(key, rows: int, columns: int):
    """Returns (rows, columns) uniform numbers, each a hash of its place; words of 32 bits wrap by themselves."""
    first, second = _scramble(key)
    down, along = (ops.cast(ops.arange(size, dtype="int32"), _WORD) for size in (rows, columns))
    down, along = _mix(ops.bitwise_xor(down, first)), _mix(ops.bitwise_xor(along, second))
    bits = _mix(ops.bitwise_xor(ops.expand_dims(down, -1), along))
    # The upper 23 bits, centred in their cell: with the half, all that a float32 holds, so never 0 and never 1.
    return (ops.cast(ops.bitwise_right_shift(bits, _constant(9)), "float32") + 0.5) * 2.0**-23


def _constant(value: int):
    return ops.convert_to_tensor(np.asarray(value), dtype=_WORD)


def _mix(x):
    # The integer hash "lowbias32": every input bit flips every output bit with probability close to ½.
    x = ops.bitwise_xor(x, ops.bitwise_right_shift(x, _constant(16)))
    x = x * _constant(0x7FEB352D)
    x = ops.bitwise_xor(x, ops.bitwise_right_shift(x, _constant(15)))
    x = x * _constant(0x846CA68B)
    return ops.bitwise_xor(x, ops.bitwise_right_shift(x, _constant(16)))


def _scramble(key):
    # A SeedGenerator counts up, and neighbouring words xor'ed with ids are the same words in another order. So both
    # are hashed first; the key can be read back from the two results, so different keys stay different.
    key = ops.cast(key, _WORD)
    first = _mix(ops.bitwise_xor(_mix(key[1]), key[0]))
    return first, _mix(ops.bitwise_xor(ops.bitwise_xor(first, key[1]), _constant(_GOLDEN)))
