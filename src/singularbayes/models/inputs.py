"""The inputs of a model: arrays, one or several, in its own structure and of the shapes that it takes."""

from pathlib import Path

import keras
import numpy as np

from singularbayes.models.data import as_arrays, common_length
from singularbayes.models.text import require_positions, tokenized

_CHECKED = 1 << 22  # entries that are checked at a time


def require_model(name: str, model) -> None:
    """Raises unless `model` is a Keras model; a file is not one."""
    if not isinstance(model, keras.Model):
        remedy = " Read a file by singularbayes.load(path)." if isinstance(model, (str, Path)) else ""
        raise TypeError(f"{name} needs a Keras model; got {model!r}.{remedy}")


def arranged(model: keras.Model, x, caller: str = "predict"):
    """Returns inputs in memory, texts among them, as NumPy arrays in the structure that the model takes."""
    return in_order(model, as_arrays(tokenized(model, x, caller=caller)[0], caller), caller)


def in_order(model: keras.Model, x, caller: str = "predict"):
    """Returns arrays as the model takes them: those of a dict by name, one number per example as a column."""
    tensors = getattr(model, "inputs", None)
    if not tensors:
        return x
    if isinstance(x, dict):
        takes_dict = isinstance(getattr(model, "_inputs_struct", None), dict)
        names = sorted(model._inputs_struct) if takes_dict else [tensor.name for tensor in tensors]
        _require_names(model, names, x, caller)
        x = x if takes_dict else [x[name] for name in names]
    if isinstance(x, (list, tuple)) and len(x) == 1:
        x = x[0]
    arrays = keras.tree.flatten(x)
    if len(arrays) != len(tensors):
        return x  # `count_examples` raises
    wide = [
        a[:, None] if a.ndim == 1 and tuple(t.shape[1:]) == (1,) else a for a, t in zip(arrays, tensors, strict=True)
    ]
    return keras.tree.pack_sequence_as(x, wide)


def _require_names(model: keras.Model, names: list[str], x: dict, caller: str) -> None:
    missing, extra = sorted(set(names) - set(x)), sorted(map(str, set(x) - set(names)))
    if missing or extra:
        wrong = [f"{what} {keys}" for what, keys in (("missing", missing), ("extra", extra)) if keys]
        raise ValueError(
            f"{caller} needs inputs named {names} for model {model.name!r}; got {sorted(map(str, x))}: "
            f"{' and '.join(wrong)}."
        )


def count_examples(model: keras.Model, x, caller: str = "predict", first: int = 0) -> int:
    """Returns the number of examples of inputs that the model can take; raises where it cannot.

    Args:
        first: the number of examples before these, which errors count too.
    """
    arrays = keras.tree.flatten(x)
    examples = common_length(caller, x)
    for array in arrays:
        _require_numbers(array, caller, first)
    if getattr(model, "inputs", None):
        _require_shapes(model, x, arrays, caller)
    require_positions(model, arrays, caller)
    return examples


def _require_numbers(array: np.ndarray, caller: str, first: int) -> None:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{caller} needs numeric inputs; got an array of dtype {array.dtype}.")
    rows = max(1, _CHECKED // max(1, array[:1].size))
    for start in range(0, len(array), rows):  # in parts, because the check takes memory too
        part = array[start : start + rows]
        if array.dtype.kind == "f" and np.isnan(part).any():
            row, *others = (int(i) for i in np.argwhere(np.isnan(part))[0])
            where = (first + start + row, *others)
            raise ValueError(
                f"{caller} needs inputs without NaN; got NaN at index {where} of an array {array.shape}. Fill such "
                "entries, np.nan_to_num(x), or leave out their rows."
            )
        if array.dtype.kind in "iu" and array.itemsize > 4 and (part.max() >= 2**31 or part.min() < -(2**31)):
            # JAX would cut them to 32 bits, and an id out of range could become another row.
            largest = max(int(part.max()), int(part.min()), key=abs)
            raise ValueError(f"{caller} needs integers that fit 32 bits; got {largest}.")


def _require_shapes(model, x, arrays, caller: str) -> None:
    needed = [(None, *tensor.shape[1:]) for tensor in model.inputs]
    fits = len(needed) == len(arrays) and all(
        len(n) == a.ndim and all(i is None or i == j for i, j in zip(n, a.shape, strict=True))
        for n, a in zip(needed, arrays, strict=True)
    )
    if fits:
        return
    shapes = [str(a.shape) for a in arrays]
    got = ", ".join(shapes) if len(shapes) < 5 else f"{', '.join(shapes[:4])} and {len(shapes) - 4} arrays more"
    hint = ""
    if isinstance(x, (list, tuple)) and len(arrays) > len(needed):
        hint = (
            " A list or tuple of arrays is several inputs: give x alone, without y; of rows make one array, np.stack."
        )
    elif len(needed) == len(arrays) and all(a.shape == n[1:] for n, a in zip(needed, arrays, strict=True)):
        hint = " The first axis is the examples: one alone is x[None]."
    raise ValueError(
        f"{caller} needs inputs of shape {', '.join(map(str, needed))} for model {model.name!r}; got {got}.{hint}"
    )
