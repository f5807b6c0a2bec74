"""Surgery on Keras models: a copy that shares nothing with the original, and layers of it exchanged in place.

Everything that must know how Keras keeps layers (attributes, lists, graphs of functional models) is in this file.

A copy is made from the model's config, so every object of it has the class that it had. Then layers are exchanged in
every place that refers to them. The config of a `Sequential` or functional model lists its layers, so it saves and
loads as always. Any other model or layer makes its layers itself when it is built from its config, and would make the
old ones: such an object becomes a `Converted` of its class, whose config also lists what was exchanged.
"""

import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
from keras import ops
from keras.src.models.functional import Functional, functional_like_constructor
from keras.src.ops.function import map_graph
from keras.src.ops.node import KerasHistory
from keras.src.saving.saving_lib import _walk_saveable
from keras.src.utils.tracking import DotNotTrackScope

from singularbayes import layers

OURS = (layers.BayesianLayer, layers.MultiHeadAttention, layers.TransformerEncoder)


@dataclass(frozen=True)
class Place:
    """A layer of a model and the way to it."""

    layer: keras.layers.Layer
    keys: tuple[str, ...] = ()  # attributes, positions and keys of containers, from the model
    names: tuple[str, ...] = ()  # of the layers on the way
    parent: keras.layers.Layer | None = None

    @property
    def path(self) -> str:
        """The names on the way, as a person would write them."""
        return "/".join(self.names)


def places(model: keras.layers.Layer, whole: Callable[[Any], bool] = lambda layer: False) -> list[Place]:
    """Returns every layer of a model once, parents before their layers; the model itself is the first.

    Args:
        whole: says of a layer that the layers in it do not matter.
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
                visit(Place(child, (*place.keys, *keys), names, place.layer))

    visit(Place(model))
    return found


def is_ours(layer: keras.layers.Layer) -> bool:
    """Whether a layer is one of this package's."""
    return isinstance(layer, OURS)


def _children(layer) -> list[tuple[tuple[str, ...], keras.layers.Layer]]:
    """Returns the layers that a layer holds, each with the attribute and keys that lead to it, in the order of use."""
    found = {}
    for attribute, value in _walk_saveable(layer):  # what Keras itself saves
        for keys, child in _layers_in(value):
            found.setdefault(id(child), ((attribute, *keys), child))
    order = {id(child): position for position, child in enumerate(layer._layers)}
    return sorted(found.values(), key=lambda pair: order.get(id(pair[1]), len(order)))


def _layers_in(value) -> Iterator[tuple[tuple[str, ...], keras.layers.Layer]]:
    if isinstance(value, keras.layers.Layer):
        yield (), value
    elif isinstance(value, (list, tuple, dict)):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            for keys, child in _layers_in(item):
                yield (str(key), *keys), child


# -- copies ----------------------------------------------------------------------------------------------------------


def copied(model: keras.layers.Layer) -> keras.layers.Layer:
    """Returns a copy of a built model with the same weights, names and flags, in buffers of its own; not compiled."""
    copy = _rebuilt(model)
    pairs = list(zip(places(model), places(copy), strict=False))
    same = [(old.keys, type(old.layer)) == (new.keys, type(new.layer)) for old, new in pairs]
    if not all(same) or len(places(model)) != len(places(copy)):
        where = next((old for old, equal in zip(pairs, same, strict=True) if not equal), pairs[-1])[0]
        raise ValueError(
            f"Conversion needs a model that its config describes; got {type(model).__name__} {model.name!r}, which is "
            f"not the same when it is built from its config: see {where.path or model.name!r}. Layers and sharing that "
            "are added after the constructor are not in a config."
        )
    for old, new in pairs:
        _copy_state(old.layer, new.layer, old.path or model.name)
    return copy


