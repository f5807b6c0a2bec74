"""How a posterior is printed: as the call that makes it."""

import inspect
from itertools import takewhile

import keras

from singularbayes.posteriors import priors
from singularbayes.posteriors.scope import Source

_OF_KERAS = {"kwargs", "name", "trainable", "dtype"}


def call_repr(made) -> str:
    """Returns the call that makes an object whose arguments are attributes; those at their default are left out.

    A class that takes `**kwargs` hands them to the next one, whose arguments come behind its own.
    """
    known: dict = {}
    for cls in takewhile(lambda cls: cls is not Source, type(made).__mro__):
        arguments = inspect.signature(cls).parameters
        known |= {name: argument for name, argument in arguments.items() if name not in known}
        if "kwargs" not in arguments:
            break
    parts = []
    for name in [name for name in known if name not in _OF_KERAS]:
        value, default = getattr(made, name), known[name].default
        if default is inspect.Parameter.empty:
            parts.append(repr(value))
        elif value != (priors.get(default) if name == "prior" else default):
            parts.append(f"{name}={_value(value)}")
    return f"{type(made).__name__}({', '.join(parts)})"


def _value(value) -> str:
    if isinstance(value, keras.initializers.Initializer):
        arguments = ", ".join(f"{name}={v!r}" for name, v in value.get_config().items() if v is not None)
        return f"{type(value).__name__}({arguments})"
    return getattr(value, "__name__", repr(value))
