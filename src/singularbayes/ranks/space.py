"""Where a sweep looks: for every setting an interval or a list."""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

Space = Mapping[str, Any]
_PLAIN = (bool, int, float, str, type(None))  # what a storage gives back as it was


def read_space(space: Space) -> dict[str, Any]:
    """Returns the settings, NumPy's numbers as Python's; raises unless each is (low, high) or a list of values."""
    if not isinstance(space, Mapping) or not space:
        raise ValueError(
            "sweep needs a space of settings by name, such as {'rank': (2, 64), 'beta': (0.01, 1.0), 'eta': [0.01, "
            f"0.1]}}; got space={space!r}."
        )
    return {name: _read(name, choice) for name, choice in space.items()}


def _read(name: str, choice: Any) -> Any:
    if isinstance(choice, (list, tuple)):
        choice = type(choice)(value.item() if isinstance(value, np.generic) else value for value in choice)
    if isinstance(choice, list) and choice:
        odd = [value for value in choice if not isinstance(value, _PLAIN)]
        if odd:
            raise ValueError(
                f"sweep needs a list of numbers, texts, booleans or None for {name!r}; got {odd[0]!r} in it. Where "
                "layers differ, give each a setting of its own."
            )
        return choice
    numbers = isinstance(choice, tuple) and len(choice) == 2 and all(_is_number(end) for end in choice)
    if not numbers or not 0 < choice[0] < choice[1]:
        raise ValueError(f"sweep needs (low, high) with 0 < low < high, or a list, for {name!r}; got {choice!r}.")
    return choice


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def grid(space: Space, seed: int) -> list[dict[str, Any]] | None:
    """Returns every setting in an order of chance, where all choices are lists; else None.

    >>> sorted(point["rank"] for point in grid({"rank": [4, 8], "beta": [0.1, 1.0]}, seed=0))
    [4, 4, 8, 8]
    """
    if not all(isinstance(choice, list) for choice in space.values()):
        return None
    points = [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())]
    return [points[i] for i in np.random.default_rng(seed).permutation(len(points))]


def suggest(trial, space: Space) -> dict[str, Any]:
    """Returns the settings of an Optuna trial: intervals are searched by their logarithm."""
    found: dict[str, Any] = {}
    for name, choice in space.items():
        if isinstance(choice, list):
            found[name] = trial.suggest_categorical(name, choice)
        elif all(isinstance(end, int) for end in choice):
            found[name] = trial.suggest_int(name, *choice, log=True)
        else:
            found[name] = trial.suggest_float(name, *choice, log=True)
    return found
