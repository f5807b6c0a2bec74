"""Checks of arguments. Each raises with what is needed, what was given, and where.

The first argument, `name`, is the function or class that needs the value; values are given by their names:
`require_integer("predict", draws=draws)`. Functions that are not called `require_…` return arrays in the form that
formulas use. `require_package` returns a package that only some functions need.
"""

import importlib
import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np


def require_integer(name: str, low: int = 1, /, **values: Any) -> None:
    """Raises unless every value is an integer >= low; booleans are refused.

    >>> require_integer("predict", draws=2.5)
    Traceback (most recent call last):
        ...
    ValueError: predict needs draws to be an integer >= 1; got draws=2.5.
    """
    for key, value in values.items():
        if not is_integer(value, low):
            raise ValueError(f"{name} needs {key} to be an integer >= {low}; got {key}={value!r}.")


def is_integer(value: Any, low: int = 1) -> bool:
    """Whether a value is an integer >= low, of Python or NumPy."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= low


def require_share(name: str, /, **values: Any) -> None:
    """Raises unless every value, a probability such as δ, lies strictly between 0 and 1."""
    for key, value in values.items():
        if not _is_number(value) or not 0 < value < 1:
            percent = f" For {value:g} % write {value / 100:g}." if _is_number(value) and 1 < value < 100 else ""
            raise ValueError(f"{name} needs 0 < {key} < 1; got {key}={value!r}.{percent}")


def _require(name: str, needs: str, values: Mapping[str, Any], fits: Callable[[Any], bool]) -> None:
    """Raises unless every value is a number that fits; `needs` has "{}" for what it is called."""
    for key, value in values.items():
        if not _is_number(value) or not fits(value):
            raise ValueError(f"{name} needs {needs.format(key)}; got {key}={value!r}.")


def require_at_least(name: str, low: float, /, **values: Any) -> None:
    """Raises unless every value is a number >= low; infinity is one, NaN is not."""
    _require(name, f"{{}} >= {low}", values, lambda value: value >= low)


def require_not_negative(name: str, /, **values: Any) -> None:
    """Raises unless every value is a number >= 0 and finite."""
    _require(name, "{} >= 0 and finite", values, lambda value: 0 <= value < math.inf)


def require_below_one(name: str, /, **values: Any) -> None:
    """Raises unless every value is a number >= 0 and below 1."""
    _require(name, "0 <= {} < 1", values, lambda value: 0 <= value < 1)


def require_unit(name: str, /, **values: Any) -> None:
    """Raises unless every value, a number or an array of numbers, lies in [0, 1]."""
    for key, value in values.items():
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or not array.size or not ((array >= 0) & (array <= 1)).all():
            raise ValueError(f"{name} needs {key} in [0, 1]; got {_shown(value)}.")


def require_positive(name: str, /, **values: Any) -> None:
    """Raises unless every value, a number or an array of numbers, is finite and above 0."""
    for key, value in values.items():
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or not array.size or not ((array > 0) & (array < math.inf)).all():
            shown = f"{key}={value!r}" if array.ndim == 0 else _shown(value)
            raise ValueError(f"{name} needs {key} > 0 and finite; got {shown}.")


def require_choice(name: str, choices: tuple[str, ...], /, **values: Any) -> None:
    """Raises unless every value is one of the choices."""
    for key, value in values.items():
        if value not in choices:
            raise ValueError(f"{name} needs {key} to be one of {choices}; got {key}={value!r}.")


def require_finite(name: str, /, **arrays: Any) -> None:
    """Raises unless every array holds finite numbers, at least one."""
    for key, value in arrays.items():
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or not array.size:
            raise ValueError(f"{name} needs finite numbers as {key}; got {_shown(value)}.")
        wrong = np.argwhere(~np.isfinite(array))
        if len(wrong):
            where = tuple(int(i) for i in wrong[0])
            raise ValueError(
                f"{name} needs finite numbers; got {array[where]} in {key} at {list(where)}, and {len(wrong)} of "
                f"{array.size} not finite."
            )


def require_unmasked(name: str, /, **arrays: Any) -> None:
    """Raises where a masked array has masked entries: as a plain array it would show what lies behind the mask."""
    for key, given in arrays.items():
        if np.ma.is_masked(given):
            raise ValueError(
                f"{name} needs plain arrays; got {np.ma.count_masked(given)} masked entries in {key}, whose mask would "
                "be lost. Fill them, array.filled(value), or leave out their rows."
            )


def require_methods(name: str, methods: Mapping[str, object]) -> None:
    """Raises unless there are methods to draw, by their names."""
    if not isinstance(methods, Mapping):
        raise TypeError(f'{name} needs a dict of methods, {{"mine": …}}; got {type(methods).__name__}.')
    if not methods:
        raise ValueError(f"{name} needs at least one of methods; got none.")


def vectors(name: str, /, **arrays: Any) -> list[np.ndarray]:
    """Returns the arrays as float64 vectors of one length, not empty and finite."""
    values = {key: np.asarray(array, "float64") for key, array in arrays.items()}
    if len({v.shape for v in values.values()}) > 1 or any(v.ndim != 1 or not v.size for v in values.values()):
        shapes = ", ".join(f"{key} {v.shape}" for key, v in values.items())
        raise ValueError(f"{name} needs vectors of one length, not empty; got {shapes}.")
    require_finite(name, **values)
    return list(values.values())


def aligned(name: str, /, **arrays: Any) -> list[np.ndarray]:
    """Returns the arrays as float64 of one shape, examples first; a last axis of size 1 may be missing in some."""
    values = {key: _numbers(name, key, array) for key, array in arrays.items()}
    flat = {key: v[..., 0] if v.ndim > 1 and v.shape[-1] == 1 else v for key, v in values.items()}
    if len({v.shape for v in flat.values()}) > 1 or any(not v.ndim or not v.size for v in flat.values()):
        shapes = ", ".join(f"{key} {v.shape}" for key, v in values.items())
        raise ValueError(f"{name} needs arrays of one shape, the examples first, and not empty; got {shapes}.")
    require_finite(name, **flat)
    return list(flat.values())


def one_per_example(name: str, /, **arrays: Any) -> list[np.ndarray]:
    """Returns the arrays as float64, one number per example."""
    values = aligned(name, **arrays)
    if values[0].ndim != 1:
        raise ValueError(f"{name} needs one number per example in {' and '.join(arrays)}; got shape {values[0].shape}.")
    return values


def class_probabilities(name: str, probabilities: Any, axes: str = "examples, classes") -> np.ndarray:
    """Returns probabilities of classes as float64; they are in the last axis and sum to 1."""
    p = _numbers(name, "probabilities", probabilities)
    if p.ndim != len(axes.split(",")) or not p.size or p.shape[-1] < 2:
        hint = ""
        if p.size and (p.ndim == 1 or p.shape[-1:] == (1,)):
            hint = " For two classes give both: np.stack([1 - p, p], axis=-1) with p of shape (examples,)."
        elif p.size and p.ndim > 2:
            hint = " Put positions into the first axis: probabilities.reshape(-1, classes)."
        raise ValueError(f"{name} needs probabilities of shape ({axes}), not empty; got {p.shape}.{hint}")
    require_finite(name, probabilities=p)
    tolerance = 1e-3 if np.asarray(probabilities).dtype.itemsize > 2 else 0.03  # half precision rounds every class
    total = p.sum(axis=-1)
    if p.min() < 0 or np.abs(total - 1).max() > tolerance:
        raise ValueError(
            f"{name} needs probabilities that are not negative and sum to 1 over classes; got values from "
            f"{p.min():.3g} to {p.max():.3g} and sums from {total.min():.3g} to {total.max():.3g}."
        )
    return p


def labelled(name: str, probabilities: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns probabilities (examples, classes) and labels: one integer from 0 per example."""
    require_unmasked(name, labels=labels)
    p, y = class_probabilities(name, probabilities), np.asarray(labels)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != p.shape[:1]:
        hint = " Of one-hot labels take labels.argmax(axis=1)." if y.shape == p.shape else ""
        raise ValueError(f"{name} needs one label per example; got shapes {p.shape} and {y.shape}.{hint}")
    classes = p.shape[1]
    if y.dtype.kind not in "biuf" or (y != np.floor(y)).any() or y.min() < 0 or y.max() >= classes:
        found = f" from {y.min()} to {y.max()}" if y.dtype.kind in "biuf" else ""
        raise ValueError(f"{name} needs labels that are integers from 0 to {classes - 1}; got {y.dtype}{found}.")
    return p, y.astype(int)


