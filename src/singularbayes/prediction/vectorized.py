"""Draws side by side on torch (`torch.func.vmap`) and TensorFlow (a compiled function of all draws).

The weights of the last draws are kept for the next request while the variables they were made from are the same, of
the models used last. Draws of a model with an operation that takes one draw at a time, such as PyTorch's own LSTM, run
in threads on a CPU, or one after another.
"""

import weakref
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.layers import one_thread
from singularbayes.models import as_numpy, form_of, no_gradient
from singularbayes.posteriors import draw_sources, find_sources, flat_layers, noise
from singularbayes.prediction.memory import FEW, at_once, forget_others, side_by_side, together
from singularbayes.prediction.prefix import frontier_of, outputs_under, split_of

# Whose layers may run in several threads at once.
_THREAD_SAFE = ("keras.", "singularbayes.layers.", "singularbayes.posteriors.")
_NOT_VECTORISED = (RuntimeError, NotImplementedError, TypeError, ValueError, LookupError)


class _Sampler:
    """What samplers of torch and TensorFlow share; `_stacked_draws` and `_run_group` are the backend's."""

    def __init__(self, model: keras.Model):
        self.model: Callable[[], Any] = weakref.ref(model)
        self._drawn: tuple = ([], np.zeros(0), None)  # values, keys and draws of the last call
        self._vectorised = True

    def draw(self, keys: np.ndarray) -> list[tuple]:
        """Returns the weights of these draws, stacked; those of the last call again while the model is the same."""
        sources: list[Any] = find_sources(self.model())
        if not any(source.random for source in sources):
            return [() for _ in sources]
        values = [variable.value for source in sources for variable in source.variables]
        old_values, old_keys, draws = self._drawn
        same = np.array_equal(keys, old_keys) and len(values) == len(old_values)
        if draws is None or not (same and all(map(self._equal, values, old_values))):
            self._drawn = ([], np.zeros(0), None)  # free before others are made
            with no_gradient():
                draws = self._stacked_draws(sources, keys)
                self._drawn = ([ops.copy(value) for value in values], keys, draws)
        forget_others(self, draws)
        return draws

    def forget(self) -> None:
        """Frees the weights of the last draws."""
        self._drawn = ([], np.zeros(0), None)

    @property
    def splits(self) -> bool:
        """Whether the model has a part that all draws share."""
        return split_of(self.model()) is not None

    def prefix(self, x):
        """Returns what the part of the model that all draws share gives for `x`, for `run`."""
        with no_gradient():
            return frontier_of(self.model(), keras.tree.map_structure(ops.convert_to_tensor, x))

    def run(self, draws, x, frontier=None) -> list[np.ndarray]:
        """Returns the model's outputs, flattened, each (draws, examples, …).

        Args:
            frontier: what `prefix` gave for `x`, where it is known already.
        """
        model, arrays = self.model(), keras.tree.flatten(draws)
        sources, number = find_sources(model), len(arrays[0]) if arrays else 1
        x = keras.tree.map_structure(ops.convert_to_tensor, x)
        frontier = self.prefix(x) if frontier is None else frontier
        outputs, failed = [], False
        with no_gradient():
            group = self._group_size(x, number) if arrays else 0
            if self._vectorised and group:
                try:
                    for first in range(0, number, group):
                        some = [tuple(array[first : first + group] for array in draw) for draw in draws]
                        outputs.append(self._run_group(some, x, frontier))
                except _NOT_VECTORISED as error:
                    if _is_lack_of_memory(error):
                        raise
                    failed, outputs = True, []

            def one(s: int) -> list:
                draw = [tuple(array[s] for array in arrays) for arrays in draws]
                return [output[None] for output in self._run_one(sources, draw, x, frontier)]

            outputs = outputs or self._each(one, number, x)
            if failed:  # and one draw after another did not: it was neither the data nor the model
                self._vectorised = False
        return [np.concatenate([as_numpy(o) for o in output]) for output in zip(*outputs, strict=True)]

    @staticmethod
    @abstractmethod
    def _equal(value, other) -> bool:
        """Returns whether two tensors have the same shape and entries."""

    @abstractmethod
    def _stacked_draws(self, sources, keys) -> list[tuple]:
        """Returns the arrays of every source, draws on their first axis."""

    @abstractmethod
    def _group_size(self, x, number: int) -> int:
        """Returns how many of `number` draws `_run_group` takes at once; 0 where it is not for them."""

    @abstractmethod
    def _run_group(self, draws, x, frontier) -> list:
        """Returns the outputs of stacked draws, side by side."""

    def _each(self, one: Callable[[int], list], number: int, x) -> list[list]:
        """Returns one(s) of every draw s, of the examples `x`."""
        return [one(s) for s in range(number)]

    def _run_one(self, sources, draw, x, frontier) -> list:
        # Stateless, so that every draw starts from the states of a stateful layer, and leaves them.
        with keras.StatelessScope():
            return outputs_under(self.model(), sources, draw, x, frontier)

    def scratch_bytes(self, draws, x, shared: bool = False) -> int:
        """Returns 0: groups of draws take what fits the caches, or what some plain forward passes take."""
        return 0


def _is_lack_of_memory(error: Exception) -> bool:
    # torch has a class for accelerators, and words for a CPU.
    return type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error)


