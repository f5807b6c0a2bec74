"""What metrics ask of their arrays. Each function returns them in the form that the formulas use, or raises."""

import numpy as np


def require_unmasked(name: str, what: str, given) -> None:
    """Raises where a masked array has masked entries: as a plain array it would show what lies behind the mask."""
    if np.ma.is_masked(given):
        raise ValueError(
            f"{name} needs plain arrays; got {np.ma.count_masked(given)} masked entries in {what}, whose mask would be "
            "lost. Fill them, array.filled(value), or leave out their rows."
        )


def numbers(name: str, what: str, given) -> np.ndarray:
    """Returns an array of numbers as float64; raises where it holds something else, such as predictions as a whole."""
    require_unmasked(name, what, given)
    try:
        return np.asarray(given, "float64")
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} needs an array of numbers in {what}; got {type(given).__name__}. Of predictions p take p.mean or, "
            "as an uncertainty, p.mutual_information, p.entropy or p.std."
        ) from None


def aligned(name: str, **arrays: np.ndarray) -> list[np.ndarray]:
    """Returns the arrays as float64 of one shape, examples first; a last axis of size 1 may be missing in some."""
    values = {what: numbers(name, what, array) for what, array in arrays.items()}
    flat = {what: v[..., 0] if v.ndim > 1 and v.shape[-1] == 1 else v for what, v in values.items()}
    if len({v.shape for v in flat.values()}) > 1 or any(not v.ndim or not v.size for v in flat.values()):
        shapes = ", ".join(f"{what} {v.shape}" for what, v in values.items())
        raise ValueError(f"{name} needs arrays of one shape, the examples first, and not empty; got {shapes}.")
    for what, v in flat.items():
        require_finite(name, what, v)
    return list(flat.values())


def require_finite(name: str, what: str, values: np.ndarray) -> None:
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        where = tuple(int(i) for i in wrong[0])
        raise ValueError(
            f"{name} needs finite numbers; got {values[where]} in {what} at {list(where)}, and {len(wrong)} of "
            f"{values.size} not finite."
        )


def one_each(name: str, **arrays: np.ndarray) -> list[np.ndarray]:
    """Returns the arrays as float64, one number an example."""
    values = aligned(name, **arrays)
    if values[0].ndim != 1:
        what = " and ".join(arrays)
        raise ValueError(f"{name} needs one number an example in {what}; got shape {values[0].shape}.")
    return values


def distributions(name: str, probabilities: np.ndarray, axes: str = "examples, classes") -> np.ndarray:
    """Returns probabilities of classes as float64; they are in the last axis and sum to 1."""
    p = numbers(name, "probabilities", probabilities)
    if p.ndim != len(axes.split(",")) or not p.size or p.shape[-1] < 2:
        hint = ""
        if p.size and (p.ndim == 1 or p.shape[-1:] == (1,)):
            hint = " For two classes give both: np.stack([1 - p, p], axis=-1) with p of shape (examples,)."
        elif p.size and p.ndim > 2:
            hint = " Put positions into the first axis: probabilities.reshape(-1, classes)."
        raise ValueError(f"{name} needs probabilities of shape ({axes}), not empty; got {p.shape}.{hint}")
    require_finite(name, "probabilities", p)
    tolerance = 1e-3 if np.asarray(probabilities).dtype.itemsize > 2 else 0.03  # half precision rounds every class
    total = p.sum(axis=-1)
    if p.min() < 0 or np.abs(total - 1).max() > tolerance:
        raise ValueError(
            f"{name} needs probabilities that are not negative and sum to 1 over classes; got values from "
            f"{p.min():.3g} to {p.max():.3g} and sums from {total.min():.3g} to {total.max():.3g}."
        )
    return p


def labelled(name: str, probabilities: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns probabilities (examples, classes) and one whole number from 0 an example."""
    require_unmasked(name, "labels", labels)
    p, y = distributions(name, probabilities), np.asarray(labels)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != p.shape[:1]:
        hint = " Of one-hot labels take labels.argmax(axis=1)." if y.shape == p.shape else ""
        raise ValueError(f"{name} needs one label an example; got shapes {p.shape} and {y.shape}.{hint}")
    classes = p.shape[1]
    if y.dtype.kind not in "biuf" or (y != np.floor(y)).any() or y.min() < 0 or y.max() >= classes:
        found = f" from {y.min()} to {y.max()}" if y.dtype.kind in "biuf" else ""
        raise ValueError(f"{name} needs labels that are whole numbers from 0 to {classes - 1}; got {y.dtype}{found}.")
    return p, y.astype(int)
