"""What `evaluate` asks of test and foreign examples."""

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from singularbayes.prediction import Predictive


def answers(p, test):
    """Returns the answers to predictions; (x, y) is refused, unless it can be the answers to two."""
    if isinstance(test, tuple) and len(test) == 2 and (len(p) != 2 or np.shape(test[0]) != np.shape(test[1])):
        raise ValueError("evaluate needs y alone for a Predictive; got test=(x, y).")
    return test


def pair(test):
    """Returns examples and answers."""
    if not isinstance(test, (tuple, list)) or len(test) != 2:
        raise ValueError(f"evaluate needs test=(x, y); got {type(test).__name__}.")
    return test


def named(ood) -> dict[str, Any]:
    """Returns the foreign examples by name, "" for one set without."""
    if ood is None:
        return {}
    if isinstance(ood, Mapping):
        if not ood or not all(isinstance(name, str) and name and "/" not in name for name in ood):
            raise ValueError(f"evaluate needs names without / for the examples of ood; got {list(ood)}.")
        return dict(ood)
    return {"": ood}


def require_alike(x, foreign, where: str) -> None:
    """Raises where foreign examples cannot be inputs of what takes the test's."""
    which = f"ood[{where!r}]" if where else "ood"
    if isinstance(x, Predictive) != isinstance(foreign, Predictive):
        raise TypeError(f"evaluate needs a Predictive in {which} if and only if it evaluates one; got {type(foreign)}.")
    pairs = [(x.mean, foreign.mean)] if isinstance(x, Predictive) else _arrays(x, foreign, which)
    for known, strange in pairs:
        lengths_free = known.dtype.kind in "iu"  # sequences of ids may be longer or shorter
        if known.ndim != strange.ndim or (known.shape[1:][-1:] != strange.shape[1:][-1:] and not lengths_free):
            raise ValueError(f"evaluate needs {which} like the test examples {known.shape}; got {strange.shape}.")


def _arrays(x, foreign, which: str):
    flat, other = (list(map(np.asarray, keras.tree.flatten(part))) for part in (x, foreign))
    if len(flat) != len(other):
        raise ValueError(f"evaluate needs {which} with {len(flat)} inputs, as the test has; got {len(other)}.")
    return zip(flat, other, strict=True)