class TorchSampler(_Sampler):
    """Groups of draws under `torch.func.vmap`."""

    @staticmethod
    def _equal(value, other) -> bool:
        import torch

        return torch.equal(value, other)

    def _stacked_draws(self, sources, keys) -> list[tuple]:
        drawn = [draw_sources(sources, noise.as_keys(key)) for key in keys]
        return [tuple(map(_stacked, zip(*draws, strict=True))) for draws in zip(*drawn, strict=True)]

    def _group_size(self, x, number: int) -> int:
        group = side_by_side(self.model(), x, number)
        return group if group > 1 else 0

    def _each(self, one: Callable[[int], list], number: int, x) -> list[list]:
        """Returns one(s) of every draw s: on a CPU as many at once as torch has threads, each in one thread."""
        import torch

        threads = min(number, torch.get_num_threads(), at_once(self.model(), x))
        if threads == 1 or not _can_run_in_threads(self.model(), x):
            return super()._each(one, number, x)

        def run(s: int) -> list:
            with torch.no_grad():
                return one(s)

        with one_thread(), ThreadPoolExecutor(threads) as pool:
            return list(pool.map(run, range(number)))

    def _run_group(self, draws, x, frontier) -> list:
        import torch

        class AnyLayout(torch.overrides.TorchFunctionMode):
            """Keras's convolutions ask how images lie in memory, which is not known for several draws at once."""

            def __torch_function__(self, func, types, args=(), kwargs=None):
                if func is torch.Tensor.is_contiguous and kwargs:
                    return True
                return func(*args, **(kwargs or {}))

        sources = find_sources(self.model())
        # Attention as products of matrices, which run for several draws at once; its fused kernels do not.
        with AnyLayout(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return torch.func.vmap(lambda draw: self._run_one(sources, draw, x, frontier))(draws)


def _can_run_in_threads(model: keras.Model, x) -> bool:
    """Returns whether draws of a model may run at once: on a CPU, of layers of which none changes what they share.

    A layer of a user, or a model of a baseline, may set a generator or a flag of the whole process while it runs.
    """
    layers = flat_layers(model)
    known = all(type(layer).__module__.startswith(_THREAD_SAFE) for layer in layers)
    of_others = (keras.layers.Lambda, keras.layers.TorchModuleWrapper)  # they hold code of users
    on_cpu = all(tensor.device.type == "cpu" for tensor in keras.tree.flatten(x))
    return known and on_cpu and not any(isinstance(layer, of_others) for layer in layers)


def _stacked(arrays):
    """Returns arrays one behind another; matrices lie in memory by columns.

    So a product x W₁, x W₂, … of an array that draws share is one product with all columns, without a copy of any.
    """
    import torch

    return torch.stack([array.mT for array in arrays]).mT if arrays[0].ndim == 2 else torch.stack(arrays)


class TensorFlowSampler(_Sampler):
    """All draws in one compiled function: `tf.map_fn`, which runs some at a time, or `tf.vectorized_map`.

    The second makes one product of all draws where the first has one for each: better where products are small, which
    is where there are few examples. Products of several matrices with many rows take TensorFlow several times as long
    together as one by one, and so do its loops over time.
    """

    def __init__(self, model: keras.Model):
        super().__init__(model)
        # The form and the variables that functions were made for, and these; one attribute, as threads may share it.
        self._made: tuple[tuple, dict[str, Any]] = ((), {})

    @staticmethod
    def _equal(value, other) -> bool:
        return value.shape == other.shape and bool(ops.all(ops.equal(value, other)))

    def _function(self, name: str, make: Callable) -> Any:
        import tensorflow as tf

        state = (form_of(self.model()), *(id(variable) for variable in self.model().variables))
        known, functions = self._made
        if state != known:
            functions = {}
            self._made = state, functions
        if name not in functions:
            functions.setdefault(name, tf.function(make(), autograph=False))
        return functions[name]

    def _stacked_draws(self, sources, keys) -> list[tuple]:
        def make():
            import tensorflow as tf

            places: list[Any] = [weakref.ref(source) for source in sources]

            def one(key):
                return [tuple(arrays) for arrays in draw_sources([place() for place in places], key)]

            return lambda keys: _mapped(tf, one, keys)

        return self._function("draw", make)(noise.as_keys(keys))

    def _group_size(self, x, number: int) -> int:
        few = len(keras.tree.flatten(x)[0]) <= FEW
        return together(self.model(), x, number) if few else number

    def _run_group(self, draws, x, frontier) -> list:
        def make():
            import tensorflow as tf

            def group(draws, x, frontier):
                sources = find_sources(self.model())
                few = keras.tree.flatten(x)[0].shape[0] <= FEW
                mapped = tf.vectorized_map if few else partial(_mapped, tf)
                return mapped(lambda draw: self._run_one(sources, draw, x, frontier), draws)

            return group

        return self._function("run", make)(draws, x, frontier)


def _mapped(tf, function: Callable, arrays):
    """Returns function(arrays of one draw) for all of them, stacked."""
    one = keras.tree.map_structure(lambda array: array[0], arrays)
    kinds = keras.tree.map_structure(tf.TensorSpec.from_tensor, function(one))
    return tf.map_fn(function, arrays, fn_output_signature=kinds)
