"""Whether a tensor's values can be seen now."""

import keras
import numpy as np
from keras import ops


def concrete(x) -> np.ndarray | None:
    """Returns the values of an array or an eager tensor, or None inside a compiled or symbolic function."""
    if isinstance(x, np.ndarray):
        return x
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        if isinstance(x, jax.core.Tracer):
            return None
    elif backend == "tensorflow":
        if not hasattr(x, "numpy"):
            return None
    elif backend == "torch":
        import torch

        if x.device.type == "meta" or torch.compiler.is_compiling():
            return None
    return ops.convert_to_numpy(x)
