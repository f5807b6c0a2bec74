"""Running draws of a model: vectorised over draws, in chunks that fit memory.

Draw s of a seed is a key hashed from (seed, s), split into one key per posterior: it depends on nothing else, so it is
the same function for every batch of the data and however draws are chunked. What no draw changes, the layers before the
first random ones, runs once for a batch (see `prefix`).
"""

import functools
import math
import os
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.models import batch_mesh, free_bytes, no_gradient, program_of, track, variable_values
from singularbayes.posteriors import draw_sources, find_sources, noise
from singularbayes.prediction.memory import FEW, chunk_sizes, forget_others, kept_limit, program_limit, side_by_side
from singularbayes.prediction.prefix import frontier_of, outputs_under, split_of
from singularbayes.prediction.vectorized import TensorFlowSampler, TorchSampler


def stream_draws(
    model, x, examples, keys, batch_size, lengths, alone: bool, sizes: dict | None = None
) -> Iterator[tuple[int, np.ndarray, list[np.ndarray]]]:
    """Yields (first draw, examples, outputs): chunks of draws outside, batches inside, so weights are made once.

    Where there are several chunks, the outputs of the prefix are kept for as many batches as fit memory, and weights
    are made once for so many.

    Args:
        sizes: the sizes of chunks and batches that were found for other examples, for the same programs again; the
            ones found here are added.
    """
    sampler: Any = sampler_of(model)
    draws = len(keys)
    sizes = {} if sizes is None else sizes
    form = (id(model), *((array.shape[1:], array.dtype.str) for array in keras.tree.flatten(x)))
    if lengths is not None:  # few enough that a batch has like lengths
        batch_size = min(batch_size, max(32, math.ceil(examples / 8)))
    chunk, batch = sizes.get(form) or chunk_sizes(model, x, examples, draws, batch_size)
    order = np.arange(examples) if lengths is None else np.argsort(-lengths, kind="stable")

    def part(first: int):
        where = order[first : first + batch]
        data = keras.tree.map_structure(lambda array: _padded(array[where], batch), x)
        return where, data if lengths is None else data[:, : _rounded(lengths[where].max(), data.shape[1])]

    weights, data = sampler.draw(_padded(keys[:chunk], chunk)), part(0)[1]
    while (
        form not in sizes
        and chunk * batch > 1
        and sampler.scratch_bytes(weights, data, shared=chunk < draws) > program_limit()
    ):
        group = side_by_side(model, data, chunk)
        chunk, batch = (math.ceil(group / 2), batch) if chunk > 1 else (1, math.ceil(batch / 2))
        weights, data = sampler.draw(_padded(keys[:chunk], chunk)), part(0)[1]
    sizes[form] = chunk, batch
    starts, window, known = list(range(0, examples, batch)), math.ceil(examples / batch), dict[int, Any]()
    shares = chunk < draws and sampler.splits
    if shares:
        known[0] = sampler.prefix(data)
        window = max(1, kept_limit() // max(1, _bytes(known[0])))
    windows = [starts[i : i + window] for i in range(0, len(starts), window)]
    steps = [(d, e, part_of) for part_of in windows for d in range(0, draws, chunk) for e in part_of]
    waiting: list[tuple[int, np.ndarray, list]] = []
    drawn = 0
    for d, e, part_of in track(steps, len(steps), "posterior draws") if alone else steps:
        if d != drawn:
            weights, drawn = sampler.draw(_padded(keys[d : d + chunk], chunk)), d
        where, data = part(e)
        if shares and e not in known:
            known = {first: kept for first, kept in known.items() if first in part_of}  # of other windows no more
            known[e] = sampler.prefix(data)
        # An accelerator works on the next outputs while those before are reduced here.
        waiting.append((d, where, sampler.run(weights, data, known.get(e))))
        if len(waiting) > 1:
            yield _fetched(*waiting.pop(0), draws)
    yield _fetched(*waiting.pop(), draws)


def _bytes(frontier) -> int:
    return sum(math.prod(array.shape) * 4 for array in keras.tree.flatten(frontier))


def _fetched(first: int, where: np.ndarray, outputs, draws: int):
    """Returns the outputs as arrays, without padding."""
    return first, where, [np.asarray(output)[: draws - first, : len(where)] for output in outputs]


def _rounded(length: int, longest: int) -> int:
    # Quarters of the full length: at most four programs to compile.
    quarter = math.ceil(longest / 4)
    return min(longest, quarter * math.ceil(length / quarter))


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    # One shape throughout, so that compiled programs are compiled once; the padding is cut off again.
    missing = length - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array


def outputs_of_draw(model: keras.Model, key, x) -> list:
    """Returns the outputs, flattened, of one draw for all of `x`, operation by operation."""
    sources = find_sources(model)
    with no_gradient():
        return outputs_under(model, sources, draw_sources(sources, key), x)


def outputs_of_draws(model: keras.Model, keys, pick, x) -> list:
    """Returns the outputs, flattened, of each draw for examples of its own: row numbers of `x` in `pick` (draws, …).

    One draw after another in one program, so `pick` may be different for each without a copy of `x`.
    """
    sources = find_sources(model)

    def outputs(key, rows):
        own = keras.tree.map_structure(lambda array: ops.take(array, rows, axis=0), x)
        return outputs_under(model, sources, draw_sources(sources, key), own)

    if keras.backend.backend() == "jax":
        import jax

        return jax.lax.map(lambda each: outputs(*each), (keys, pick))
    with keras.StatelessScope():
        found = [outputs(key, rows) for key, rows in zip(keys, pick, strict=True)]
        return [ops.stack(output) for output in zip(*found, strict=True)]


class JaxSampler:
    """Draws of a chunk as compiled programs. The data stream past them, over all devices there are.

    On a CPU a chunk is in equal parts, at most one for each core, and the parts run at once: XLA shares a large product
    among cores, but neither many small ones nor the steps of a loop. Weights are (values of the model, draws in parts),
    and what is kept between calls is assigned whole: threads may predict with one model.
    """

    def __init__(self, model: keras.Model):
        self.model: Callable[[], Any] = weakref.ref(model)
        self._drawn: tuple = (None, ((), []))  # keys and weights of the last call

    def draw(self, keys: np.ndarray) -> tuple:
        """Returns the weights of these draws; those of the last call again while the model is the same."""
        model = self.model()
        values = variable_values(model)
        old_keys, weights = self._drawn
        same = len(values) == len(weights[0]) and all(a is b for a, b in zip(values, weights[0], strict=True))
        if not (same and np.array_equal(keys, old_keys)):
            self._drawn = None, ((), [])
            del weights  # free before others are made
            program, number = program_of(model, _draw_chunk), _number_of_parts(len(keys))
            weights = values, [program(values, noise.as_keys(some)) for some in np.split(keys, number)]
            self._drawn = keys, weights
        forget_others(self, weights[1])
        return weights

    def forget(self) -> None:
        """Frees the weights of the last draws."""
        self._drawn = None, ((), [])

    @property
    def splits(self) -> bool:
        """Whether the model has a part that all draws share and that is worth a program of its own."""
        return split_of(self.model()) is not None and batch_mesh()[0].size == 1

    def prefix(self, x):
        """Returns what the part of the model that all draws share gives for `x`, for `run`."""
        model = self.model()
        return program_of(model, frontier_of)(variable_values(model), x)

    def run(self, weights: tuple, x, frontier=None) -> list:
        """Returns the model's outputs, flattened, each (draws, examples, …), under weights that `draw` made.

        An accelerator is not waited for.

        Args:
            frontier: what `prefix` gave for `x`, where it is known already.
        """
        values, parts = weights
        if len(parts) == 1:
            outputs = [_whole(output) for output in self.run_on_devices(weights, x, frontier)]
            return outputs if free_bytes() is not None else [np.asarray(output) for output in outputs]
        if frontier is None and self.splits:
            frontier = self.prefix(x)
        others = (x,) if frontier is None else (x, frontier)
        program = program_of(self.model(), _run_chunk).compiled(values, parts[0], *others)

        def run_part(draws) -> list[np.ndarray]:
            return list(map(np.asarray, program(values, draws, *others)))

        rest = _threads().map(run_part, parts[1:])  # while this thread runs the first
        found = [run_part(parts[0]), *rest]
        return [np.concatenate(outputs) for outputs in zip(*found, strict=True)]

    def run_on_devices(self, weights: tuple, x, frontier=None) -> list:
        """Returns the outputs of draws in one part as they lie on the devices."""
        (values, [draws]), known = weights, () if frontier is None else (frontier,)
        program = program_of(self.model(), _run_chunk)
        if batch_mesh()[0].size == 1:  # the program whose memory was asked for: not another one of `jit`
            return program.compiled(values, draws, x, *known)(values, draws, x, *known)
        return program(values, *_spread(draws, x), *known)

    def scratch_bytes(self, weights: tuple, x, shared: bool = False) -> int:
        """Returns the bytes that a run of these shapes takes beside its inputs and outputs.

        Args:
            shared: whether `run` gets the frontier also of draws in one part, as it does where chunks share it.
        """
        model, (values, parts) = self.model(), weights
        program = program_of(model, _run_chunk)
        if not self.splits or (len(parts) == 1 and not shared):
            return len(parts) * program.scratch_bytes(values, *_spread(parts[0], x))
        frontier = program_of(model, frontier_of).output_shapes(values, x)
        return len(parts) * program.scratch_bytes(values, parts[0], x, frontier)


def _number_of_parts(draws: int) -> int:
    """Returns in how many equal parts draws run at once: on one CPU up to the number of its cores, elsewhere one."""
    if free_bytes() is not None or batch_mesh()[0].size > 1:
        return 1
    return max(number for number in range(1, min(draws, _cores()) + 1) if draws % number == 0)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _threads() -> ThreadPoolExecutor:
    return _threads_of(os.getpid())  # those of another process are not in a fork of it


@functools.cache
def _threads_of(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_cores())


def _draw_chunk(model, keys):
    import jax

    sources = find_sources(model)
    return jax.vmap(lambda key: draw_sources(sources, key))(keys)


def _run_chunk(model, draws, x, frontier=None):
    import jax

    sources, values = find_sources(model), [(variable, variable.value) for variable in model.variables]
    frontier = frontier_of(model, x) if frontier is None else frontier
    given = x if frontier is None else frontier

    def run(draw, given):
        # Every draw starts from the states of a stateful layer.
        with keras.StatelessScope(state_mapping=values):
            return outputs_under(model, sources, draw, given, None if frontier is None else given)

    arrays = keras.tree.flatten(draws)
    if not arrays:  # nothing is random: one draw
        return [output[None] for output in run(draws, given)]
    chunk = len(arrays[0])
    group = side_by_side(model, x, chunk)
    if group < chunk:
        return jax.lax.map(lambda draw: run(draw, given), draws, batch_size=group)
    if len(keras.tree.flatten(x)[0]) > FEW:
        return jax.vmap(run, (0, None))(draws, given)
    return jax.vmap(run)(draws, keras.tree.map_structure(lambda array: _copies(array, chunk), given))


def _copies(array, number: int):
    """Returns a copy for each draw, which the compiler must not take for one array again.

    A product of an array that draws share with their matrices is one product of large matrices, for which the matrices
    of all draws are laid out anew: dearer than the product itself where the array has few rows.
    """
    import jax

    return jax.lax.optimization_barrier(jax.numpy.broadcast_to(array, (number, *array.shape)))


def _spread(draws, x):
    """Returns draws and data with the data, or where that is too little the draws, split over the devices."""
    import jax

    mesh, axis = batch_mesh()
    devices = mesh.shape[axis]
    if mesh.size == 1:
        return draws, x
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(axis))
    sizes = [{len(array) for array in keras.tree.flatten(arrays)} for arrays in (x, draws)]
    if all(size % devices == 0 for size in sizes[0]):
        return draws, jax.device_put(x, split)
    if sizes[1] and all(size % devices == 0 for size in sizes[1]):
        return jax.device_put(draws, split), x
    return draws, x


def _whole(output):
    """Returns an output of which parts may lie on devices of other processes as one that this process has whole."""
    if output.is_fully_addressable or output.is_fully_replicated:
        return output
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(output, tiled=True)


_SAMPLERS: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


_KINDS: dict[str, Any] = {"jax": JaxSampler, "torch": TorchSampler, "tensorflow": TensorFlowSampler}


def sampler_of(model: keras.Model) -> JaxSampler | TorchSampler | TensorFlowSampler:
    """Returns the model's sampler; it is kept with its last draws as long as the model lives."""
    if model not in _SAMPLERS:
        _SAMPLERS[model] = _KINDS[keras.backend.backend()](model)
    return _SAMPLERS[model]