def _rebuilt(model):
    try:
        with warnings.catch_warnings():
            # Nothing leaves this process, so a lambda of the user's is no danger here.
            warnings.filterwarnings("ignore", message="The object being serialized includes a `lambda`")
            config = keras.saving.serialize_keras_object(model)
            config.pop("compile_config", None)
            with keras.saving.custom_object_scope(_custom_classes(model)):
                return keras.saving.deserialize_keras_object(config, safe_mode=False)
    except (NotImplementedError, TypeError) as error:
        raise ValueError(
            f"Conversion needs a model that can be built from its config; got {type(model).__name__} {model.name!r}, "
            "which cannot. Give its class, and those of its own layers, get_config() with all the arguments of "
            f"__init__. Keras says: {error}"
        ) from error


def _custom_classes(model) -> dict[str, type]:
    classes = {type(place.layer) for place in places(model)}
    return {cls.__name__: cls for cls in classes if ">" not in keras.saving.get_registered_name(cls)}


def _copy_state(old, new, where: str) -> None:
    """Gives a layer the own weights, assets, name and flags of the layer that it is a copy of."""
    new.name = old.name
    if new.trainable != old.trainable:
        new.trainable = old.trainable
    new.activity_regularizer = old.activity_regularizer  # which the config of some Keras layers leaves out
    if new.built != old.built:
        raise ValueError(
            f"Conversion needs a model that is built from its config as it was built; got layer {where!r}, which is "
            f"{'not built' if old.built else 'built'} in the model but {'not ' * old.built}in its copy."
        )
    store: dict[str, Any] = {}
    old.save_own_variables(store)
    if store:
        new.load_own_variables({key: np.array(ops.convert_to_numpy(value)) for key, value in store.items()})
    if hasattr(old, "save_assets"):
        with tempfile.TemporaryDirectory() as folder:
            old.save_assets(folder)
            new.load_assets(folder)


def compile_like(copy: keras.Model, model: keras.Model) -> None:
    """Compiles the copy with the optimizer, loss and metrics of the model, if that is compiled."""
    config = model.get_compile_config() if isinstance(model, keras.Model) and model.compiled else None
    if config:
        copy.compile_from_config(config)


# -- exchange --------------------------------------------------------------------------------------------------------


def exchange(model: keras.layers.Layer, new: dict[int, keras.layers.Layer]) -> keras.layers.Layer:
    """Puts new[id(layer)] wherever `model` refers to that layer, and returns the model. Changes the model."""
    holders = [place.layer for place in places(model, whole=lambda layer: id(layer) in new or is_ours(layer))]
    holders = [holder for holder in holders if id(holder) not in new and not is_ours(holder)]
    graphs = [graph for holder in holders for graph in _graphs(holder)]
    for holder in {id(holder): holder for holder in (*holders, *graphs)}.values():
        _exchange_in(holder, new)
    for graph in graphs:
        with DotNotTrackScope():
            mapped = map_graph(graph._inputs, graph._outputs)
            graph._nodes, graph._nodes_by_depth, graph._operations, graph._operations_by_depth = mapped
    for holder in holders:
        _mark(holder)
        if hasattr(holder, "_torch_params"):
            holder._track_variables()
    return new.get(id(model), model)


def _graphs(holder) -> list[Functional]:
    """Returns the functional models that run a model: itself, or the one inside a Sequential."""
    inner = getattr(holder, "_functional", None)
    return [graph for graph in (holder, inner) if isinstance(graph, Functional)]


def _exchange_in(holder, new) -> None:
    """Exchanges layers in the attributes, containers, register and graph of one layer."""
    for old in list(holder._tracker.config["layers"][1]):
        if id(old) in new:
            holder._tracker.replace_tracked_value("layers", old, new[id(old)])
            _rewire(old, new[id(old)])
    # Torch keeps the attributes that are layers apart.
    for name in [*vars(holder), *vars(holder).get("_modules", ())]:
        value = getattr(holder, name)
        after = _exchanged(value, new)
        if after is not value:
            setattr(holder, name, after)


