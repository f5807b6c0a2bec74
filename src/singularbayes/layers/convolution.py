"""Convolutions whose kernel, flattened to (positions · channels) × filters, is drawn from a posterior.

A low-rank kernel A Bᵀ is never formed: its `rank` filters A are convolved with the input, and a 1 × 1 convolution by Bᵀ
mixes their outputs. Of a separable convolution the pointwise kernel, (channels · depth_multiplier) × filters, has the
posterior. The depthwise kernel is a plain weight: one small filter per channel is not a matrix.
"""

import math
from typing import ClassVar

import keras
from keras import ops

from singularbayes.layers.base import BayesianLayer


class Convolution(BayesianLayer):
    """What convolutions share: they see inputs with the channels last."""

    groups = 1

    def build(self, input_shape):
        channels = input_shape[-1 if self.data_format == "channels_last" else 1]
        if channels is None or channels % self.groups:
            raise ValueError(
                f"{type(self).__name__} needs a number of input channels that groups={self.groups} divides; got inputs "
                f"of shape {tuple(input_shape)} in {self.path or self.name}."
            )
        super().build(input_shape)

    def call(self, inputs, training=None):
        channels_first = self.data_format == "channels_first"
        outputs = self._convolved(ops.moveaxis(inputs, 1, -1) if channels_first else inputs, training)
        outputs = self._add_bias(outputs, training)
        return self.activation(ops.moveaxis(outputs, -1, 1) if channels_first else outputs)

    def _convolved(self, inputs, training):
        """Returns channels-last inputs convolved with the kernel of this pass."""
        if self.padding == "causal":
            inputs = ops.pad(inputs, ((0, 0), (self.dilation_rate[0] * (self.kernel_size[0] - 1), 0), (0, 0)))
        return self.drawn_kernel(training).convolve(inputs, self._by_filters, self.groups)

    def _by_filters(self, inputs, filters):
        """Convolves channels-last inputs with the columns of `filters`, (positions · channels) × any number."""
        return ops.conv(inputs, self._as_kernel(filters), **self._options())

    def _as_kernel(self, filters):
        """Returns the columns of `filters` as a kernel: (positions, channels, any number)."""
        positions = math.prod(self.kernel_size)
        return ops.reshape(filters, (*self.kernel_size, filters.shape[0] // positions, filters.shape[1]))

    def _options(self) -> dict:
        return {
            "strides": self.strides,
            "padding": "valid" if self.padding == "causal" else self.padding,
            "data_format": "channels_last",
            "dilation_rate": self.dilation_rate,
        }


@keras.saving.register_keras_serializable(package="singularbayes")
class Conv1D(Convolution, keras.layers.Conv1D):
    """`keras.layers.Conv1D` with a posterior over its kernel as a (size · channels) × filters matrix.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> Conv1D(8, 3, padding="causal", posterior=LowRank(2))(np.ones((1, 10, 4))).shape == (1, 10, 8)
    True
    """


@keras.saving.register_keras_serializable(package="singularbayes")
class Conv2D(Convolution, keras.layers.Conv2D):
    """`keras.layers.Conv2D` with a posterior over its kernel as a (height · width · channels) × filters matrix.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> Conv2D(8, 3, strides=2, padding="same", posterior=LowRank(2))(np.ones((1, 10, 10, 3))).shape == (1, 5, 5, 8)
    True
    """


@keras.saving.register_keras_serializable(package="singularbayes")
class Conv3D(Convolution, keras.layers.Conv3D):
    """`keras.layers.Conv3D` with a posterior over its kernel as a (depth · height · width · channels) × filters matrix.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> Conv3D(8, 3, padding="same", posterior=LowRank(2))(np.ones((1, 4, 4, 4, 3))).shape == (1, 4, 4, 4, 8)
    True
    """


@keras.saving.register_keras_serializable(package="singularbayes")
class Conv2DTranspose(Convolution, keras.layers.Conv2DTranspose):
    """`keras.layers.Conv2DTranspose` with a posterior over its kernel, a (height · width · channels) × filters matrix.

    A low-rank one spreads its `rank` filters over the output, and a 1 × 1 convolution mixes them.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> Conv2DTranspose(8, 2, strides=2, posterior=LowRank(2))(np.ones((1, 5, 5, 3))).shape == (1, 10, 10, 8)
    True
    """

    def _build_matrix(self, posterior, shape, initializer):
        self._require_sizes(shape)
        *positions, filters, channels = shape  # Keras has the outputs first
        matrix = (math.prod(positions) * channels, filters)
        start = self._start(posterior, initializer, matrix, tuple(shape), transposed=True)
        self._build_posterior(posterior, matrix, start)

    def _by_filters(self, inputs, filters):
        kernel = ops.swapaxes(self._as_kernel(filters), -2, -1)
        return ops.conv_transpose(inputs, kernel, output_padding=self.output_padding, **self._options())


class _Separable(Convolution):
    matrices: ClassVar = {"pointwise_kernel": "posterior"}

    def _convolved(self, inputs, training):
        kernel = ops.convert_to_tensor(self.depthwise_kernel)
        filtered = self.posterior.per_component(self._filtered, inputs, kernel, training)
        return self.drawn_kernel(training).apply(filtered)

    def _filtered(self, inputs, kernel):
        return ops.depthwise_conv(inputs, kernel, **self._options())


@keras.saving.register_keras_serializable(package="singularbayes")
class SeparableConv1D(_Separable, keras.layers.SeparableConv1D):
    """`keras.layers.SeparableConv1D` with a posterior over its pointwise kernel; the depthwise kernel has none.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> SeparableConv1D(8, 3, posterior=LowRank(2))(np.ones((1, 10, 4))).shape == (1, 8, 8)
    True
    """


@keras.saving.register_keras_serializable(package="singularbayes")
class SeparableConv2D(_Separable, keras.layers.SeparableConv2D):
    """`keras.layers.SeparableConv2D` with a posterior over its pointwise kernel; the depthwise kernel has none.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = SeparableConv2D(8, 3, strides=2, padding="same", posterior=LowRank(2))
    >>> layer(np.ones((1, 6, 6, 4))).shape == (1, 3, 3, 8)
    True
    """
