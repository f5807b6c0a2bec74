"""Several trained models, the members of a deep ensemble, that become the components of one."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import keras
import numpy as np

from singularbayes import layers
from singularbayes.convert.places import Place, own_weights, places

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
    ours, theirs = places(first), places(other)
    for mine, its in zip(ours, theirs, strict=False):
        if (mine.key, _shown(mine)) != (its.key, _shown(its)):
            raise ValueError(f"{where}: {its.path!r} is {_shown(its)}, not {_shown(mine)}.")
    if len(ours) != len(theirs):
        raise ValueError(f"{where}: it has {len(theirs)} layers, not {len(ours)}.")
    for mine, its in reversed(list(zip(ours, theirs, strict=True))):  # the layers in a layer before it
        before, after = _config(mine.layer), _config(its.layer)
        differs = [key for key in before if before[key] != after.get(key)]
        if differs and type(mine.layer) is not keras.layers.InputLayer:
            key = differs[0]
            raise ValueError(f"{where}: {its.path!r} has {key}={after.get(key)!r}, not {before[key]!r}.")


def _shown(place: Place) -> str:
    return f"{type(place.layer).__name__} with weights {[tuple(weight.shape) for weight in own_weights(place.layer)]}"


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


def require_components(members: list, chosen: list) -> int:
    """Returns the number of components of a conversion, 1 without mixtures; raises unless it fits the models."""
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


def differ(given: Sequence[keras.layers.Layer]) -> bool:
    """Returns whether the weights of some layers differ."""
    first, *others = (layer.get_weights() for layer in given)
    return any(not np.array_equal(a, b) for other in others for a, b in zip(first, other, strict=True))


def make_per_component(given: Sequence[keras.layers.Layer], components: int) -> keras.layers.Layer:
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
