"""Surgery on Keras models: a layer becomes another one where it stands.

Attributes, lists, other layers and graphs refer to a layer as an object. So the object stays, and gets the class and
the state of the new layer: no reference has to be found.

The config of a `Sequential` or functional model lists its layers, so it saves and loads as always. Any other model or
layer makes its layers itself when it is built from its config, and would make the old ones: such an object becomes a
`Converted` of its class, whose config also lists what was exchanged.

How Keras keeps layers is known here, to `places.py` (where they are) and to `copies.py`, and nowhere else. Both are
reached through this module.
"""

from collections.abc import Mapping

import keras

from singularbayes.convert.copies import compile_like, copied
from singularbayes.convert.places import Place, children, complete_config, is_ours, lists_its_layers, places
from singularbayes.convert.tasks import ReadsText, has_preprocessor

__all__ = [
    "Converted",
    "Place",
    "become",
    "children",
    "compile_like",
    "copied",
    "exchange",
    "is_ours",
    "lists_its_layers",
    "places",
]


def exchange(model: keras.layers.Layer, new: Mapping[int, keras.layers.Layer]) -> None:
    """Makes every layer of a model whose id is in `new` the layer given there. Changes the model."""
    found = places(model, whole=lambda layer: id(layer) in new or is_ours(layer))
    for place in found:
        if id(place.layer) in new:
            become(place.layer, new[id(place.layer)])
    for holder in {id(holder): holder for place in found for holder in place.holders}.values():
        _mark(holder)
        if hasattr(holder, "_torch_params"):
            holder._track_variables()


def become(layer: keras.layers.Layer, new: keras.layers.Layer) -> None:
    """Makes a layer another one: they are one layer from now on, and the calls of the first are those of both."""
    state = vars(new)
    state["_inbound_nodes"], state["_outbound_nodes"] = layer._inbound_nodes, layer._outbound_nodes
    for node in layer._inbound_nodes:
        if "mask" not in new.call_signature_parameters:
            node.arguments.kwargs.pop("mask", None)  # None, which Keras writes down where a layer takes a mask
    object.__setattr__(layer, "__class__", type(new))
    object.__setattr__(layer, "__dict__", state)


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
            config = complete_config(self)
        finally:
            self.__class__ = converted
        found = {place.key: place.layer for place in places(self, is_ours)}
        ours = {key: layer for key, layer in found.items() if is_ours(layer) or hasattr(layer, "exchanged")}
        return {
            "original": config,
            "layers": {key: keras.saving.serialize_keras_object(layer) for key, layer in ours.items()},
            "frozen": [key for key, layer in found.items() if key and not layer.trainable and key not in ours],
        }

    @classmethod
    def from_config(cls, config):
        model = keras.saving.deserialize_keras_object(config["original"])
        found = {place.key: place.layer for place in places(model, is_ours)}
        made = {key: keras.saving.deserialize_keras_object(layer) for key, layer in config["layers"].items()}
        missing = sorted(set(made) - set(found))
        if missing:
            raise ValueError(
                f"A converted {type(model).__name__} needs the layers it was converted with; its class now makes none "
                f"at {missing}. Load it with the version of its library that saved it."
            )
        for layer in made.values():
            layer.exchanged = True
        for key in config["frozen"]:
            found[key].trainable = False
        # A layer that takes others as arguments has been given ours already.
        exchange(model, {id(found[key]): layer for key, layer in made.items() if not is_ours(found[key])})
        return model


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
