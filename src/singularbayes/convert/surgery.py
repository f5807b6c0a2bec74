"""Surgery on Keras models: a copy that shares nothing with the original, and layers of it exchanged in place.

Everything that must know how Keras keeps layers (attributes, lists, graphs of functional models) is in this file.

A copy is made from the model's config, so every object of it has the class that it had. Then layers are exchanged in
every place that refers to them. The config of a `Sequential` or functional model lists its layers, so it saves and
loads as always. Any other model or layer makes its layers itself when it is built from its config, and would make the
old ones: such an object becomes a `Converted` of its class, whose config also lists what was exchanged.
"""

import contextlib
import functools
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import keras
import numpy as np
from keras import ops
from keras.src.models.functional import Functional, functional_like_constructor
from keras.src.ops.function import map_graph
from keras.src.ops.node import KerasHistory
from keras.src.ops.symbolic_arguments import SymbolicArguments
from keras.src.utils.tracking import DotNotTrackScope

from singularbayes import layers

Chain: TypeAlias = keras.layers.Layer | list[keras.layers.Layer]
OURS = (layers.BayesianLayer, layers.MultiHeadAttention, layers.TransformerEncoder)


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
    return isinstance(holder, (keras.Sequential, Functional)) and _lists_its_layers(holder)


def _children(layer) -> list[tuple[tuple[str, ...], keras.layers.Layer]]:
    """Returns the layers that a layer holds, each with the attribute and keys that lead to it, in the order of use."""
    found: dict[int, tuple[tuple[str, ...], keras.layers.Layer]] = {}
    listed = [("layers", layer.layers)] if isinstance(layer, (keras.Sequential, Functional)) else []
    for attribute, value in (*listed, *_own_attributes(layer)):
        for keys, child in _layers_in(value):
            found.setdefault(id(child), ((attribute, *keys), child))
    order = {id(child): position for position, child in enumerate(layer._layers)}
    return sorted(found.values(), key=lambda pair: order.get(id(pair[1]), len(order)))


def _own_attributes(layer) -> list[tuple[str, Any]]:
    """Returns the attributes of a layer that Keras did not make, sorted: the order is the same on every backend."""
    names = {*vars(layer), *vars(layer).get("_modules", ())}  # torch keeps those that are layers apart
    own = (name for name in names - _keras_attributes() if not name.startswith(_TENSORFLOW))
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


# -- copies ----------------------------------------------------------------------------------------------------------


def copied(model: keras.layers.Layer) -> keras.layers.Layer:
    """Returns a copy of a built model with the same weights, names and flags, in buffers of its own; not compiled."""
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
    reached = {id(weight) for place in before for weight in _own_weights(place.layer)}
    hidden = [weight.path for weight in model.weights if id(weight) not in reached]
    if hidden:
        raise ValueError(
            f"Conversion needs layers that are attributes, or in lists, tuples or dictionaries; got {model.name!r}, "
            f"whose weights {hidden} belong to none of these."
        )
    for old, new in pairs:
        _copy_state(old.layer, new.layer, old.path or model.name)
        _require_same_settings(old, new, model)  # now: what loads weights also leaves marks, in Keras's Dense
    return copy


def _require_same_settings(old: Place, new: Place, model) -> None:
    """Raises where a user's layer has a plain attribute that its config does not give back."""
    cls = getattr(type(old.layer), "original", type(old.layer))
    if cls.__module__.partition(".")[0] in ("keras", "keras_hub", "singularbayes"):
        return
    for name, value in _own_attributes(old.layer):
        plain = isinstance(value, (bool, int, float, str)) and not name.startswith("_") and name != "name"
        if plain and getattr(new.layer, name, None) != value:
            raise ValueError(
                f"Conversion needs a model that its config describes; got {cls.__name__} {old.path or model.name!r} "
                f"with {name}={value!r}, which is {getattr(new.layer, name, None)!r} when it is built from its config. "
                f"Make {name} an argument of __init__ and of get_config()."
            )


def _own_weights(layer) -> list:
    return [*layer._trainable_variables, *layer._non_trainable_variables]


