"""Settings changed by text, `beta=0.3`, each to the type that it has."""

import difflib
import types
import typing
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

S = TypeVar("S")
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}


def overridden(settings: S, assignments: Iterable[str]) -> S:
    """Returns the settings with those that `assignments` name changed.

    >>> from singularbayes_experiments.problems import toy
    >>> changed = overridden(toy.ToySettings(), ["beta=0.3", "epochs=10", "train_range=0,0.5", "cosine=yes"])
    >>> changed.beta, changed.epochs, changed.train_range, changed.cosine
    (0.3, 10, (0.0, 0.5), True)
    """
    kinds = typing.get_type_hints(type(settings))
    names = [field.name for field in fields(settings)]  # type: ignore[arg-type]
    changes: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise ValueError(f"--set needs name=value, such as beta=0.3; got {assignment!r}.")
        if name not in names:
            raise ValueError(
                f"--set needs the name of a setting, one of {names}; got {name!r}.{did_you_mean(name, names)}"
            )
        try:
            changes[name] = _value(kinds[name], text.strip())
        except ValueError:
            raise ValueError(f"--set {name} needs {_words(kinds[name])}; got {text!r}.") from None
    return replace(settings, **changes)  # type: ignore[type-var]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Returns the end of an error with the nearest of some names, or nothing where none is near.

    >>> did_you_mean("betta", ["beta", "epochs"]), did_you_mean("zeal", ["beta", "epochs"])
    (" Did you mean 'beta'?", '')
    """
    names = list(names)
    close = difflib.get_close_matches(name, names, n=1) or difflib.get_close_matches(name.lower(), names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def _value(kind: Any, text: str) -> Any:
    """Returns the text as a value of a type; raises ValueError where it is not one."""
    if kind is bool:
        if text.lower() not in _TRUTH:
            raise ValueError
        return _TRUTH[text.lower()]
    if kind in (int, float, str):
        return kind(text)
    if kind is types.NoneType:
        if text.lower() != "none":
            raise ValueError
        return None
    inside = typing.get_args(kind)
    if typing.get_origin(kind) is tuple:
        return _values(inside, text)
    if typing.get_origin(kind) is typing.Literal:
        return inside[[str(choice) for choice in inside].index(text)]
    return _first(inside, text)


def _values(kinds: tuple, text: str) -> tuple:
    parts = text.split(",") if text else []
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(parts)
    if len(parts) != len(kinds):
        raise ValueError
    return tuple(_value(kind, part.strip()) for kind, part in zip(kinds, parts, strict=True))


def _first(kinds: tuple, text: str) -> Any:
    # None before text, so that "none" of `str | None` is None.
    for kind in sorted(kinds, key=lambda kind: kind is not types.NoneType):
        try:
            return _value(kind, text)
        except ValueError:
            continue
    raise ValueError


def _words(kind: Any) -> str:
    plain = {bool: "true or false", int: "an integer", float: "a number", str: "text", types.NoneType: "none"}
    if kind in plain:
        return plain[kind]
    inside = typing.get_args(kind)
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(map(str, inside))}"
    if typing.get_origin(kind) is tuple:
        many = "any number" if inside[-1] is Ellipsis else str(len(inside))
        return f"{many} of {_words(inside[0]).split(' ', 1)[-1]}s with commas between, such as 1,2"
    return " or ".join(_words(choice) for choice in inside)
