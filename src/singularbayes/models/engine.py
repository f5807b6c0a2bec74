"""Running a model under given draws: vectorised over draws on JAX, a loop over draws elsewhere.

Draw s of a seed is a key hashed from (seed, s), split into one key a posterior: it depends on nothing else, so it is
the same function for every batch of the data and however draws are chunked.
"""

import contextlib
import math
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.models.same_architecture import kind_of
from singularbayes.models.traversal import find_sources, flat_layers
from singularbayes.posteriors import noise, scope


def draw_keys(seed: int, draws: int) -> np.ndarray:
    """Returns one key a draw, (draws, 2)."""
    # A hash of (seed, position); keys of 31 bits suit every backend's generator.
    return (np.random.SeedSequence(seed).generate_state(2 * draws) >> 1).reshape(draws, 2)


def _draw(sources, key) -> list[tuple]:
    keys = noise.split(key, len(sources))
    return [source.draw(key) for source, key in zip(sources, keys, strict=True)]


def _forward(model, sources, draw, x):
    with scope.fix({id(source): arrays for source, arrays in zip(sources, draw, strict=True)}):
        return model(x, training=False)


def one_answer(model: keras.Model, key, x) -> list:
    """Returns the outputs, flattened, of one draw for all of `x`, operation by operation."""
    sources = find_sources(model)
    with no_gradient():
        return keras.tree.flatten(_forward(model, sources, _draw(sources, key), x))


def answers(model: keras.Model, keys, pick, x) -> list:
    """Returns the outputs, flattened, of each draw for examples of its own: `pick` (draws, some) says which of `x`.

    One draw after another in one program, so `pick` may be different for each without a copy of `x`.
    """
    sources = find_sources(model)

    def answer(key, rows):
        own = keras.tree.map_structure(lambda array: ops.take(array, rows, axis=0), x)
        return keras.tree.flatten(_forward(model, sources, _draw(sources, key), own))

    if keras.backend.backend() == "jax":
        import jax

        return jax.lax.map(lambda each: answer(*each), (keys, pick))
    with keras.StatelessScope():
        found = [answer(key, rows) for key, rows in zip(keys, pick, strict=True)]
        return [ops.stack(output) for output in zip(*found, strict=True)]


class LoopEngine:
    """One draw after another, for torch and TensorFlow."""

    def __init__(self, model):
        self.model: Callable[[], Any] = weakref.ref(model)

    def draw(self, keys: np.ndarray):
        sources = find_sources(self.model())
        with no_gradient():
            return [_draw(sources, noise.as_keys(key)) for key in keys]

    def run(self, draws, x, together: int = 1) -> list[np.ndarray]:
        """Returns the model's outputs, flattened, each (draws, examples, …)."""
        model = self.model()
        sources = find_sources(model)
        x = keras.tree.map_structure(ops.convert_to_tensor, x)
        outputs = []
        for draw in draws:
            # Stateless, so that every draw starts from the states of a stateful layer, and leaves them.
            with no_gradient(), keras.StatelessScope():
                outputs.append(keras.tree.flatten(_forward(model, sources, draw, x)))
        return [np.stack([ops.convert_to_numpy(o) for o in output]) for output in zip(*outputs, strict=True)]

    def scratch(self, draws, x, together: int = 1) -> int:
        """Returns 0: one draw at a time takes what a plain forward pass takes."""
        return 0

    def evaluate(self, function, *arguments):
        """Returns function(model, *arguments)."""
        with no_gradient():
            return function(self.model(), *arguments)

    def adopt(self, other) -> None:
        """Does nothing: there are no programs."""


class JaxEngine:
    """All draws of a chunk as one compiled program, so many at a time as its memory or the caches hold.

    The data streams past them, over all devices there are.
    """

    def __init__(self, model):
        import jax

        self.model: Callable[[], Any] = weakref.ref(model)
        self._draw = jax.jit(jax.vmap(self._draw_one, in_axes=(None, 0)))
        self._run = jax.jit(self._run_all, static_argnums=3)
        self._programs: dict = {}
        self._scratch: dict = {}
        self._drawn: tuple = ((), None, None)  # values, keys and draws of the last call
        self._traced: tuple = (self, None)  # the engine, and its model, that the programs were made from

    def _state(self, values):
        return keras.StatelessScope(state_mapping=list(zip(self.model().variables, values, strict=True)))

    def _draw_one(self, values, key):
        with self._state(values):
            return _draw(find_sources(self.model()), key)

    def _run_one(self, values, draw, x):
        with self._state(values):
            return keras.tree.flatten(_forward(self.model(), find_sources(self.model()), draw, x))

    def _run_all(self, values, draws, x, together):
        import jax

        arrays = keras.tree.flatten(draws)
        if arrays and together < len(arrays[0]):
            return jax.lax.map(lambda draw: self._run_one(values, draw, x), draws, batch_size=together)
        # Where nothing is random a draw has no arrays that say how many draws there are: it is one.
        size = None if arrays else 1
        return jax.vmap(self._run_one, in_axes=(None, 0, None), axis_size=size)(values, draws, x)

    def adopt(self, other) -> None:
        """Uses the programs of an engine whose model is alike from now on, with the weights of its own."""
        self._draw, self._run, self._programs, self._scratch = other._draw, other._run, other._programs, other._scratch
        self._traced = (other, other.model())

    def evaluate(self, function, *arguments):
        """Returns function(model, *arguments), compiled once for each function."""
        import jax

        if function not in self._programs:
            traced, _ = self._traced

            def program(values, *arguments):
                with traced._state(values):
                    return function(traced.model(), *arguments)

            self._programs[function] = jax.jit(program)
        return self._programs[function](self._values(), *arguments)

    def _values(self):
        return [variable.value for variable in self.model().variables]

    def draw(self, keys: np.ndarray):
        """Returns the weights of these draws; those of the last call again while the model is the same."""
        values = self._values()
        old_values, old_keys, draws = self._drawn
        same = len(values) == len(old_values) and all(a is b for a, b in zip(values, old_values, strict=True))
        if not (same and np.array_equal(keys, old_keys)):
            draws = self._draw(values, noise.as_keys(keys))
            self._drawn = (values, keys, draws)
        return draws

    def run(self, draws, x, together: int) -> list:
        """Returns the model's outputs, flattened, each (draws, examples, …), from so many draws at a time.

        The draws are those of the last call of `draw`. An accelerator is not waited for.
        """
        outputs = [_here(output) for output in self._run(self._drawn[0], *_spread(draws, x), together)]
        return outputs if free_bytes() is not None else [np.asarray(output) for output in outputs]

    def scratch(self, draws, x, together: int) -> int:
        """Returns the bytes that a run of these shapes takes beside its inputs and outputs."""
        shapes = tuple((array.shape, str(array.dtype)) for array in keras.tree.flatten((draws, x)))
        if (shapes, together) not in self._scratch:
            compiled = self._run.lower(self._values(), *_spread(draws, x), together).compile()
            self._scratch[shapes, together] = int(compiled.memory_analysis().temp_size_in_bytes)
        return self._scratch[shapes, together]


