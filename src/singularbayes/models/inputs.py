"""What `predict` takes: arrays, one or several, in the model's own structure."""

from numbers import Number
from pathlib import Path

import keras
import numpy as np

from singularbayes.checks import require_unmasked


def require_model(name: str, model) -> None:
    """Raises unless `model` is a Keras model; a file is not one."""
    if not isinstance(model, keras.Model):
        remedy = " Read a file by singularbayes.load(path)." if isinstance(model, (str, Path)) else ""
        raise TypeError(f"{name} needs a Keras model; got {model!r}.{remedy}")


def as_arrays(x, caller: str = "singularbayes"):
    """Returns the inputs as arrays in their structure; a list of arrays is a structure, any other list an array.

    Args:
        caller: the function that errors name.
    """
    _require_whole_data(x, caller)
    if isinstance(x, (list, tuple)) and not any(hasattr(leaf, "shape") for leaf in keras.tree.flatten(x)):
        return _one_array(x)
    return keras.tree.map_structure(np.asarray, x)


def _require_whole_data(x, caller: str) -> None:
    for leaf in keras.tree.flatten(x):
        require_unmasked(caller, **{"the data": leaf})
        if not isinstance(leaf, Number) and not hasattr(leaf, "__array__"):
            got = repr(leaf) if isinstance(leaf, str) else f"a {type(leaf).__name__}"
            raise TypeError(
                f"Inputs need to be arrays in memory; got {got}. Of batches make one array: "
                "np.concatenate([x for x, y in batches])."
            )


def _one_array(rows) -> np.ndarray:
    try:
        return np.asarray(rows)
    except ValueError:
        raise ValueError("Inputs need rows of one length; got a list with rows of different lengths.") from None


def arranged(model: keras.Model, x, caller: str = "singularbayes"):
    """Returns the inputs as NumPy arrays, a dict for a model with a list of inputs put in its order by name."""
    x = as_arrays(x, caller)
    tensors = getattr(model, "inputs", None)
    if not isinstance(x, dict) or not tensors or isinstance(getattr(model, "_inputs_struct", None), dict):
        return x
    names = [tensor.name for tensor in tensors]
    if set(names) - set(x):
        raise ValueError(f"{caller} needs inputs named {names} for model {model.name!r}; got {sorted(x)}.")
    arrays = [x[name] for name in names]
    return arrays if len(arrays) > 1 else arrays[0]


def count_examples(model: keras.Model, x) -> int:
    """Returns the number of examples of inputs that the model can take; raises where it cannot."""
    arrays = keras.tree.flatten(x)
    lengths = {len(array) if array.ndim else None for array in arrays}
    if len(lengths) != 1 or None in lengths or 0 in lengths:
        shapes = [array.shape for array in arrays]
        raise ValueError(f"predict needs inputs with one and the same number of examples >= 1; got shapes {shapes}.")
    for array in arrays:
        _require_numbers(array)
    if getattr(model, "inputs", None):
        _require_shapes(model, arrays)
    return lengths.pop()  # type: ignore[return-value]


def _require_numbers(array: np.ndarray) -> None:
    if array.dtype.kind == "f" and np.isnan(array).any():
        where = tuple(int(i) for i in np.argwhere(np.isnan(array))[0])
        raise ValueError(f"predict needs inputs without NaN; got NaN at index {where} of an array {array.shape}.")
    if array.dtype.kind not in "fiub":
        raise ValueError(f"predict needs numeric inputs; got an array of dtype {array.dtype}.")
    if array.dtype.kind in "iu" and array.itemsize > 4 and (array.max() >= 2**31 or array.min() < -(2**31)):
        # JAX would cut them to 32 bits, and an id out of range could become another row.
        largest = max(int(array.max()), int(array.min()), key=abs)
        raise ValueError(f"predict needs integers that fit 32 bits; got {largest}.")


def _require_shapes(model, arrays) -> None:
    needed = [(None, *tensor.shape[1:]) for tensor in model.inputs]
    fits = len(needed) == len(arrays) and all(
        len(n) == a.ndim and all(i is None or i == j for i, j in zip(n, a.shape, strict=True))
        for n, a in zip(needed, arrays, strict=True)
    )
    if not fits:
        raise ValueError(
            f"predict needs inputs of shape {', '.join(map(str, needed))} for model {model.name!r}; got "
            f"{', '.join(str(a.shape) for a in arrays)}."
        )


def lengths_of(x, padding) -> np.ndarray:
    """Returns the number of positions of every example up to its last that is not padding; at least 1."""
    if not (isinstance(x, np.ndarray) and x.ndim == 2 and np.issubdtype(x.dtype, np.integer)):
        shapes = keras.tree.map_structure(lambda array: (array.shape, str(array.dtype)), x)
        raise ValueError(f"padding needs one input of integers (examples, length); got {shapes}.")
    used = x != padding
    return np.where(used.any(axis=1), x.shape[1] - used[:, ::-1].argmax(axis=1), 1)


def require_any_length(model) -> None:
    """Raises for a model that takes sequences of one length alone."""
    known = getattr(model, "input_shape", None)
    if known is not None and known[1] is not None:
        raise ValueError(
            f"padding needs a model that takes any length, built with keras.Input((None,)); got input shape {known} in "
            f"{model.name!r}."
        )
