"""The work of a prediction in parts that fit memory: so many draws by so many examples at a time."""

import math
from collections.abc import Iterator

import keras
import numpy as np

from singularbayes.models import activations, device_count, draw_bytes, engine_for, free_bytes, output_size, track

_WEIGHT_BYTES = 256 << 20  # drawn weights held at a time
# Of the largest layer's outputs, over all draws and examples at a time: what stays in the caches of a CPU, and a share
# of an accelerator's memory, which also holds the outputs of other layers.
_CACHED_BYTES = 8 << 20
_ACCELERATOR_SHARE = 1 / 16
_REDUCED_BYTES = 16 << 20  # of the outputs that are reduced at a time, in float64 and some copies of them
_SCRATCH_BYTES = 2 << 30  # a compiled program's own memory, on a CPU
_SCRATCH_SHARE = 1 / 2
_LIKE_LENGTHS = 32  # examples in the smallest batch that is made for its length's sake


def stream_draws(
    model, x, examples, keys, batch_size, lengths, alone: bool
) -> Iterator[tuple[int, np.ndarray, list[np.ndarray]]]:
    """Yields (first draw, examples, outputs): chunks of draws outside, batches inside, so weights are made once."""
    run = engine_for(model)
    draws = len(keys)
    if lengths is not None:  # few enough that a batch has like lengths
        batch_size = min(batch_size, max(_LIKE_LENGTHS, math.ceil(examples / 8)))
    chunk, together, batch = sizes(model, x, examples, draws, batch_size)
    order = np.arange(examples) if lengths is None else np.argsort(-lengths, kind="stable")

    def part(first: int):
        where = order[first : first + batch]
        data = keras.tree.map_structure(lambda array: _padded(array[where], batch), x)
        return where, data if lengths is None else data[:, : _rounded(lengths[where].max(), data.shape[1])]

    weights = run.draw(_padded(keys[:chunk], chunk))
    while run.scratch(weights, part(0)[1], together) > _scratch_limit() and together * batch > 1:
        together, batch = (math.ceil(together / 2), batch) if together > 1 else (1, math.ceil(batch / 2))
        if free_bytes() is not None:
            chunk = together
            weights = run.draw(_padded(keys[:chunk], chunk))
    steps = [(d, e) for d in range(0, draws, chunk) for e in range(0, examples, batch)]
    waiting: list[tuple[int, np.ndarray, list]] = []
    for d, e in track(steps, len(steps), "posterior draws") if alone else steps:
        if d and e == 0:
            weights = run.draw(_padded(keys[d : d + chunk], chunk))
        where, data = part(e)
        # An accelerator works on the next outputs while those before are reduced here.
        waiting.append((d, where, run.run(weights, data, together)))
        if len(waiting) > 1:
            yield _fetched(*waiting.pop(0), draws)
    yield _fetched(*waiting.pop(), draws)


def _fetched(first: int, where: np.ndarray, outputs, draws: int):
    """Returns the outputs as arrays, without padding."""
    return first, where, [np.asarray(output)[: draws - first, : len(where)] for output in outputs]


def _rounded(length: int, longest: int) -> int:
    # Quarters of the full length: at most four programs to compile.
    quarter = math.ceil(longest / 4)
    return min(longest, quarter * math.ceil(length / quarter))


def sizes(model, x, examples, draws, batch_size) -> tuple[int, int, int]:
    """Returns how many draws have their weights made and are run together, and how many examples, so that they fit."""
    free, devices = free_bytes(), device_count()
    budget = _CACHED_BYTES if free is None else int(free * _ACCELERATOR_SHARE)
    an_example, reduced = max(1, 4 * activations(model, x)), max(1, 32 * output_size(model, x))
    batch = min(batch_size, examples, max(1, budget // an_example))
    # Examples, or where there are too few the draws, are in equal parts for all devices.
    batch = devices * math.ceil(batch / devices) if batch >= devices else batch
    fit = min(draws, _WEIGHT_BYTES // max(1, draw_bytes(model)), _REDUCED_BYTES // (reduced * batch))
    chunk = _share(draws, max(1, fit))
    if batch < devices:
        chunk = devices * math.ceil(chunk / devices)
        return chunk, chunk, batch
    together = _share(chunk, max(1, min(chunk, budget // (an_example * batch))))
    if free is not None:  # a loop inside the program would cost an accelerator more than another call
        return together, together, batch
    return together * math.ceil(chunk / together), together, batch


def _share(total: int, most: int) -> int:
    """Returns the size of the fewest equal parts that are not above `most`."""
    return math.ceil(total / math.ceil(total / most))


def _scratch_limit() -> int:
    free = free_bytes()
    return _SCRATCH_BYTES if free is None else int(free * _SCRATCH_SHARE)


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    # One shape throughout, so that compiled programs are compiled once; the padding is cut off again.
    missing = length - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array