def _spread(draws, x):
    """Returns draws and data with the data, or where that is too little the draws, split over the devices."""
    import jax

    mesh, axis = _mesh()
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


def _mesh():
    """Returns the devices and the axis that work is split over: the batch's of a distribution, else those here."""
    import jax

    distribution = keras.distribution.distribution()
    if distribution is not None:
        return distribution.device_mesh.backend_mesh, distribution.batch_dim_name
    return jax.sharding.Mesh(np.array(jax.local_devices()), ("devices",)), "devices"


def _here(output):
    """Returns an output of which parts may lie on devices of other processes as one that this process has whole."""
    if output.is_fully_addressable or output.is_fully_replicated:
        return output
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(output, tiled=True)


def no_gradient():
    """Returns a context in which torch records nothing for gradients."""
    if keras.backend.backend() == "torch":
        import torch

        return torch.no_grad()
    return contextlib.nullcontext()


_ENGINES: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def engine_for(model: keras.Model) -> LoopEngine | JaxEngine:
    """Returns the model's engine; it is kept with its compiled programs as long as the model lives."""
    if model not in _ENGINES:
        _ENGINES[model] = (JaxEngine if keras.backend.backend() == "jax" else LoopEngine)(model)
    return _ENGINES[model]


def share_programs(models: list[keras.Model]) -> None:
    """Makes models alike use the compiled programs of the first, so that they are compiled once."""
    first, *others = models
    kind = kind_of(first)
    for model in others:
        if kind_of(model) == kind:
            engine_for(model).adopt(engine_for(first))


def compiled(model: keras.Model, function, *arguments):
    """Returns function(model, *arguments); on JAX as one compiled program instead of operation by operation."""
    return engine_for(model).evaluate(function, *arguments)


def activations(model: keras.Model, x) -> int:
    """Returns the numbers in the largest array that a layer is known to make for one example; 0 where none is known."""
    return max((_inner(layer, x) for layer in flat_layers(model)), default=0)


def output_size(model: keras.Model, x) -> int:
    """Returns the numbers in the model's largest output for one example; 0 where it is not known."""
    return _numbers(getattr(model, "outputs", None) or [], x)


def _inner(layer, x) -> int:
    if hasattr(layer, "gates"):  # recurrent: all inputs are projected for all gates before the loop
        return _length(x) * layer.gates * layer.units
    try:
        return _numbers(keras.tree.flatten(layer.output), x)
    except (AttributeError, ValueError):  # not called on symbolic tensors, or more than once
        return 0


def _numbers(tensors, x) -> int:
    # Sizes that a model leaves open, such as the length of a sequence, are the data's.
    return max((math.prod(dim or _length(x) for dim in tensor.shape[1:]) for tensor in tensors), default=0)


def _length(x) -> int:
    return max((size for array in keras.tree.flatten(x) for size in array.shape[1:2]), default=1)


def draw_bytes(model: keras.Model) -> int:
    """Returns an upper bound of the memory that one draw of the weights takes."""
    return 4 * sum(source.draw_size for source in find_sources(model))


def free_bytes() -> int | None:
    """Returns the free memory of the accelerator, or None on a CPU and where the backend does not say."""
    if keras.backend.backend() != "jax":
        return None
    import jax

    stats = jax.local_devices()[0].memory_stats() or {}
    return stats["bytes_limit"] - stats["bytes_in_use"] if "bytes_limit" in stats else None


def device_count() -> int:
    """Returns over how many devices a run is spread."""
    if keras.backend.backend() != "jax":
        return 1
    mesh, axis = _mesh()
    return mesh.shape[axis]
