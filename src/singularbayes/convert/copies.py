"""Copies of Keras models that share nothing with the original.

A copy is made from the model's config, so every object of it has the class that it had. Weights go through NumPy.
"""

import contextlib
import functools
import inspect
import tempfile
import types
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.convert.places import Place, own_attributes, own_weights, places
from singularbayes.convert.tasks import has_preprocessor, share_preprocessor, without_preprocessor


def copied(model: keras.layers.Layer) -> keras.layers.Layer:
    """Returns a copy of a built model with the same weights, names and flags, in buffers of its own; not compiled.

    The preprocessor of a task, which has no weights, is the same object in both.
    """
    with without_preprocessor(model):
        copy = _rebuilt(model)
    before, after = places(model), places(copy)
    pairs = list(zip(before, after, strict=False))
    differs = [old for old, new in pairs if (old.keys, type(old.layer)) != (new.keys, type(new.layer))]
    if differs or len(before) != len(after):
        where = differs[0] if differs else before[-1]
        raise ValueError(
            f"Conversion needs a model that its config describes; got {type(model).__name__} {model.name!r}, which is "
            f"not the same when it is built from its config: see {where.path or model.name!r}. Layers and sharing that "
            "are added after the constructor are not in a config."
        )
    reached = {id(weight) for place in before for weight in own_weights(place.layer)}
    hidden = [weight.path for weight in model.weights if id(weight) not in reached]
    if hidden:
        raise ValueError(
            f"Conversion needs layers that are attributes, or in lists, tuples or dictionaries; got {model.name!r}, "
            f"whose weights {hidden} belong to none of these."
        )
    for old, new in pairs:
        _copy_state(old.layer, new.layer, old.path or model.name)
        _require_same_settings(old, new, model)  # now: what loads weights also leaves marks, in Keras's Dense
    if has_preprocessor(model):
        share_preprocessor(copy, model.preprocessor)
    return copy


def _require_same_settings(old: Place, new: Place, model) -> None:
    """Raises where a user's layer has a plain attribute that its config does not give back."""
    cls = getattr(type(old.layer), "original", type(old.layer))
    if cls.__module__.partition(".")[0] in ("keras", "keras_hub", "singularbayes"):
        return
    for name, value in own_attributes(old.layer):
        plain = isinstance(value, (bool, int, float, str)) and not name.startswith("_") and name != "name"
        if not plain or (isinstance(old.layer, keras.Model) and name in _set_by_compile()):
            continue
        if not hasattr(new.layer, name) and _has_own_compile(old.layer):
            setattr(new.layer, name, value)  # what a `compile` of its own has kept
        elif getattr(new.layer, name, None) != value:
            raise ValueError(
                f"Conversion needs a model that its config describes; got {cls.__name__} {old.path or model.name!r} "
                f"with {name}={value!r}, which is {getattr(new.layer, name, None)!r} when it is built from its config. "
                f"Make {name} an argument of __init__ and of get_config()."
            )


@functools.cache
def _set_by_compile() -> frozenset[str]:
    """Returns the attributes that Keras gives a model when it is made and compiled: `compiled`, `stop_training`, …."""
    model = keras.Model()
    model.compile("sgd", "mse")
    return frozenset(vars(model))


def _has_own_compile(model) -> bool:
    return isinstance(model, keras.Model) and type(model).compile is not keras.Model.compile


def _rebuilt(model):
    try:
        with _named_functions(model) as functions, complete_configs(model):
            config = keras.saving.serialize_keras_object(model)
            config.pop("compile_config", None)
            with keras.saving.custom_object_scope({**_custom_classes(model), **functions}):
                return keras.saving.deserialize_keras_object(config, safe_mode=False)
    except (NotImplementedError, TypeError) as error:
        raise ValueError(
            f"Conversion needs a model that can be built from its config; got {type(model).__name__} {model.name!r}, "
            "which cannot. Give its class, and those of its own layers, get_config() with all the arguments of "
            f"__init__. Keras reports: {str(error).rpartition('Exception encountered: ')[2]}"
        ) from error


@contextlib.contextmanager
def complete_configs(model) -> Iterator[None]:
    """Adds to configs of KerasHub's models, for a while, what they leave out: `tie_word_embeddings` of Llama's."""
    incomplete = [place.layer for place in places(model) if _left_out(place.layer)]
    try:
        for layer in incomplete:
            complete = {**layer.get_config(), **_left_out(layer)}
            object.__setattr__(layer, "get_config", lambda complete=complete: complete)
        yield
    finally:
        for layer in incomplete:
            object.__delattr__(layer, "get_config")


