"""A densely connected layer: y = activation(x W + b)."""

import keras
from keras import activations, constraints, initializers, regularizers

from singularbayes.layers.base import BayesianLayer


@keras.saving.register_keras_serializable(package="singularbayes")
class Dense(BayesianLayer):
    """`keras.layers.Dense` with a posterior over its kernel.

    Same arguments as Keras's layer. `kernel_initializer` sets where the mean starts (default: He for rectified
    activations, Glorot else); `kernel_regularizer`, `kernel_constraint`, LoRA and quantisation are refused.

    Args:
        posterior, bias_posterior, estimator: see `BayesianLayer`.

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
        posterior,
        bias_posterior=None,
        estimator="shared",
        **kwargs,
    ):
        super().__init__(
            posterior=posterior,
            bias_posterior=bias_posterior,
            estimator=estimator,
            activity_regularizer=activity_regularizer,
            refused={
                "kernel_regularizer": kernel_regularizer,
                "kernel_constraint": kernel_constraint,
                "lora_rank": lora_rank,
                "lora_alpha": lora_alpha,
                "quantization_config": quantization_config,
            },
            **kwargs,
        )
        if isinstance(units, bool) or not isinstance(units, int) or units <= 0:
            raise ValueError(f"Dense needs units to be a whole number >= 1; got units={units!r}.")
        self.units = units
        self.activation = activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.bias_constraint = constraints.get(bias_constraint)
        self.input_spec = keras.layers.InputSpec(min_ndim=2)
        self.supports_masking = True

    def build(self, input_shape):
        self._build_kernel((input_shape[-1], self.units), self.kernel_initializer, self.activation)
        self.bias = None
        if self.use_bias:
            self._build_bias((self.units,), self.bias_initializer, self.bias_regularizer, self.bias_constraint)
        self.input_spec = keras.layers.InputSpec(min_ndim=2, axes={-1: input_shape[-1]})

    def call(self, inputs, training=None):
        outputs = self._kernel(training, inputs).apply(inputs)
        if self.use_bias:
            outputs = self._add_bias(outputs, training)
        return self.activation(outputs)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "activation": activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": initializers.serialize(self.kernel_initializer) if self.kernel_initializer else None,
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "bias_constraint": constraints.serialize(self.bias_constraint),
            "activity_regularizer": regularizers.serialize(self.activity_regularizer),
        }
