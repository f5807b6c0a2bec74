"""Convolutions whose kernel, flattened to (positions · channels) × filters, is drawn from a posterior.

A low-rank kernel A Bᵀ is never formed: its `rank` filters A are convolved with the input, and a 1 × 1 convolution by Bᵀ
mixes their outputs.
"""

import math
from abc import abstractmethod

import keras
from keras import ops

from singularbayes.layers.base import KernelLayer


class Convolution(KernelLayer):
    """What convolutions share: the arguments of the Keras layer that they replace, `keras_class`, and its shapes.

    Args:
        shape_arguments: the arguments that decide shapes, by name. Keras's layer reads and refuses them.
    """

    keras_class: type[keras.layers.Layer]
    dimensions: int
    filters: int
    kernel_size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation_rate: tuple[int, ...]
    padding: str
    data_format: str
    groups = 1

    def __init__(self, shape_arguments: dict, **kwargs):
        super().__init__(**kwargs)
        self._shape_arguments = shape_arguments
        plain = self._keras_layer()
        for name in shape_arguments:
            setattr(self, name, getattr(plain, name))
        self.input_spec = keras.layers.InputSpec(ndim=self.dimensions + 2)

    def _keras_layer(self):
        return self.keras_class(**self._shape_arguments, name="plain")

    def _build_channels(self, input_shape) -> int:
        """Returns the number of input channels, which inputs need from now on."""
        self.compute_output_shape(input_shape)  # Keras refuses shapes that do not fit
        axis = -1 if self.data_format == "channels_last" else 1
        channels = input_shape[axis]
        if channels is None or channels % self.groups:
            raise ValueError(
                f"{type(self).__name__} needs a number of input channels that groups={self.groups} divides; got inputs "
                f"of shape {tuple(input_shape)} in {self.path or self.name}."
            )
        self.input_spec = keras.layers.InputSpec(ndim=self.dimensions + 2, axes={axis: channels})
        return channels

    def call(self, inputs, training=None):
        channels_first = self.data_format == "channels_first"
        outputs = self._convolved(ops.moveaxis(inputs, 1, -1) if channels_first else inputs, training)
        outputs = self._add_bias(outputs, training)
        return self.activation(ops.moveaxis(outputs, -1, 1) if channels_first else outputs)

    def _convolved(self, inputs, training):
        """Returns channels-last inputs convolved with the kernel of this pass."""
        return self._kernel(training).convolve(inputs, self._by_filters, self.groups)

    @abstractmethod
    def _by_filters(self, inputs, filters):
        """Convolves channels-last inputs with the columns of `filters`, (positions · channels) × any number."""

    def _as_kernel(self, filters):
        """Returns the columns of `filters` as a kernel: (positions, channels, any number)."""
        positions = math.prod(self.kernel_size)
        return ops.reshape(filters, (*self.kernel_size, filters.shape[0] // positions, filters.shape[1]))

    def compute_output_shape(self, input_shape):
        return self._keras_layer().compute_output_shape(input_shape)

    def get_config(self):
        return {**super().get_config(), **{name: getattr(self, name) for name in self._shape_arguments}}


class _Forward(Convolution):
    """What Conv1D, Conv2D and Conv3D share: all but the number of dimensions."""

    def __init__(
        self,
        filters,
        kernel_size,
        strides=1,
        padding="valid",
        data_format=None,
        dilation_rate=1,
        groups=1,
        activation=None,
        use_bias=True,
        kernel_initializer=None,
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
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
                "groups": groups,
            },
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
            **kwargs,
        )

    def build(self, input_shape):
        channels = self._build_channels(input_shape)
        kernel_shape = (*self.kernel_size, channels // self.groups, self.filters)
        self._require_sizes(kernel_shape)
        self._build_kernel((math.prod(kernel_shape[:-1]), self.filters), kernel_shape)
        self._build_bias((self.filters,))

    def _convolved(self, inputs, training):
        if self.padding == "causal":
            inputs = ops.pad(inputs, ((0, 0), (self.dilation_rate[0] * (self.kernel_size[0] - 1), 0), (0, 0)))
        return super()._convolved(inputs, training)

    def _by_filters(self, inputs, filters):
        return ops.conv(
            inputs,
            self._as_kernel(filters),
            strides=list(self.strides),
            padding="valid" if self.padding == "causal" else self.padding,
            data_format="channels_last",
            dilation_rate=self.dilation_rate,
        )


@keras.saving.register_keras_serializable(package="singularbayes")
class Conv1D(_Forward):
    """`keras.layers.Conv1D` with a posterior over its kernel as a (size · channels) × filters matrix.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> Conv1D(8, 3, padding="causal", posterior=LowRank(2))(np.ones((1, 10, 4))).shape == (1, 10, 8)
    True
    """

    keras_class = keras.layers.Conv1D
    dimensions = 1


@keras.saving.register_keras_serializable(package="singularbayes")
class Conv2D(_Forward):
    """`keras.layers.Conv2D` with a posterior over its kernel as a (height · width · channels) × filters matrix.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> Conv2D(8, 3, strides=2, padding="same", posterior=LowRank(2))(np.ones((1, 10, 10, 3))).shape == (1, 5, 5, 8)
    True
    """

    keras_class = keras.layers.Conv2D
    dimensions = 2


@keras.saving.register_keras_serializable(package="singularbayes")
class Conv3D(_Forward):
    """`keras.layers.Conv3D` with a posterior over its kernel as a (depth · height · width · channels) × filters matrix.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> Conv3D(8, 3, padding="same", posterior=LowRank(2))(np.ones((1, 4, 4, 4, 3))).shape == (1, 4, 4, 4, 8)
    True
    """

    keras_class = keras.layers.Conv3D
    dimensions = 3


@keras.saving.register_keras_serializable(package="singularbayes")
class Conv2DTranspose(Convolution):
    """`keras.layers.Conv2DTranspose` with a posterior over its kernel.

    The kernel is a (height · width · channels) × filters matrix. A low-rank one spreads its `rank` filters over the
    output, and a 1 × 1 convolution mixes them.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> Conv2DTranspose(8, 2, strides=2, posterior=LowRank(2))(np.ones((1, 5, 5, 3))).shape == (1, 10, 10, 8)
    True
    """

    keras_class = keras.layers.Conv2DTranspose
    dimensions = 2
    output_padding: tuple[int, ...] | None

    def __init__(
        self,
        filters,
        kernel_size,
        strides=1,
        padding="valid",
        output_padding=None,
        data_format=None,
        dilation_rate=1,
        activation=None,
        use_bias=True,
        kernel_initializer=None,
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
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
                "output_padding": output_padding,
                "data_format": data_format,
                "dilation_rate": dilation_rate,
            },
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
            **kwargs,
        )

    def build(self, input_shape):
        channels = self._build_channels(input_shape)
        kernel_shape = (*self.kernel_size, self.filters, channels)  # Keras has the outputs first
        self._require_sizes(kernel_shape)
        shape = (math.prod(self.kernel_size) * channels, self.filters)
        self._build_kernel(shape, kernel_shape, transposed=True)
        self._build_bias((self.filters,))

    def _by_filters(self, inputs, filters):
        return ops.conv_transpose(
            inputs,
            ops.swapaxes(self._as_kernel(filters), -2, -1),
            strides=list(self.strides),
            padding=self.padding,
            output_padding=self.output_padding,
            data_format="channels_last",
            dilation_rate=self.dilation_rate,
        )
