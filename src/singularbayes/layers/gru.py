"""Gated recurrent unit (Cho et al. 2014)."""

import keras
from keras import ops

from singularbayes.layers.recurrent import Recurrent


@keras.saving.register_keras_serializable(package="singularbayes")
class GRU(Recurrent):
    """`keras.layers.GRU` with posteriors over its input and recurrent kernels.

    Same arguments as Keras's layer. The gates are packed: update, reset, candidate.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.
        recurrent_posterior: how the recurrent kernel is distributed; None is the same as `posterior`.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> GRU(8, return_sequences=True, posterior=LowRank(3))(np.ones((2, 24, 5))).shape == (2, 24, 8)
    True
    """

    gates, num_states = 3, 1

    def __init__(
        self,
        units,
        activation="tanh",
        recurrent_activation="sigmoid",
        use_bias=True,
        kernel_initializer=None,
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        recurrent_constraint=None,
        bias_constraint=None,
        dropout=0.0,
        recurrent_dropout=0.0,
        seed=None,
        return_sequences=False,
        return_state=False,
        go_backwards=False,
        stateful=False,
        unroll=False,
        reset_after=True,
        use_cudnn="auto",
        *,
        posterior=None,
        recurrent_posterior=None,
        bias_posterior=None,
        implementation=2,
        **kwargs,
    ):
        super().__init__(
            units,
            posterior=posterior,
            recurrent_posterior=recurrent_posterior,
            bias_posterior=bias_posterior,
            activation=activation,
            recurrent_activation=recurrent_activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
            dropout=dropout,
            recurrent_dropout=recurrent_dropout,
            seed=seed,
            return_sequences=return_sequences,
            return_state=return_state,
            go_backwards=go_backwards,
            stateful=stateful,
            unroll=unroll,
            use_cudnn=use_cudnn,
            implementation=implementation,
            **kwargs,
        )
        self.reset_after = reset_after

    @property
    def _full_bias_shape(self):
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,)

    def _biases(self, training, examples):
        if not self.use_bias:
            return None, None
        bias = self._drawn_bias(training, examples)
        return (bias[:, 0], bias[:, 1]) if self.reset_after else (bias, None)

    def _step(self, x, states, recur, recurrent_bias):
        (h,) = states
        x_gates, x_candidate = x[:, : 2 * self.units], x[:, 2 * self.units :]
        if self.reset_after:
            product = recur(h, 0, 3)
            product = product if recurrent_bias is None else product + recurrent_bias
            gates, candidate = product[:, : 2 * self.units], product[:, 2 * self.units :]
        else:
            gates = recur(h, 0, 2)
        z, r = ops.split(self.recurrent_activation(x_gates + gates), 2, axis=-1)
        candidate = r * candidate if self.reset_after else recur(r * h, 2, 3)
        h = z * h + (1 - z) * self.activation(x_candidate + candidate)
        return h, [h]

    def get_config(self):
        return {**super().get_config(), "reset_after": self.reset_after}