def _exchanged(value, new):
    """Returns a value with layers exchanged: lists and dictionaries themselves, tuples anew."""
    if isinstance(value, keras.layers.Layer):
        return new.get(id(value), value)
    if isinstance(value, (list, dict)):
        for key, item in list(value.items() if isinstance(value, dict) else enumerate(value)):
            after = _exchanged(item, new)
            if after is not item:
                value[key] = after
    elif isinstance(value, tuple):
        items = [_exchanged(item, new) for item in value]
        if any(after is not item for after, item in zip(items, value, strict=True)):
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _rewire(old, new) -> None:
    """Makes the calls of `old` in functional models calls of `new`."""
    new._inbound_nodes, new._outbound_nodes = old._inbound_nodes, old._outbound_nodes
    for index, node in enumerate(new._inbound_nodes):
        node.operation = new
        for position, tensor in enumerate(node.outputs):
            tensor._keras_history = KerasHistory(new, index, position)


# -- files -----------------------------------------------------------------------------------------------------------

_CONVERTED: dict[type, type] = {}


@keras.saving.register_keras_serializable(package="singularbayes")
class Converted:
    """What the class of a converted model or layer has beside its own, so that files keep the exchanged layers.

    The object stays what it was: `isinstance`, methods and attributes are those of its class. Only its config becomes
    the original's config and the layers of this package in it, by place.
    """

    original: type

    def get_config(self):
        converted = type(self)
        self.__class__ = converted.original  # so that it describes itself as it did
        try:
            config = keras.saving.serialize_keras_object(self)
        finally:
            self.__class__ = converted
        config.pop("compile_config", None)
        ours = {"/".join(place.keys): place.layer for place in places(self, is_ours) if is_ours(place.layer)}
        return {
            "original": config,
            "layers": {keys: keras.saving.serialize_keras_object(layer) for keys, layer in ours.items()},
        }

    @classmethod
    def from_config(cls, config):
        model = keras.saving.deserialize_keras_object(config["original"])
        found = {"/".join(place.keys): place.layer for place in places(model, is_ours)}
        made = {keys: keras.saving.deserialize_keras_object(layer) for keys, layer in config["layers"].items()}
        missing = sorted(set(made) - set(found))
        if missing:
            raise ValueError(
                f"A converted {type(model).__name__} needs the layers it was converted with; its class now makes none "
                f"at {missing}. Load it with the version of its library that saved it."
            )
        # A layer that takes others as arguments has been given ours already.
        return exchange(model, {id(found[keys]): layer for keys, layer in made.items() if not is_ours(found[keys])})


def _mark(holder) -> None:
    """Makes a layer that holds layers of ours a `Converted` of its class, unless its config lists them; or no more."""
    holds = any(is_ours(place.layer) for place in places(holder, is_ours))
    cls = type(holder)
    if holds and not isinstance(holder, Converted) and not _lists_its_layers(holder):
        holder.__class__ = _converted(cls)
    elif not holds and isinstance(holder, Converted):
        holder.__class__ = cls.original  # type: ignore[attr-defined]


def _converted(cls: type) -> type:
    if cls not in _CONVERTED:
        made = type(cls)(cls.__name__, (Converted, cls), {"original": cls, "__module__": __name__})
        # One name for all of them: `from_config` does not depend on the class.
        register = keras.saving.register_keras_serializable(package="singularbayes", name="Converted")
        _CONVERTED[cls] = register(made)
    return _CONVERTED[cls]


def _lists_its_layers(holder) -> bool:
    """Whether the layers of this layer are in its config, so that they come back from a file."""
    if isinstance(holder, Functional):
        return type(holder).get_config is Functional.get_config and functional_like_constructor(type(holder))
    plain = (keras.Sequential, keras.layers.Wrapper, keras.layers.TimeDistributed, keras.layers.Bidirectional)
    return type(holder).get_config in [cls.get_config for cls in plain]
