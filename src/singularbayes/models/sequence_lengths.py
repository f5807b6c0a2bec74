"""How long sequences of token ids are without the padding behind them."""

import keras
import numpy as np


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
