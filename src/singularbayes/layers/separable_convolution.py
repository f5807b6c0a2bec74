"""Separable convolutions: a filter of its own for every channel, then a matrix that mixes channels; it is drawn."""

import keras
from keras import constraints, initializers, ops, regularizers

from singularbayes import posteriors
from singularbayes.layers.convolution import Convolution


class _Separable(Convolution):
    """What SeparableConv1D and SeparableConv2D share: all but the number of dimensions.

    The pointwise kernel, (channels · depth_multiplier) × filters, has the posterior. The depthwise kernel is a plain
    weight: one small filter per channel is not a matrix.
    """

    arrays = ("pointwise_kernel",)
    depth_multiplier: int

    def __init__(
        self,
        filters,
        kernel_size,
        strides=1,
        padding="valid",
        data_format=None,
        dilation_rate=1,
        depth_multiplier=1,
        activation=None,
        use_bias=True,
        depthwise_initializer="glorot_uniform",
        pointwise_initializer=None,
        bias_initializer="zeros",
        depthwise_regularizer=None,
        pointwise_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        depthwise_constraint=None,
        pointwise_constraint=None,
        bias_constraint=None,
        *,
        posterior=None,
        bias_posterior=None,
        **kwargs,
    ):
        super().__init__(
            {
                "filters": filters,
                "kernel_size": kernel_size,
                "strides": strides,
                "padding": padding,
                "data_format": data_format,
                "dilation_rate": dilation_rate,
                "depth_multiplier": depth_multiplier,
            },
            posterior=posterior,
            bias_posterior=bias_posterior,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=pointwise_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=None,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=None,
            bias_constraint=bias_constraint,
            refused={"pointwise_regularizer": pointwise_regularizer, "pointwise_constraint": pointwise_constraint},
            **kwargs,
        )
        self.depthwise_initializer = initializers.get(depthwise_initializer)
        self.depthwise_regularizer = regularizers.get(depthwise_regularizer)
        self.depthwise_constraint = constraints.get(depthwise_constraint)

    @property
    def pointwise_initializer(self):
        return self.kernel_initializer

    def build(self, input_shape):
        channels = self._build_channels(input_shape)
        rows = channels * self.depth_multiplier
        self._require_sizes((*self.kernel_size, rows, self.filters))
        self._build_kernel((rows, self.filters), (*[1] * self.dimensions, rows, self.filters))
        shape = (*self.kernel_size, channels, self.depth_multiplier)
        self.depthwise_kernel = self.add_weight(
            name="depthwise_kernel",
            shape=self.posterior.stack(shape),
            initializer=posteriors.initializers.stacked(self.depthwise_initializer, shape),
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
        )
        self._build_bias((self.filters,))

    def _convolved(self, inputs, training):
        kernel = ops.convert_to_tensor(self.depthwise_kernel)
        filtered = self.posterior.per_component(self._filtered, inputs, kernel, training)
        return self._kernel(training).apply(filtered)

    def _filtered(self, inputs, kernel):
        return ops.depthwise_conv(
            inputs,
            kernel,
            strides=self.strides,
            padding=self.padding,
            data_format="channels_last",
            dilation_rate=self.dilation_rate,
        )

    def get_config(self):
        config = super().get_config()
        pointwise_initializer = config.pop("kernel_initializer")
        return {
            **config,
            "pointwise_initializer": pointwise_initializer,
            "depthwise_initializer": initializers.serialize(self.depthwise_initializer),
            "depthwise_regularizer": regularizers.serialize(self.depthwise_regularizer),
            "depthwise_constraint": constraints.serialize(self.depthwise_constraint),
        }


@keras.saving.register_keras_serializable(package="singularbayes")
class SeparableConv1D(_Separable):
    """`keras.layers.SeparableConv1D` with a posterior over its pointwise kernel; the depthwise kernel has none.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> SeparableConv1D(8, 3, posterior=LowRank(2))(np.ones((1, 10, 4))).shape == (1, 8, 8)
    True
    """

    keras_class = keras.layers.SeparableConv1D
    dimensions = 1


@keras.saving.register_keras_serializable(package="singularbayes")
class SeparableConv2D(_Separable):
    """`keras.layers.SeparableConv2D` with a posterior over its pointwise kernel; the depthwise kernel has none.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> SeparableConv2D(8, 3, strides=2, padding="same", posterior=LowRank(2))(np.ones((1, 6, 6, 4))).shape == (
    ...     1,
    ...     3,
    ...     3,
    ...     8,
    ... )
    True
    """

    keras_class = keras.layers.SeparableConv2D
    dimensions = 2
