"""The layers of a Keras model and the ways to them, and its config with all that it needs."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras

from singularbayes import layers
from singularbayes.convert.tasks import has_preprocessor

OURS = (layers.BayesianLayer, layers.MultiHeadAttention, layers.TransformerEncoder, layers.PerComponent)


@dataclass(frozen=True)
class Place:
    """A layer of a model and the way to it."""

    layer: keras.layers.Layer
    key: str = ""  # its number in its holders, "2/0/1": the same in every model of an architecture, on every backend
    names: tuple[str, ...] = ()  # of the layers on the way
    holders: tuple[keras.layers.Layer, ...] = ()  # the layers on the way, the model first

    @property
    def path(self) -> str:
        """The names on the way, as a person would write them; of the model itself its name."""
        return "/".join(self.names) or self.layer.name


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
        for number, child in enumerate([] if whole(place.layer) else children(place.layer)):
            if id(child) not in seen:
                names, holders = (*place.names, child.name), (*place.holders, place.layer)
                visit(Place(child, f"{place.key}/{number}".strip("/"), names, holders))

    visit(Place(model))
    return found


def children(layer) -> list[keras.layers.Layer]:
    """Returns the layers that a layer holds, those of a graph first: Keras tracks attributes in it on some backends."""
    graph = layer.layers if isinstance(layer, keras.Model) else []
    held = {id(child): child for child in (*graph, *layer._layers)}
    if has_preprocessor(layer):
        held.pop(id(layer.preprocessor), None)
    return list(held.values())


def own_weights(layer) -> list:
    """Returns the weights of a layer without those of layers in it."""
    inside = {id(weight) for child in layer._layers for weight in child.weights}
    return [weight for weight in layer.weights if id(weight) not in inside]


def is_ours(layer: keras.layers.Layer) -> bool:
    """Whether a layer is one of this package's."""
    return isinstance(layer, OURS)


def lists_its_layers(holder) -> bool:
    """Whether the layers of this layer are in its config, so that they come back from a file."""
    if hasattr(holder, "operations"):  # a functional model, unless its class describes itself by other arguments
        return "input_layers" in holder.get_config()
    plain = (keras.Sequential, keras.layers.Wrapper, keras.layers.TimeDistributed, keras.layers.Bidirectional)
    return type(holder).get_config in [cls.get_config for cls in plain]


def complete_config(model) -> dict:
    """Returns the config of a model, with what KerasHub's leave out: `tie_word_embeddings` of Llama's."""
    config = keras.saving.serialize_keras_object(model)
    config.pop("compile_config", None)
    _add(config, {place.layer.name: _left_out(place.layer) for place in places(model)})
    return config


def _left_out(layer) -> dict[str, Any]:
    """Returns the plain arguments of a model of KerasHub that are its attributes, but not in its config."""
    if not (isinstance(layer, keras.Model) and type(layer).__module__.startswith("keras_hub.")):
        return {}
    config, own = layer.get_config(), vars(layer)
    missing = [name for name in inspect.signature(type(layer).__init__).parameters if name not in config]
    return {name: own[name] for name in missing if isinstance(own.get(name), (bool, int, float, str))}


def _add(config, more: dict[str, dict[str, Any]]) -> None:
    """Adds arguments to the configs of the layers of these names, wherever they are in the config."""
    if isinstance(config, dict):
        if isinstance(config.get("config"), dict):
            config["config"].update(more.get(config["config"].get("name"), {}))
        for value in config.values():
            _add(value, more)
    elif isinstance(config, (list, tuple)):
        for value in config:
            _add(value, more)
