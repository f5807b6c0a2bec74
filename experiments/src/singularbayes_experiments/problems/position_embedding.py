"""Where a token stands: vectors added to those of the tokens."""

import keras
import numpy as np
from keras import ops

KINDS = ("none", "sinusoidal", "learned")


@keras.saving.register_keras_serializable(package="singularbayes")
class Positions(keras.layers.Layer):
    """x (…, length, width) times `scale`, plus a vector for every position: sines (Vaswani et al. 2017) or learned.

    Args:
        kind: "sinusoidal", "learned" (a plain weight) or "none", which scales alone.
        longest: how many positions there are vectors for.

    >>> ops.convert_to_numpy(Positions("sinusoidal", 4)(np.zeros((1, 2, 4)))).round(3)
    array([[[0.   , 1.   , 0.   , 1.   ],
            [0.841, 0.54 , 0.01 , 1.   ]]], dtype=float32)
    """

    def __init__(self, kind, longest, scale=1.0, **kwargs):
        super().__init__(**kwargs)
        if kind not in KINDS:
            raise ValueError(f"Positions needs kind to be one of {list(KINDS)}; got kind={kind!r}.")
        self.kind, self.longest, self.scale = kind, longest, scale
        self.supports_masking = True

    def build(self, input_shape):
        shape = (self.longest, input_shape[-1])
        if self.kind == "learned":
            self.table = self.add_weight(name="table", shape=shape, initializer="uniform")
        elif self.kind == "sinusoidal":
            self.table = sines(*shape)

    def call(self, inputs):
        scaled = self.scale * inputs
        if self.kind == "none":
            return scaled
        return scaled + ops.cast(ops.convert_to_tensor(self.table), scaled.dtype)[: ops.shape(inputs)[-2]]

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "kind": self.kind, "longest": self.longest, "scale": self.scale}


def sines(length: int, width: int) -> np.ndarray:
    """Returns sin(p / 10000^(2i/width)) in column 2i and the cosine beside it, (length, width)."""
    angles = np.arange(length)[:, None] / 10_000 ** (2 * np.arange(-(-width // 2)) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :width].astype("float32")
