"""The outputs of a model under draws of its weights: one function over draws, for one batch after another.

Draw s of a seed is a key hashed from (seed, s), split into one key per posterior. It depends on nothing else, so it is
the same function for every batch of the data, however draws are grouped. Draws run side by side in groups (`vmap`).
What no draw changes, such as a body of plain layers, is not batched there: it runs once for a group.
"""

import itertools
import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.layers import BayesianLayer
from singularbayes.models.programs import (
    as_numpy,
    batch_mesh,
    device_count,
    form_of,
    no_gradient,
    program_of,
    variable_values,
)
from singularbayes.models.progress import track
from singularbayes.posteriors import draw_sources, find_sources, flat_layers, noise, scope

BUDGET = 256 << 20  # bytes that drawn weights, and outputs while they are averaged, may take
_CACHES = 32  # what runs side by side takes a BUDGET / 32: more no longer fits the caches of a CPU


def budget() -> int:
    """Returns how many bytes a prediction may take beside its data: on an accelerator half of what is free."""
    if keras.backend.backend() == "jax":
        import jax

        stats = jax.local_devices()[0].memory_stats() or {}
        if "bytes_limit" in stats:
            return (stats["bytes_limit"] - stats["bytes_in_use"]) // 2
    return BUDGET


def stream_draws(model, x, keys: np.ndarray, batch_size: int) -> Iterator[tuple[int, slice, list[np.ndarray]]]:
    """Yields (first draw, examples, outputs): chunks of draws outside, batches inside, so weights are made once."""
    examples, draws = len(keras.tree.flatten(x)[0]), len(keys)
    chunk, group, batch = sizes(model, x, draws, batch_size)
    steps = [(d, e) for d in range(0, draws, chunk) for e in range(0, examples, batch)]
    weights: Any = None
    for first, start in track(steps, len(steps), "posterior draws"):
        if start == 0:
            weights = None  # free before others are made
            some = _padded(keys[first : first + chunk], chunk)
            weights = _draw_weights(model, some.reshape(-1, group, some.shape[-1]))
        where = slice(start, min(examples, start + batch))
        data = keras.tree.map_structure(lambda array: _placed(_padded(array[where], batch)), x)  # noqa: B023
        outputs = map(_fetched, run_compiled(model, _run_draws, weights, data))
        yield first, where, [output[: draws - first, : where.stop - start] for output in outputs]


