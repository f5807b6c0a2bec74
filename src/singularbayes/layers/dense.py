"""A densely connected layer: y = activation(x W + b)."""

import keras

from singularbayes.layers.base import KernelLayer, integers


@keras.saving.register_keras_serializable(package="singularbayes")
class Dense(KernelLayer):
    """`keras.layers.Dense` with a posterior over its kernel.

    Same arguments as Keras's layer. `kernel_initializer` sets where the mean starts (default: He for rectified
    activations, Glorot else); `kernel_regularizer`, `kernel_constraint`, LoRA and quantisation are refused.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = Dense(8, "relu", posterior=LowRank(2))
    >>> layer(np.ones((3, 5))).shape == (3, 8)
    True
    """

    def __init__(
        self,
        units,
        activation=None,
        use_bias=True,
        kernel_initializer=None,
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        lora_rank=None,
        lora_alpha=None,
        quantization_config=None,
        *,
        posterior=None,
        bias_posterior=None,
        **kwargs,
    ):
        super().__init__(
            posterior=posterior,
            bias_posterior=bias_posterior,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            refused={"lora_rank": lora_rank, "lora_alpha": lora_alpha, "quantization_config": quantization_config},
            **kwargs,
        )
        (self.units,) = integers("Dense", units=units)
        self.input_spec = keras.layers.InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape):
        self._build_kernel((input_shape[-1], self.units))
        self._build_bias((self.units,))
        self.input_spec = keras.layers.InputSpec(min_ndim=2, axes={-1: input_shape[-1]})

    def call(self, inputs, training=None):
        outputs = self._kernel(training).apply(inputs)
        return self.activation(self._add_bias(outputs, training))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {**super().get_config(), "units": self.units}
