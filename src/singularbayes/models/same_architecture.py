"""Whether models are the same network with other weights, so that one compiled program serves them all."""

import keras

from singularbayes.models.traversal import flat_layers


def kind_of(model: keras.Model) -> list:
    """Returns what models of one architecture share: the settings of their layers and the shapes of their variables.

    >>> one, two = (keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]) for _ in range(2))
    >>> kind_of(one) == kind_of(two), one.layers[0].name == two.layers[0].name
    (True, False)
    """
    layers = [(type(layer), _settings(layer)) for layer in flat_layers(model) if not hasattr(layer, "layers")]
    return [layers, _shapes(model.variables)]


def optimizer_kind(optimizer: keras.optimizers.Optimizer) -> list:
    """Returns what optimizers of one kind share: all settings but a rate that is a variable, and the shapes."""
    settings = _settings(optimizer)
    if isinstance(settings.get("learning_rate"), float):
        del settings["learning_rate"]
    return [type(optimizer), settings, _shapes(optimizer.variables)]


def _shapes(variables) -> list:
    return [(tuple(variable.shape), str(variable.dtype), variable.trainable) for variable in variables]


def _settings(thing) -> dict:
    try:
        config = thing.get_config()
    except NotImplementedError:  # a layer of the user's, whose weights are still compared
        return {}
    return _nameless(config)


def _nameless(config):
    if isinstance(config, dict):
        return {key: _nameless(value) for key, value in config.items() if key not in ("name", "shared_object_id")}
    return [_nameless(value) for value in config] if isinstance(config, (list, tuple)) else config