def sizes(model, x, draws: int, batch_size: int) -> tuple[int, int, int]:
    """Returns how many draws have their weights made together, how many run side by side, and for how many examples.

    Where a body of plain layers does most of the work, draws share it: all run side by side, for fewer examples. Else
    as many examples are taken as are wanted and fit, and draws beside them as far as they fit too.
    """
    examples = len(keras.tree.flatten(x)[0])
    pair = 4 * _widest(model, x)  # bytes of one example under one draw
    fitting = max(1, budget() // _CACHES // pair)
    weights = 4 * sum(source.draw_size for source in find_sources(model))
    batch = min(batch_size, _usual_size(model, examples), fitting)
    outputs = 32 * output_size(model, x)  # in float64, and copies
    chunk = _equal_part(draws, budget() // max(1, weights + batch * outputs))
    if _has_body(model):
        batch, group = min(batch, max(1, fitting // chunk)), chunk
    else:
        group = _equal_part(chunk, fitting // batch)
    devices = device_count()
    batch = devices * math.ceil(batch / devices) if batch >= devices else batch
    return group * math.ceil(chunk / group), group, batch


def output_size(model, x) -> int:
    """Returns the numbers in the model's largest output for one example; 0 where it is not known."""
    return _largest(getattr(model, "outputs", None) or [], x)


def outputs_under(model: keras.Model, sources, draw, x) -> list:
    """Returns the outputs, flattened, of one draw. States of stateful layers are left as they are."""
    values = [(variable, variable.value) for variable in model.variables]
    fixed = {id(source): arrays for source, arrays in zip(sources, draw, strict=True)}
    with keras.StatelessScope(state_mapping=values), scope.fix_draws(fixed):
        return keras.tree.flatten(model(x, training=False))


def outputs_of_draws(model: keras.Model, keys, pick, x) -> list:
    """Returns the outputs, flattened, of each draw for examples of its own: row numbers of `x` in `pick` (draws, …)."""
    sources = find_sources(model)

    def one(each):
        key, rows = each
        own = keras.tree.map_structure(lambda array: ops.take(array, rows, axis=0), x)
        return outputs_under(model, sources, draw_sources(sources, key), own)

    return ops.map(one, (keys, pick))


def _draw_weights(model, keys: np.ndarray) -> list[tuple]:
    """Returns the arrays of every source for keys (groups, draws of a group, 3), with these two axes first."""
    sources = find_sources(model)
    if not any(source.random for source in sources):
        return [() for _ in sources]
    return run_compiled(model, _draw_all, noise.as_keys(keys))


def _draw_all(model, keys):
    sources = find_sources(model)
    each = ops.vectorized_map if keras.backend.backend() == "jax" else ops.map  # others cannot vectorise generators
    return each(lambda some: each(lambda key: draw_sources(sources, key), some), keys)


def _run_draws(model, weights, x) -> list:
    """Returns the outputs of all draws, (draws, examples, …): one group of draws after another."""
    sources = find_sources(model)

    def one(draw):
        return outputs_under(model, sources, draw, x)

    if not keras.tree.flatten(weights):  # nothing is random: one draw
        return [ops.expand_dims(output, 0) for output in one(weights)]
    outputs = ops.map(partial(side_by_side, one, model=model), weights)
    return [ops.reshape(output, (-1, *output.shape[2:])) for output in outputs]


_IN_TURN: weakref.WeakSet = weakref.WeakSet()  # models with an operation that takes one draw at a time


def side_by_side(function: Callable, draws, model: keras.Model | None = None) -> list:
    """Returns function(draw), a list, for stacked draws: under `vmap`, which computes once what no draw changes."""
    if keras.tree.flatten(draws)[0].shape[0] > 1 and model not in _IN_TURN:
        try:
            with _vmapped_torch() if keras.backend.backend() == "torch" else nullcontext():
                return ops.vectorized_map(function, draws)
        except (RuntimeError, NotImplementedError, TypeError, ValueError, LookupError):
            outputs = ops.map(function, draws)  # which raises errors of the data again
            _IN_TURN.update([] if model is None else [model])
            return outputs
    return ops.map(function, draws)


def run_compiled(model: keras.Model, function: Callable, *arguments):
    """Returns function(model, *arguments): a compiled program on JAX and TensorFlow."""
    backend = keras.backend.backend()
    if backend == "jax":
        return program_of(model, function)(variable_values(model), *arguments)
    arguments = keras.tree.map_structure(ops.convert_to_tensor, arguments)
    if backend == "tensorflow":
        return _tensorflow_function(model, function)(*arguments)
    with no_gradient():
        return function(model, *arguments)


_FUNCTIONS: weakref.WeakKeyDictionary[Any, tuple[tuple, dict[Callable, Any]]] = weakref.WeakKeyDictionary()


def _tensorflow_function(model: keras.Model, function: Callable) -> Any:
    import tensorflow as tf

    state = (form_of(model), *map(id, model.variables))
    known, functions = _FUNCTIONS.get(model, (None, {}))
    if state != known:
        _FUNCTIONS[model] = state, (functions := {})
    reference = weakref.ref(model)
    return functions.setdefault(
        function, tf.function(lambda *arguments: function(reference(), *arguments), autograph=False)
    )


@contextmanager
def _vmapped_torch() -> Iterator[None]:
    """Lets torch take several draws at once where Keras, or a fused kernel, would look at the memory of one."""
    import torch

    class AnyLayout(torch.overrides.TorchFunctionMode):
        """Keras's convolutions ask how images lie in memory, which is not known for several draws at once."""

        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.Tensor.is_contiguous and kwargs:
                return True
            return func(*args, **(kwargs or {}))

    with AnyLayout(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        yield


def _placed(array):
    """Returns an array of a batch with its examples split over the devices, where they divide it."""
    if device_count() == 1 or len(array) % device_count():
        return array
    import jax

    mesh, axis = batch_mesh()
    return jax.device_put(array, jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(axis)))


def _fetched(output) -> np.ndarray:
    """Returns an output as an array; parts of it may lie on devices of other processes."""
    if not getattr(output, "is_fully_addressable", True) and not output.is_fully_replicated:
        from jax.experimental import multihost_utils

        output = multihost_utils.process_allgather(output, tiled=True)
    return as_numpy(output)


def _has_body(model) -> bool:
    """Returns whether plain weights before the first random one are more than those that are drawn."""
    sources: list[Any] = find_sources(model)
    random = {id(variable) for source in sources for variable in source.variables}
    before = itertools.takewhile(lambda variable: id(variable) not in random, model.weights)
    return sum(math.prod(variable.shape) for variable in before) > sum(source.draw_size for source in sources)


def _widest(model, x) -> int:
    """Returns the size of the largest array that a layer makes for one example, from the first random layer on."""
    layers = flat_layers(model)[1:]
    first = next((i for i, layer in enumerate(layers) if isinstance(layer, BayesianLayer)), 0)
    return max([1, *(_activation_size(layer, x) for layer in layers[first:])])


def _activation_size(layer, x) -> int:
    inside = layer.activation_size(_length(x)) if isinstance(layer, BayesianLayer) else 0
    try:
        return max(inside, _largest(keras.tree.flatten(layer.output), x))
    except (AttributeError, ValueError):  # not called on symbolic tensors, or more than once
        return inside


def _largest(tensors, x) -> int:
    # Sizes that a model leaves open, such as the length of a sequence, are the data's.
    return max((math.prod(dim or _length(x) for dim in tensor.shape[1:]) for tensor in tensors), default=0)


def _length(x) -> int:
    return max((size for array in keras.tree.flatten(x) for size in array.shape[1:2]), default=1)


def _usual_size(model, examples: int) -> int:
    """Returns the next power of two: so few programs are compiled for requests of all sizes."""
    fixed = any(tensor.shape[0] for tensor in getattr(model, "inputs", None) or ())
    return examples if fixed or keras.backend.backend() == "torch" else 1 << (examples - 1).bit_length()


def _equal_part(total: int, most: int) -> int:
    """Returns the size of the fewest equal parts that are not above `most`, at least 1."""
    return math.ceil(total / math.ceil(total / max(1, most)))


def _padded(array: np.ndarray, length: int) -> np.ndarray:
    # One shape throughout, so that programs are compiled once; the padding is cut off again.
    missing = length - len(array)
    return np.concatenate([array, np.repeat(array[-1:], missing, axis=0)]) if missing else array
