"""One noise for all examples, learned with the weights."""

import math

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="singularbayes")
class LearnedNoise(keras.layers.Layer):
    """Puts one learned standard deviation for each output behind the means: (…, k) becomes (…, 2 k).

    The last layer of a model that is compiled with `MeanScale()`. The noise is a point estimate in log form, so that
    a step of the optimizer changes it by a share of itself, whatever the unit of the targets. Weight decay would pull
    it to 1: `optimizer.exclude_from_weight_decay(var_names=["log_scale"])`.

    Args:
        scale: the standard deviation that training starts with.

    >>> import numpy as np
    >>> mean, rho = LearnedNoise(scale=0.5)(np.ones((1, 1)))[0]
    >>> round(float(mean), 6), round(float(np.log1p(np.exp(rho))), 6)
    (1.0, 0.5)
    """

    def __init__(self, scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        if not 0 < scale < math.inf:
            raise ValueError(f"LearnedNoise needs scale > 0, a standard deviation; got scale={scale!r}.")
        self.scale = float(scale)
        self.supports_masking = True

    def build(self, input_shape):
        start = keras.initializers.Constant(math.log(self.scale))
        self.log_scale = self.add_weight(
            name="log_scale", shape=input_shape[-1:], initializer=start, dtype="float32", autocast=False
        )

    def call(self, inputs):
        scale = ops.exp(self.log_scale)
        rho = ops.cast(scale + ops.log(-ops.expm1(-scale)), inputs.dtype)  # softplus(ρ) = scale
        return ops.concatenate([inputs, ops.broadcast_to(rho, ops.shape(inputs))], axis=-1)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 2 * input_shape[-1])

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}