def _rebuilt(model):
    try:
        with _named_functions(model) as functions:
            config = keras.saving.serialize_keras_object(model)
            config.pop("compile_config", None)
            with keras.saving.custom_object_scope({**_custom_classes(model), **functions}):
                return keras.saving.deserialize_keras_object(config, safe_mode=False)
    except (NotImplementedError, TypeError) as error:
        raise ValueError(
            f"Conversion needs a model that can be built from its config; got {type(model).__name__} {model.name!r}, "
            "which cannot. Give its class, and those of its own layers, get_config() with all the arguments of "
            f"__init__. Keras says: {str(error).rpartition('Exception encountered: ')[2]}"
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


def _copy_state(old, new, where: str) -> None:
    """Gives a layer the own weights, assets, name and flags of the layer that it is a copy of."""
    new.name = old.name
    if new.trainable != old.trainable:
        new.trainable = old.trainable
    new.activity_regularizer = old.activity_regularizer  # which the config of some Keras layers leaves out
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
    with warnings.catch_warnings(), contextlib.suppress(TypeError, ValueError):
        warnings.simplefilter("ignore")
        config = model.get_compile_config()
        if config:
            copy.compile_from_config(config)
    if not copy.compiled:  # a loss without a name to find it by cannot be copied
        warnings.warn(
            f"The copy of {model.name!r} is not compiled: its loss or metrics cannot be read back from their config. "
            "Call compile before fit.",
            stacklevel=4,
        )


# -- exchange --------------------------------------------------------------------------------------------------------


def exchange(model: keras.layers.Layer, new: Mapping[int, Chain]) -> keras.layers.Layer:
    """Puts new[id(layer)] wherever `model` refers to that layer, and returns the model. Changes the model.

    A layer that is `in_lists_alone` can give way to several, called one after the other.
    """
    chains = {key: chain if isinstance(chain, list) else [chain] for key, chain in new.items()}
    found = [place.layer for place in places(model, whole=lambda layer: id(layer) in chains or is_ours(layer))]
    holders = [holder for holder in found if id(holder) not in chains and not is_ours(holder)]
    graphs = [graph for holder in holders for graph in _graphs(holder)]
    for old in found:
        if id(old) in chains:
            _rewire(old, chains[id(old)])
    for holder in {id(holder): holder for holder in (*holders, *graphs)}.values():
        _exchange_in(holder, chains)
    for graph in graphs:
        with DotNotTrackScope():
            mapped = map_graph(graph._inputs, graph._outputs)
            graph._nodes, graph._nodes_by_depth, graph._operations, graph._operations_by_depth = mapped
    for holder in holders:
        _mark(holder)
        if hasattr(holder, "_torch_params"):
            holder._track_variables()
    return chains[id(model)][-1] if id(model) in chains else model


def _graphs(holder) -> list[Functional]:
    """Returns the functional models that run a model: itself, or the one inside a Sequential."""
    inner = getattr(holder, "_functional", None)
    return [graph for graph in (holder, inner) if isinstance(graph, Functional)]


def _exchange_in(holder, chains) -> None:
    """Exchanges layers in the register, the attributes and the containers of one layer."""
    tracker = holder._tracker
    for old in [layer for layer in tracker.config["layers"][1] if id(layer) in chains]:
        *before, last = chains[id(old)]
        tracker.replace_tracked_value("layers", old, last)
        tracked = tracker.config["layers"][1]
        at = next(position for position, layer in enumerate(tracked) if layer is last)
        tracked[at:at] = before
        tracker.stored_ids["layers"] |= set(map(id, before))
    # Torch keeps the attributes that are layers apart.
    for name in [*vars(holder), *vars(holder).get("_modules", ())]:
        value = getattr(holder, name)
        after = _exchanged(value, chains)
        if after is not value:
            setattr(holder, name, after)


def _exchanged(value, chains):
    """Returns a value with layers exchanged: lists and dictionaries themselves, tuples anew."""
    if isinstance(value, keras.layers.Layer):
        return chains[id(value)][-1] if id(value) in chains else value
    if isinstance(value, dict):
        for key, item in list(value.items()):
            after = _exchanged(item, chains)
            if after is not item:
                value[key] = after
    elif isinstance(value, list):
        parts = [chains.get(id(item)) or [_exchanged(item, chains)] for item in value]
        items = [item for part in parts for item in part]
        if list(map(id, items)) != list(map(id, value)):
            value[:] = items
    elif isinstance(value, tuple):
        items = [_exchanged(item, chains) for item in value]
        if list(map(id, items)) != list(map(id, value)):
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _rewire(old, chain) -> None:
    """Makes the calls of `old` in functional models calls of the chain."""
    *before, last = chain
    last._inbound_nodes, last._outbound_nodes = old._inbound_nodes, old._outbound_nodes
    for index, node in enumerate(last._inbound_nodes):
        node.operation = last
        for position, tensor in enumerate(node.outputs):
            tensor._keras_history = KerasHistory(last, index, position)
        if before:
            _insert(before, node)


def _insert(before, node) -> None:
    """Makes a call of one tensor a call of what the layers before it make of the tensor."""
    (x,) = node.arguments.keras_tensors
    x._keras_history.operation._outbound_nodes.remove(node)
    for layer in before:
        x = layer(x)
    x._keras_history.operation._outbound_nodes.append(node)
    node.arguments = SymbolicArguments(x, **node.arguments.kwargs)


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
        holder.__class__ = cls.original


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
