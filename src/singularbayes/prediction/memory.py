"""How many draws and examples of a prediction run at a time, so that they fit memory."""

import math
import threading
import weakref
from typing import Any

import keras

from singularbayes.layers import BayesianLayer
from singularbayes.models import device_count, free_bytes
from singularbayes.posteriors import find_sources, flat_layers
from singularbayes.prediction.prefix import QUIET, split_of

FEW = 16  # Up to this many examples, products are so small that draws are best computed together.
_CHUNK_BYTES = 256 << 20  # the drawn weights of a chunk, and its outputs while they are reduced
# The largest layer's outputs for the draws that run side by side: what stays in the caches of a CPU, and a share of an
# accelerator's free memory, which also holds the outputs of other layers.
_CACHE_BYTES = 8 << 20
_FREE_SHARE = 1 / 16
_MOMENTS = 8  # numbers per output that are in memory while draws are averaged
_BLOCK_BYTES = 64 << 20  # the inputs of examples that are read together, and their predictions
_PROGRAM_FACTOR = 8  # so many chunks, or shares of free memory, may a compiled program take


def chunk_sizes(model: keras.Model, x, examples: int, draws: int, batch_size: int) -> tuple[int, int]:
    """Returns how many draws are a chunk, whose weights are made together, and how many examples are a batch."""
    devices, fitting = device_count(), _layer_bytes() // _example_bytes(model, x)  # draws × examples side by side
    batch = min(batch_size, _usual_size(model, examples), max(1, fitting))
    # Examples, or where there are too few the draws, are in equal parts for all devices.
    batch = devices * math.ceil(batch / devices) if batch >= devices else batch
    reduced = 32 * batch * _output_size(model, x)  # in float64, and some copies
    chunk = _equal_part(draws, _CHUNK_BYTES // max(1, draw_bytes(model) + reduced))
    if batch < devices:
        return devices * math.ceil(chunk / devices), batch
    group = _equal_part(chunk, fitting // batch)
    # Groups run one after another inside a program; on an accelerator that would cost more than another call.
    return (group * math.ceil(chunk / group) if free_bytes() is None else group), batch


def block_rows(model: keras.Model, x, kept_draws: int, batch_size: int) -> int:
    """Returns how many examples are read and predicted together: batches, as many as fit memory.

    Args:
        x: some of the examples.
        kept_draws: draws of every example that are in memory until its quantiles are known.
    """
    arrays = keras.tree.flatten(x)
    inputs = sum(array.nbytes / max(1, len(array)) for array in arrays)
    outputs = 8 * (kept_draws + _MOMENTS) * max(1, _output_size(model, x))
    return batch_size * max(1, int(_BLOCK_BYTES // (inputs + outputs)) // batch_size)


def side_by_side(model: keras.Model, x, chunk: int) -> int:
    """Returns how many draws of a chunk run at once for a batch `x`: equal groups that fit the caches of a CPU."""
    batch = len(keras.tree.flatten(x)[0])
    if free_bytes() is not None or batch < device_count():
        return chunk
    return _divisor(chunk, _layer_bytes() // _example_bytes(model, x) // batch)


def together(model: keras.Model, x, chunk: int) -> int:
    """Returns how many draws of a chunk may run at once for few examples: equal groups whose outputs fit memory."""
    return _divisor(chunk, kept_limit() // _example_bytes(model, x) // len(keras.tree.flatten(x)[0]))


def at_once(model: keras.Model, x) -> int:
    """Returns how many draws of a batch `x` may be computed in threads at the same time: their outputs fit memory."""
    return max(1, kept_limit() // (_example_bytes(model, x) * len(keras.tree.flatten(x)[0])))


def program_limit() -> int:
    """Returns the bytes that a compiled program may take beside its inputs and outputs."""
    free = free_bytes()
    return int(_PROGRAM_FACTOR * (_CHUNK_BYTES if free is None else free * _FREE_SHARE))


def kept_limit() -> int:
    """Returns the bytes that outputs of the layers before the first random ones may take while draws pass."""
    free = free_bytes()
    return _CHUNK_BYTES if free is None else int(2 * free * _FREE_SHARE)


def draw_bytes(model: keras.Model) -> int:
    """Returns an upper bound of the memory that one draw of the weights takes."""
    return 4 * sum(source.draw_size for source in find_sources(model))


def _layer_bytes() -> int:
    free = free_bytes()
    return _CACHE_BYTES if free is None else int(free * _FREE_SHARE)


_KEPT: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # bytes by sampler, the last used last
_LOCK = threading.Lock()


def forget_others(sampler, draws) -> None:
    """Keeps drawn weights for the next request: those of the samplers used last, 256 MB of them in all.

    Args:
        sampler: the one that is used now; the others have a method `forget`.
        draws: its drawn weights.
    """
    with _LOCK:
        _KEPT.pop(sampler, None)
        _KEPT[sampler] = size = sum(4 * math.prod(array.shape) for array in keras.tree.flatten(draws))
        for other, own in reversed(list(_KEPT.items())[:-1]):
            size += own
            if size > _CHUNK_BYTES:
                other.forget()
                del _KEPT[other]


def _usual_size(model: keras.Model, examples: int) -> int:
    """Returns the next of 1, 2, 3, 4, 6, 8, 12, 16, 24, …: so few programs are compiled for requests of all sizes.

    PyTorch compiles none, a model with states has them for one size, and a layer of a user may mix examples.
    """
    fixed = any(tensor.shape[0] for tensor in getattr(model, "inputs", None) or ())
    layers = flat_layers(model)
    own = any(getattr(p, "stateful", False) or not type(p).__module__.startswith(QUIET) for p in layers)
    if keras.backend.backend() == "torch" or fixed or own:
        return examples
    power = 1 << (examples - 1).bit_length()
    return 3 * power // 4 if power > 2 and examples <= 3 * power // 4 else power


def _divisor(total: int, most: int) -> int:
    """Returns the largest divisor of `total` that is not above `most`, at least 1."""
    return next(part for part in range(max(1, min(total, most)), 0, -1) if total % part == 0)


def _equal_part(total: int, most: int) -> int:
    """Returns the size of the fewest equal parts that are not above `most`, at least 1."""
    return math.ceil(total / math.ceil(total / max(1, most)))


def _example_bytes(model, x) -> int:
    """Returns the bytes of the largest array that a layer is known to make for one example and draw, at least 4."""
    split = split_of(model)
    run = [model] if split is None else split.random_layers
    return 4 * max(1, *(_activation_size(layer, x) for each in run for layer in flat_layers(each)))


def _activation_size(layer, x) -> int:
    inside = layer.activation_size(_length(x)) if isinstance(layer, BayesianLayer) else 0
    try:
        return max(inside, _largest(keras.tree.flatten(layer.output), x))
    except (AttributeError, ValueError):  # not called on symbolic tensors, or more than once
        return inside


def _output_size(model, x) -> int:
    """Returns the numbers in the model's largest output for one example; 0 where it is not known."""
    return _largest(getattr(model, "outputs", None) or [], x)


def _largest(tensors, x) -> int:
    # Sizes that a model leaves open, such as the length of a sequence, are the data's.
    return max((math.prod(dim or _length(x) for dim in tensor.shape[1:]) for tensor in tensors), default=0)


def _length(x) -> int:
    return max((size for array in keras.tree.flatten(x) for size in array.shape[1:2]), default=1)
