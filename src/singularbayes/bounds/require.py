"""What a bound asks of its numbers. Each check raises with what is needed, what was got, and where."""

import math
from numbers import Integral, Real

import numpy as np


def require_share(name: str, **values: float) -> None:
    """Raises unless every value, a probability such as δ, lies strictly between 0 and 1."""
    for key, value in values.items():
        if not _is_number(value) or not 0 < value < 1:
            raise ValueError(f"{name} needs 0 < {key} < 1; got {key}={value!r}.")


def require_unit(name: str, **values) -> None:
    """Raises unless every value, a number or an array of numbers, lies in [0, 1]."""
    for key, value in values.items():
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or not array.size or not ((array >= 0) & (array <= 1)).all():
            raise ValueError(f"{name} needs {key} in [0, 1]; got {_shown(value)}.")


def require_at_least(name: str, low: float, **values: float) -> None:
    """Raises unless every value is a number >= low; infinity is one, NaN is not."""
    for key, value in values.items():
        if not _is_number(value) or not value >= low:
            raise ValueError(f"{name} needs {key} >= {low}; got {key}={value!r}.")


def require_positive(name: str, **values) -> None:
    """Raises unless every value, a number or an array of numbers, is finite and above 0."""
    for key, value in values.items():
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or not array.size or not ((array > 0) & (array < math.inf)).all():
            raise ValueError(f"{name} needs {key} > 0 and finite; got {_shown(value)}.")


def require_finite(name: str, **arrays: np.ndarray) -> None:
    """Raises unless every array holds finite numbers, at least one."""
    for key, value in arrays.items():
        array = np.asarray(value)
        if array.dtype.kind not in "iuf" or not array.size or not np.isfinite(array).all():
            raise ValueError(f"{name} needs finite numbers as {key}; got {_shown(value)}.")


def require_count(name: str, low: int = 1, **values: int) -> None:
    """Raises unless every value is a whole number >= low."""
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
            raise ValueError(f"{name} needs {key} to be a whole number >= {low}; got {key}={value!r}.")


def require_choice(name: str, choices: tuple[str, ...], **values: str) -> None:
    """Raises unless every value is one of the choices."""
    for key, value in values.items():
        if value not in choices:
            raise ValueError(f"{name} needs {key} to be one of {choices}; got {key}={value!r}.")


def _is_number(value) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _shown(value) -> str:
    array = np.asarray(value)
    if array.ndim == 0 or array.dtype.kind not in "iuf" or not array.size:
        return repr(value)
    return f"an array of shape {array.shape} from {array.min()} to {array.max()}"
