"""The layers of a Keras model and the ways to them: attributes, lists, dictionaries, and the lists of models."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
from keras.src.models.functional import Functional, functional_like_constructor

from singularbayes import layers
from singularbayes.convert.tasks import has_preprocessor

OURS = (layers.BayesianLayer, layers.MultiHeadAttention, layers.TransformerEncoder, layers.PerComponent)


@dataclass(frozen=True)
class Place:
    """A layer of a model and the way to it."""

    layer: keras.layers.Layer
    keys: tuple[str, ...] = ()  # attributes, positions and keys of containers, from the model
    names: tuple[str, ...] = ()  # of the layers on the way
    holders: tuple[keras.layers.Layer, ...] = ()  # the layers on the way, the model first

    @property
    def parent(self) -> keras.layers.Layer | None:
        """The layer that holds this one, or None for the model."""
        return self.holders[-1] if self.holders else None

    @property
    def path(self) -> str:
        """The names on the way, as a person would write them."""
        return "/".join(self.names)


def places(model: keras.layers.Layer, whole: Callable[[Any], bool] = lambda layer: False) -> list[Place]:
    """Returns every layer of a model once, parents before their layers; the model itself is the first.

    Args:
        whole: whether a layer counts as one, without the layers in it.
    """
    found: list[Place] = []
    seen: set[int] = set()

    def visit(place: Place) -> None:
        seen.add(id(place.layer))
        found.append(place)
        if whole(place.layer):
            return
        for keys, child in _children(place.layer):
            if id(child) not in seen:
                names = (*place.names, child.name)
                visit(Place(child, (*place.keys, *keys), names, (*place.holders, place.layer)))

    visit(Place(model))
    return found


def is_ours(layer: keras.layers.Layer) -> bool:
    """Whether a layer is one of this package's."""
    return isinstance(layer, OURS)


def in_lists_alone(model: keras.layers.Layer) -> set[int]:
    """Returns the ids of the layers that only Sequential and functional models refer to: nothing calls them by name."""
    holders = [place.layer for place in places(model, whole=is_ours) if not is_ours(place.layer)]
    listed, named = (
        {id(child) for holder in holders if _is_list(holder) == kind for _, child in _children(holder)}
        for kind in (True, False)
    )
    return listed - named


def _is_list(holder) -> bool:
    return isinstance(holder, (keras.Sequential, Functional)) and lists_its_layers(holder)


def _children(layer) -> list[tuple[tuple[str, ...], keras.layers.Layer]]:
    """Returns the layers that a layer holds, each with the attribute and keys that lead to it, in the order of use."""
    found: dict[int, tuple[tuple[str, ...], keras.layers.Layer]] = {}
    listed = [("layers", layer.layers)] if isinstance(layer, (keras.Sequential, Functional)) else []
    for attribute, value in (*listed, *own_attributes(layer)):
        for keys, child in _layers_in(value):
            found.setdefault(id(child), ((attribute, *keys), child))
    order = {id(child): position for position, child in enumerate(layer._layers)}
    return sorted(found.values(), key=lambda pair: order.get(id(pair[1]), len(order)))


def own_weights(layer) -> list:
    """Returns the weights of a layer without those of layers in it."""
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def own_attributes(layer) -> list[tuple[str, Any]]:
    """Returns the attributes of a layer that Keras did not make, sorted: the order is the same on every backend."""
    names = {*vars(layer), *vars(layer).get("_modules", ())}  # torch keeps those that are layers apart
    own = (name for name in names - _keras_attributes() if not name.startswith(_TENSORFLOW))
    if has_preprocessor(layer):
        own = (name for name in own if name != "_preprocessor")
    return [(name, getattr(layer, name)) for name in sorted(own)]


# What TensorFlow adds to what it tracks.
_TENSORFLOW = ("_self_unconditional_", "_self_name_based_", "_self_setattr_", "_self_saveable_", "_self_update_uid")


@functools.cache
def _keras_attributes() -> frozenset[str]:
    graph = {"_functional", "_operations", "_operations_by_depth", "_nodes", "_nodes_by_depth"}
    return frozenset(vars(keras.layers.Layer())) | graph


def _layers_in(value) -> Iterator[tuple[tuple[str, ...], keras.layers.Layer]]:
    if isinstance(value, keras.layers.Layer):
        yield (), value
    elif isinstance(value, (list, tuple, dict)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            for keys, child in _layers_in(item):
                yield (str(key), *keys), child


def lists_its_layers(holder) -> bool:
    """Whether the layers of this layer are in its config, so that they come back from a file."""
    if isinstance(holder, Functional):
        return type(holder).get_config is Functional.get_config and functional_like_constructor(type(holder))
    plain = (keras.Sequential, keras.layers.Wrapper, keras.layers.TimeDistributed, keras.layers.Bidirectional)
    return type(holder).get_config in [cls.get_config for cls in plain]
