"""Several trained models, the members of a deep ensemble, that become the components of one."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import ops

from singularbayes import layers
from singularbayes.convert import surgery
from singularbayes.convert.decisions import NO_MATRIX, Decision
from singularbayes.convert.places import own_weights

Models: TypeAlias = Any  # a Keras model, or a sequence of them
# What may differ between members: names, and how weights were made.
_OWN = {"shared_object_id", "seed", "compile_config", "build_config", "name"}


def members_of(model: Models, init: str = "svd") -> list[keras.Model]:
    """Returns the models of an ensemble, or the one model; raises unless all have the same architecture."""
    if isinstance(model, (keras.layers.Layer, str)) or not isinstance(model, Sequence):
        return [model]  # anything but a model is refused where models are read
    if not model or not all(isinstance(member, keras.layers.Layer) and member.built for member in model):
        raise ValueError(f"Conversion of an ensemble needs a list of built Keras models; got {model!r}.")
    if init != "svd":
        raise ValueError(f'Conversion of an ensemble starts at its weights and needs init="svd"; got init={init!r}.')
    if len({id(member) for member in model}) < len(model):
        raise ValueError(f"Conversion of an ensemble needs different models; got one of {len(model)} twice.")
    first = model[0]
    for number, member in enumerate(model[1:], 1):
        _require_same_architecture(first, member, number)
    return list(model)


def _require_same_architecture(first, other, number: int) -> None:
    where = f"Conversion of an ensemble needs models of one architecture; model {number} differs from model 0"
    ours, theirs = surgery.places(first), surgery.places(other)
    for mine, its in zip(ours, theirs, strict=False):
        if (mine.keys, type(mine.layer)) != (its.keys, type(its.layer)) or _shapes(mine) != _shapes(its):
            raise ValueError(f"{where}: {_shown(its)} is not {_shown(mine)}.")
    if len(ours) != len(theirs):
        raise ValueError(f"{where}: it has {len(theirs)} layers, not {len(ours)}.")
    for mine, its in zip(ours[1:], theirs[1:], strict=True):
        before, after = _config(mine.layer), _config(its.layer)
        differs = [key for key in before if before[key] != after.get(key)]
        if differs and type(mine.layer) is not keras.layers.InputLayer:
            key = differs[0]
            raise ValueError(f"{where}: {_shown(its)} has {key}={after.get(key)!r}, not {before[key]!r}.")
    if _config(first) != _config(other):
        raise ValueError(f"{where} in how its layers are connected.")


def _shapes(place: surgery.Place) -> list:
    return [tuple(weight.shape) for weight in own_weights(place.layer)]


def _shown(place: surgery.Place) -> str:
    return f"{type(place.layer).__name__} {place.path or place.layer.name!r} with weights {_shapes(place)}"


def _config(layer) -> dict:
    """Returns the config of a layer without what may differ; layers in it are known by their position."""
    config = layer.get_config()
    names: dict[str, str] = {}
    _collect_names(config, names)
    return _plain(config, names)


def _collect_names(config, names: dict[str, str]) -> None:
    if isinstance(config, dict):
        if isinstance(config.get("name"), str):
            names.setdefault(config["name"], f"layer {len(names)}")
        for value in config.values():
            _collect_names(value, names)
    elif isinstance(config, (list, tuple)):
        for value in config:
            _collect_names(value, names)


def _plain(config, names: dict[str, str]):
    if isinstance(config, dict):
        kept = {key: value for key, value in config.items() if key not in _OWN and not key.endswith("initializer")}
        return {key: _plain(value, names) for key, value in kept.items()}
    if isinstance(config, (list, tuple)):
        return [_plain(value, names) for value in config]
    return names.get(config, config) if isinstance(config, str) else config


def count_requested_components(members: list, decisions: list[Decision]) -> int:
    """Returns the number of components of a conversion, 1 without mixtures; raises unless it fits the models."""
    chosen = [posterior for decision in decisions for posterior in decision.posteriors.values()]
    numbers = sorted({posterior.components for posterior in chosen})
    count = len(members)
    if count > 1 and numbers not in ([], [count]):
        wrong = next(posterior for posterior in chosen if posterior.components != count)
        made = f"Mixture({'LowRank(16)' if wrong.components > 1 else wrong}, components={count})"
        raise ValueError(
            f"Conversion of an ensemble of {count} models needs a mixture of {count} components for every layer, such "
            f"as {made}; got {wrong!r}."
        )
    several = [number for number in numbers if number > 1]
    if len(several) > 1:
        raise ValueError(f"Conversion needs mixtures with the same number of components in all layers; got {several}.")
    return several[0] if several else 1


def is_per_component(decision: Decision, members: list[dict], components: int) -> bool:
    """Returns whether a layer that is kept needs weights for every component.

    Gains and statistics that are trained do, the head beside a backbone, and what differs between the members of an
    ensemble. Any other layer with a matrix that is kept is one for all components of a single model.

    Args:
        members: the layers of every model by their keys.
    """
    own = decision.layer.weights
    if components == 1 or decision.posteriors or not own or surgery.is_ours(decision.layer):
        return False
    if len(members) == 1:
        return (decision.reason == NO_MATRIX or decision.part == "head") and not decision.frozen
    theirs = [member[decision.place.keys].weights for member in members]
    return any(
        not np.array_equal(ops.convert_to_numpy(a), ops.convert_to_numpy(b))
        for other in theirs[1:]
        for a, b in zip(theirs[0], other, strict=True)
    )


def make_per_component(given: list[keras.layers.Layer], components: int) -> keras.layers.Layer:
    """Returns a layer with weights for every component: those of one layer, or of one for each."""
    shape = given[0].get_build_config()
    if not shape or "input_shape" not in shape:
        raise ValueError(
            f"Conversion to a mixture needs weights of {type(given[0]).__name__} {given[0].name!r} for every "
            "component, and that layer does not report the shape of its one input. Freeze it, layer.trainable = False."
        )
    made = layers.PerComponent(given[0], components)
    made.build(shape["input_shape"])
    made.start_at([layer.get_weights() for layer in given] * (components if len(given) == 1 else 1))
    return made