def weights_of(name: str, sample_weight: Any, examples: int) -> np.ndarray | None:
    """Returns one weight >= 0 per example as float64, or None where all count the same."""
    if sample_weight is None:
        return None
    weights = _numbers(name, "sample_weight", sample_weight)
    weights = weights[:, 0] if weights.ndim == 2 and weights.shape[1] == 1 else weights
    if weights.shape != (examples,):
        raise ValueError(f"{name} needs one sample_weight per example, ({examples},); got {weights.shape}.")
    require_finite(name, sample_weight=weights)
    if weights.min() < 0 or not weights.any():
        raise ValueError(
            f"{name} needs a sample_weight >= 0 and not 0 for all; got from {weights.min():.3g} to {weights.max():.3g}."
        )
    return weights


def weighted_mean(name: str, values: np.ndarray, sample_weight: Any = None) -> float:
    """Returns the mean over examples and all that an example has; an example counts with its weight.

    >>> weighted_mean("nll", np.array([1.0, 4.0]), [2, 1])
    2.0
    """
    if sample_weight is None:
        return float(values.mean())
    weights = weights_of(name, sample_weight, len(values))
    return float(np.average(values.reshape(len(values), -1).mean(axis=1), weights=weights))


def _numbers(name: str, what: str, given: Any) -> np.ndarray:
    """Returns an array of numbers as float64; raises where it holds something else, such as a `Predictive`."""
    require_unmasked(name, **{what: given})
    try:
        return np.asarray(given, "float64")
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} needs an array of numbers in {what}; got {type(given).__name__}. Of predictions p take p.mean or, "
            "as an uncertainty, p.mutual_information, p.entropy or p.std."
        ) from None


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    array = np.asarray(value)
    if array.ndim == 0 or array.dtype.kind not in "iuf" or not array.size:
        return repr(value)
    return f"an array of shape {array.shape} from {array.min()} to {array.max()}"


def require_package(package: str, extra: str, needed_by: str, project: str = "singularbayes") -> Any:
    """Returns the imported package, or raises with what to type to have it; an extra may be "".

    >>> require_package("math", "none", "An example").pi > 3
    True
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        wanted = f"{project}[{extra}]" if extra else project
        raise ImportError(
            f"{needed_by} needs {package}, which is not installed. Type: pip install '{wanted}'"
        ) from error
