"""Functions of a model as compiled programs on JAX, kept as long as the model lives; plain calls elsewhere."""

import contextlib
import functools
import weakref
from collections.abc import Callable
from typing import Any

import keras
import ml_dtypes
import numpy as np
from keras import ops

from singularbayes.posteriors import flat_layers

# By model: its form at that time, and its functions, compiled for the values of its variables and their arguments.
_PROGRAMS: weakref.WeakKeyDictionary[Any, tuple[tuple, dict[Callable, Callable]]] = weakref.WeakKeyDictionary()


def form_of(model: keras.Model) -> tuple:
    """Returns what is equal until a model gets or loses layers, or is compiled again.

    So programs follow changes as Keras's own `predict` does: those inside a layer after another `compile`.
    """
    # References, because a form is kept as long as its model lives.
    return tuple(weakref.ref(part) for part in (*compilation_of(model), *flat_layers(model)[1:]))


def compilation_of(model: keras.Model) -> list:
    """Returns an object that a model gets anew whenever it is compiled, the metric of its loss; none before."""
    return model.metrics[:1] if getattr(model, "compiled", False) else []


def compiled(model: keras.Model, function: Callable, *arguments):
    """Returns function(model, *arguments); on JAX as one compiled program instead of operation by operation."""
    if keras.backend.backend() == "jax":
        return program_of(model, function)(variable_values(model), *arguments)
    with no_gradient():
        return function(model, *arguments)


def program_of(model: keras.Model, function: Callable) -> Callable:
    """Returns function(values, *arguments) of a model, on JAX."""
    form, programs = _PROGRAMS.get(model, ((), {}))
    if form != form_of(model):
        form, programs = _PROGRAMS[model] = form_of(model), {}
    if function not in programs:
        programs[function] = _program(model, function)
    return programs[function]


def _program(model: keras.Model, function: Callable) -> Callable:
    import jax

    reference: Callable[[], Any] = weakref.ref(model)

    def run(values, *arguments):
        model = reference()
        with keras.StatelessScope(state_mapping=list(zip(model.variables, values, strict=True))):
            return function(model, *arguments)

    return jax.jit(run)


def fetch_state(model: keras.layers.Layer) -> None:
    """Gives the variables of a model their values back, which Keras on JAX keeps elsewhere while a loop is under way.

    `callback.model` does so too; a callback that has the model from elsewhere would find variables without values.
    """
    if keras.backend.backend() == "jax" and isinstance(model, keras.Model):
        model.jax_state_sync()


def variable_values(model: keras.Model) -> list:
    """Returns the values of all variables, as programs take them."""
    fetch_state(model)
    return [variable.value for variable in model.variables]


def as_numpy(value) -> np.ndarray:
    """Returns a copy of what a variable or tensor holds, in its own precision.

    `ops.convert_to_numpy` does this with a warning of NumPy for each variable of Keras and tensor of torch.
    """
    if keras.backend.backend() != "torch":
        return np.array(np.asarray(value))
    tensor = ops.convert_to_tensor(value)
    narrow = keras.backend.standardize_dtype(tensor.dtype) == "bfloat16"  # which torch cannot give to NumPy
    return np.array((tensor.float() if narrow else tensor).numpy(force=True), ml_dtypes.bfloat16 if narrow else None)


def kind_of(model: keras.Model) -> list:
    """Returns what models of one architecture share: the settings of their layers and the shapes of their variables.

    >>> one, two = (keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]) for _ in range(2))
    >>> kind_of(one) == kind_of(two), one.layers[0].name == two.layers[0].name
    (True, False)
    """
    layers = [(type(layer), _settings(layer)) for layer in flat_layers(model) if not hasattr(layer, "layers")]
    return [layers, _shapes(model.variables)]


def optimizer_kind(optimizer: keras.optimizers.Optimizer) -> list:
    """Returns what optimizers of one kind share: all settings but a rate that is a variable, and the shapes."""
    settings = _settings(optimizer)
    if isinstance(settings.get("learning_rate"), float):
        del settings["learning_rate"]
    return [type(optimizer), settings, _shapes(optimizer.variables)]


def _shapes(variables) -> list:
    return [(tuple(variable.shape), str(variable.dtype), variable.trainable) for variable in variables]


def _settings(thing) -> dict:
    try:
        config = thing.get_config()
    except NotImplementedError:  # a layer of the user's, whose weights are still compared
        return {}
    return _nameless(config)


def _nameless(config):
    if isinstance(config, dict):
        return {key: _nameless(value) for key, value in config.items() if key not in ("name", "shared_object_id")}
    return [_nameless(value) for value in config] if isinstance(config, (list, tuple)) else config


def no_gradient():
    """Returns a context in which torch records nothing for gradients."""
    if keras.backend.backend() == "torch":
        import torch

        return torch.no_grad()
    return contextlib.nullcontext()


# -- the devices that work is split over ---------------------------------------------------------------------------


def batch_mesh():
    """Returns the devices and the axis that work is split over on JAX: the batch's of a distribution, else all here."""
    distribution = keras.distribution.distribution()
    if distribution is not None:
        return distribution.device_mesh.backend_mesh, distribution.batch_dim_name
    return _all_devices(), "devices"


@functools.cache
def _all_devices():
    import jax

    return jax.sharding.Mesh(np.array(jax.local_devices()), ("devices",))


def device_count() -> int:
    """Returns over how many devices a prediction is spread."""
    if keras.backend.backend() != "jax":
        return 1
    mesh, axis = batch_mesh()
    return mesh.shape[axis]