def _left_out(layer) -> dict[str, Any]:
    """Returns the plain arguments of a model of KerasHub that are its attributes, but not in its config."""
    if not (isinstance(layer, keras.Model) and type(layer).__module__.startswith("keras_hub.")):
        return {}
    config, own = layer.get_config(), vars(layer)
    missing = [name for name in inspect.signature(type(layer).__init__).parameters if name not in config]
    return {name: own[name] for name in missing if isinstance(own.get(name), (bool, int, float, str))}


def _custom_classes(model) -> dict[str, type]:
    """Returns the classes of a user's layers that Keras cannot find by name."""
    classes = {getattr(type(place.layer), "original", type(place.layer)) for place in places(model)}
    users = [cls for cls in classes if not cls.__module__.startswith("keras.")]
    return {cls.__name__: cls for cls in users if ">" not in keras.saving.get_registered_name(cls)}


@contextlib.contextmanager
def _named_functions(model) -> Iterator[dict[str, Any]]:
    """Gives the functions that a user's layers hold names to be found by, for a while: a config has names alone."""
    values = [value for place in places(model) for value in vars(place.layer).values()]
    found = {id(value): value for value in values if isinstance(value, types.FunctionType)}
    own = [f for f in found.values() if not f.__module__.startswith("keras.") and f not in _registered()]
    before = [function.__name__ for function in own]
    functions = {f"function_{position}": function for position, function in enumerate(own)}
    try:
        for name, function in functions.items():
            function.__name__ = name
        yield functions
    finally:
        for name, function in zip(before, own, strict=True):
            function.__name__ = name


def _registered() -> list:
    return list(keras.saving.get_custom_objects().values())


def float_policy(layer) -> keras.DTypePolicy:
    """Returns the policy of a quantised layer without its quantisation; Keras keeps it under several names."""
    compute, variable = layer.compute_dtype, layer.variable_dtype
    return keras.DTypePolicy(compute if compute == variable else f"mixed_{compute}")


def _copy_state(old, new, where: str) -> None:
    """Gives a layer the own weights, assets, name and flags of the layer that it is a copy of."""
    new.name = old.name
    if new.trainable != old.trainable:
        new.trainable = old.trainable
    if not isinstance(old, keras.Model):  # of a model its layers are enough
        new._remat_mode = old._remat_mode
    new.activity_regularizer = old.activity_regularizer  # which the config of some Keras layers leaves out
    mode = getattr(old, "quantization_mode", None)
    if mode != getattr(new, "quantization_mode", None):  # which the config of a task leaves out
        new._dtype_policy = float_policy(old)
        new.quantize(mode)
    elif mode is not None and isinstance(new.dtype_policy, keras.dtype_policies.DTypePolicyMap):
        new._dtype_policy = new.dtype_policy[new.path]  # Keras saves no scales of an embedding that has the map itself
    store: dict[str, Any] = {}
    old.save_own_variables(store)
    if store and not new.built:
        raise ValueError(
            f"Conversion needs a model that is built when it is made from its config; got layer {where!r}, which is "
            "built in the model but not in its copy. Build it in the `build` of the layer that holds it."
        )
    if store:
        new.load_own_variables({key: np.array(ops.convert_to_numpy(value)) for key, value in store.items()})
    if hasattr(old, "save_assets"):
        with tempfile.TemporaryDirectory() as folder:
            old.save_assets(folder)
            new.load_assets(folder)


def compile_like(copy: keras.Model, model: keras.Model) -> None:
    """Compiles the copy with the optimizer, loss and metrics of the model, if that is compiled."""
    if not (isinstance(model, keras.Model) and model.compiled):
        return
    done = False
    with warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError):
        warnings.simplefilter("ignore")
        config = model.get_compile_config()
        if config:
            copy.compile_from_config(config)
            done = copy.compiled
    if hasattr(model, "sampler"):
        copy.sampler = model.sampler  # of a language model of KerasHub: it is in no config
    if not done:
        reason = "its loss or metrics cannot be read back from their config"  # a loss without a name, for example
        if _has_own_compile(model):
            reason = (
                f"{type(model).__name__} has a compile() of its own, and no get_compile_config() and "
                "compile_from_config() to repeat it"
            )
        warnings.warn(f"The copy of {model.name!r} is not compiled: {reason}. Call compile before fit.", stacklevel=3)
