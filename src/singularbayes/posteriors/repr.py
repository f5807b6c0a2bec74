"""How a posterior is printed: as the call that makes it."""

import inspect

import keras

from singularbayes.posteriors import priors

_OF_KERAS = {"kwargs", "name", "trainable", "dtype"}


def call_repr(made, base: type) -> str:
    """Returns the call that makes an object whose arguments are attributes; those at their default are left out.

    Args:
        base: the class whose arguments `made` takes too, behind its own.
    """
    own, common = (inspect.signature(cls).parameters for cls in (type(made), base))
    known = {**own, **common} if "kwargs" in own else own
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
