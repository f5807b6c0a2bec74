"""A posterior as text, in files, and as a copy that is not built."""

import inspect
from itertools import takewhile

import keras

from singularbayes.posteriors import priors
from singularbayes.posteriors.scope import Source

_OF_KERAS = {"kwargs", "name", "trainable", "dtype", "components"}


def call_repr(made) -> str:
    """Returns the call that makes an object whose arguments are attributes; those at their default are left out.

    A class that takes `**kwargs` hands them to the next one, whose arguments come behind its own.
    """
    known: dict = {}
    ours = takewhile(lambda cls: cls is not Source, type(made).__mro__)
    for cls in (cls for cls in ours if "__init__" in vars(cls)):
        arguments = inspect.signature(cls).parameters
        known |= {name: argument for name, argument in arguments.items() if name not in known}
        if "kwargs" not in arguments:
            break
    parts = []
    for name in [name for name in known if name not in _OF_KERAS]:
        value, default = getattr(made, name), known[name].default
        if default is inspect.Parameter.empty:
            parts.append(repr(value))
        elif value != (priors.get_prior(default) if name == "prior" else default):
            parts.append(f"{name}={_value(value)}")
    return f"{type(made).__name__}({', '.join(parts)})"


def _value(value) -> str:
    if isinstance(value, keras.initializers.Initializer):
        arguments = ", ".join(f"{name}={v!r}" for name, v in value.get_config().items() if v is not None)
        return f"{type(value).__name__}({arguments})"
    return getattr(value, "__name__", repr(value))


def copy_posterior(identifier, name: str):
    """Returns a copy, called `name` and not built, of a posterior or of its serialised form."""
    if isinstance(identifier, dict):
        return keras.saving.deserialize_keras_object({**identifier, "config": {**identifier["config"], "name": name}})
    return type(identifier).from_config({**identifier.get_config(), "name": name})


def serialize(posterior) -> dict:
    """Returns the posterior's class and arguments; it is built again with the layer that holds it."""
    config = keras.saving.serialize_keras_object(posterior)
    config.pop("build_config", None)
    return _unshared(config)


def _unshared(config):
    """Returns a copy without Keras's marks of shared objects.

    While a model is read or written Keras knows objects by their address, which a temporary posterior leaves to the
    next: marked by it, one posterior would be taken for another.
    """
    if not isinstance(config, dict):
        return config
    return {key: _unshared(value) for key, value in config.items() if key != "shared_object_id"}
