"""Copies of Keras models that share nothing with the original.

A copy is made from the model's config, so every object of it has the class that it had. Weights go through NumPy.
"""

import contextlib
import tempfile
import types
import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from singularbayes.convert.places import complete_config, own_weights, places
from singularbayes.convert.tasks import has_preprocessor, share_preprocessor


def copied(model: keras.layers.Layer) -> keras.layers.Layer:
    """Returns a copy of a built model with the same weights, names and flags, in buffers of its own; not compiled.

    The preprocessor of a task, which has no weights, is the same object in both.
    """
    copy = _rebuilt(model)
    before, after = places(model), places(copy)
    pairs = list(zip(before, after, strict=False))
    differs = [old for old, new in pairs if (old.key, type(old.layer)) != (new.key, type(new.layer))]
    if differs or len(before) != len(after):
        raise ValueError(
            f"Conversion needs a model that its config describes; got {type(model).__name__} {model.name!r}, which is "
            f"not the same when it is built from its config: see {(differs or before)[-1].path!r}. Layers and sharing "
            "that are added after the constructor are not in a config."
        )
    for old, new in pairs:
        _copy_state(old.layer, new.layer, old.path)
    if has_preprocessor(model):
        share_preprocessor(copy, model.preprocessor)
    return copy


def _rebuilt(model):
    try:
        classes = _custom_classes(model)
        with _named_functions(model) as functions, keras.saving.custom_object_scope({**classes, **functions}):
            return keras.saving.deserialize_keras_object(complete_config(model), safe_mode=False)
    except (NotImplementedError, TypeError) as error:
        raise ValueError(
            f"Conversion needs a model that can be built from its config; got {type(model).__name__} {model.name!r}, "
            "which cannot. Give its class, and those of its own layers, get_config() with all the arguments of "
            f"__init__. Keras reports: {str(error).rpartition('Exception encountered: ')[2]}"
        ) from error


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
    known = list(keras.saving.get_custom_objects().values())
    own = [f for f in found.values() if not f.__module__.startswith("keras.") and f not in known]
    before = [function.__name__ for function in own]
    functions = {f"function_{position}": function for position, function in enumerate(own)}
    try:
        for name, function in functions.items():
            function.__name__ = name
        yield functions
    finally:
        for name, function in zip(before, own, strict=True):
            function.__name__ = name


def _copy_state(old, new, where: str) -> None:
    """Gives a layer the own weights, assets, name and flags of the layer that it is a copy of."""
    new.name = old.name
    if new.trainable != old.trainable:
        new.trainable = old.trainable
    new.activity_regularizer = old.activity_regularizer  # which the config of some Keras layers leaves out
    if own_weights(old) and not new.built:
        raise ValueError(
            f"Conversion needs a model that is built when it is made from its config; got layer {where!r}, which is "
            "built in the model but not in its copy. Build it in the `build` of the layer that holds it."
        )
    carry_weights(old, new)
    if hasattr(old, "save_assets"):
        with tempfile.TemporaryDirectory() as folder:
            old.save_assets(folder)
            new.load_assets(folder)


def carry_weights(old, new) -> None:
    """Gives a layer the own weights and other state of another, not of the layers in it."""
    store: dict[str, Any] = {}
    old.save_own_variables(store)
    if store:
        new.load_own_variables({key: np.array(ops.convert_to_numpy(value)) for key, value in store.items()})


def compile_like(copy: keras.Model, model: keras.Model) -> None:
    """Compiles the copy with the optimizer, loss and metrics of the model, if that is compiled."""
    if not (isinstance(model, keras.Model) and model.compiled):
        return
    with warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError):
        warnings.simplefilter("ignore")
        config = model.get_compile_config()
        if config:
            copy.compile_from_config(config)
    if hasattr(model, "sampler"):
        copy.sampler = model.sampler  # of a language model of KerasHub: it is in no config
    if not copy.compiled:
        warnings.warn(
            f"The copy of {model.name!r} is not compiled: its loss or metrics cannot be read back from their config, "
            f"or {type(model).__name__} has a compile() of its own without get_compile_config(). Call compile before "
            "fit.",
            stacklevel=3,
        )
