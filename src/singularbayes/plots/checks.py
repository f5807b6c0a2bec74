"""What figures ask of their data, beyond what metrics ask of arrays."""

from collections.abc import Mapping, Sequence

import numpy as np

from singularbayes.metrics import require_finite


def some(name: str, methods: Mapping[str, object] | Sequence[object], what: str = "methods") -> None:
    """Raises unless there is anything to draw, methods by their names."""
    if what == "methods" and not isinstance(methods, Mapping):
        raise TypeError(f'{name} needs a dict of methods, {{"mine": …}}; got {type(methods).__name__}.')
    if not len(methods):
        raise ValueError(f"{name} needs at least one of {what}; got none.")


def vectors(name: str, **arrays) -> list[np.ndarray]:
    """Returns the arrays as float64 vectors of one length, not empty and finite."""
    values = {what: np.asarray(array, "float64") for what, array in arrays.items()}
    if len({v.shape for v in values.values()}) > 1 or any(v.ndim != 1 or not v.size for v in values.values()):
        shapes = ", ".join(f"{what} {v.shape}" for what, v in values.items())
        raise ValueError(f"{name} needs vectors of one length, not empty; got {shapes}.")
    for what, v in values.items():
        require_finite(name, what, v)
    return list(values.values())
