"""Surgery on Keras models: layers exchanged in place, in every place that refers to them.

The config of a `Sequential` or functional model lists its layers, so it saves and loads as always. Any other model or
layer makes its layers itself when it is built from its config, and would make the old ones: such an object becomes a
`Converted` of its class, whose config also lists what was exchanged.

How Keras keeps layers is known here, to `places.py` (where they are) and to `copies.py`, and nowhere else. Both are
reached through this module.
"""

from collections.abc import Mapping
from typing import TypeAlias

import keras
from keras.src.models.functional import Functional
from keras.src.ops.function import map_graph
from keras.src.ops.node import KerasHistory
from keras.src.ops.symbolic_arguments import SymbolicArguments
from keras.src.utils.tracking import DotNotTrackScope

from singularbayes.convert.copies import compile_like, complete_configs, copied
from singularbayes.convert.places import Place, in_lists_alone, is_ours, lists_its_layers, places
from singularbayes.convert.tasks import ReadsText, has_preprocessor

__all__ = ["Chain", "Converted", "Place", "compile_like", "copied", "exchange", "in_lists_alone", "is_ours", "places"]

Chain: TypeAlias = keras.layers.Layer | list[keras.layers.Layer]


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
    for holder in holders:
        holder._remat_mode = None  # computed again for its gradient, a layer in it would draw again
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
    """Returns a value with layers exchanged: lists and dictionaries themselves, tuples as new ones."""
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
        _drop_unknown_mask(node)
        for position, tensor in enumerate(node.outputs):
            tensor._keras_history = KerasHistory(last, index, position)
        if before:
            _insert(before, node)


def _drop_unknown_mask(node) -> None:
    """Takes mask=None, which Keras writes down where a layer takes a mask, out of a call of a layer that takes none."""
    kwargs, layer = node.arguments.kwargs, node.operation
    if kwargs.get("mask", node) is None and "mask" not in layer._call_signature.parameters:
        kept = {name: value for name, value in kwargs.items() if name != "mask"}
        node.arguments = SymbolicArguments(*node.arguments.args, **kept)


def _insert(before, node) -> None:
    """Makes a call of one tensor a call of what the layers before it make of the tensor."""
    (x,) = node.arguments.keras_tensors
    x._keras_history.operation._outbound_nodes.remove(node)
    for layer in before:
        x = layer(x)
    x._keras_history.operation._outbound_nodes.append(node)
    node.arguments = SymbolicArguments(x, **node.arguments.kwargs)


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
            with complete_configs(self):
                config = keras.saving.serialize_keras_object(self)
        finally:
            self.__class__ = converted
        config.pop("compile_config", None)
        found = {"/".join(place.keys): place.layer for place in places(self, is_ours)}
        ours = {keys: layer for keys, layer in found.items() if is_ours(layer) or hasattr(layer, "exchanged")}
        return {
            "original": config,
            "layers": {keys: keras.saving.serialize_keras_object(layer) for keys, layer in ours.items()},
            "frozen": [keys for keys, layer in found.items() if keys and not layer.trainable and keys not in ours],
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
        for layer in made.values():
            layer.exchanged = True
        for keys in config["frozen"]:
            found[keys].trainable = False
        # A layer that takes others as arguments has been given ours already.
        return exchange(model, {id(found[keys]): layer for keys, layer in made.items() if not is_ours(found[keys])})


def _mark(holder) -> None:
    """Makes a layer that holds layers of ours a `Converted` of its class, unless its config lists them; or no more."""
    holds = any(is_ours(place.layer) for place in places(holder, is_ours))
    cls = type(holder)
    if holds and not isinstance(holder, Converted) and not lists_its_layers(holder):
        holder.__class__ = _converted(cls)
    elif not holds and isinstance(holder, Converted):
        holder.__class__ = cls.original


def _converted(cls: type) -> type:
    if cls not in _CONVERTED:
        bases = (ReadsText, Converted, cls) if has_preprocessor(cls) else (Converted, cls)
        made = type(cls)(cls.__name__, bases, {"original": cls, "__module__": __name__})
        # One name for all of them: `from_config` does not depend on the class.
        register = keras.saving.register_keras_serializable(package="singularbayes", name="Converted")
        _CONVERTED[cls] = register(made)
    return _CONVERTED[cls]
