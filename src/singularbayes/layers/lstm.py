"""Long short-term memory (Hochreiter and Schmidhuber 1997)."""

from contextlib import nullcontext

import keras
from keras import ops

from singularbayes import posteriors
from singularbayes.layers.recurrent import Recurrent
from singularbayes.layers.torch_threads import one_thread

_MOST_ENTRIES = 1 << 20  # of a dense kernel of one gate
_SMALL_STEP = 1 << 23  # multiplications of the recurrent product of one step


@keras.saving.register_keras_serializable(package="singularbayes")
class LSTM(Recurrent):
    """`keras.layers.LSTM` with posteriors over its input and recurrent kernels.

    Same arguments as Keras's layer. The gates are packed: input, forget, cell, output. One draw of the weights reads a
    sequence from its first step to its last.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.
        recurrent_posterior: how the recurrent kernel is distributed; None is the same as `posterior`.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = LSTM(8, posterior=LowRank(3), recurrent_posterior=LowRank(4))
    >>> layer(np.ones((2, 24, 5))).shape == (2, 8)
    True
    """

    gates, num_states = 4, 2

    def __init__(
        self,
        units,
        activation="tanh",
        recurrent_activation="sigmoid",
        use_bias=True,
        kernel_initializer=None,
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        unit_forget_bias=True,
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
        self.unit_forget_bias = unit_forget_bias

    @property
    def _full_bias_initializer(self):
        if not self.unit_forget_bias:
            return self.bias_initializer

        def with_open_forget_gate(shape, dtype=None):
            start = ops.reshape(
                posteriors.initializers.fresh_copy(self.bias_initializer)(shape, dtype), (4, self.units)
            )
            return ops.reshape(ops.concatenate([start[:1], ops.ones_like(start[:1]), start[2:]]), shape)

        return with_open_forget_gate

    def _biases(self, training, examples):
        return (self._drawn_bias(training, examples) if self.use_bias else None), None

    def _loop(self, sequences, initial_state, mask, training):
        if not self._fits_torch_kernel(sequences, mask, training):
            return super()._loop(sequences, initial_state, mask, training)
        import torch

        kernels = [self._draw(q, training).dense().T.contiguous() for q in (self.posterior, self.recurrent_posterior)]
        bias, _ = self._biases(training, 1)
        biases = [] if bias is None else [bias[0], torch.zeros_like(bias[0])]
        states = [state.unsqueeze(0) for state in initial_state]
        options = (bias is not None, 1, 0.0, False, False, True)  # one layer, one direction, batches first
        step = len(sequences) * self.units * 4 * self.units
        with one_thread() if step <= _SMALL_STEP else nullcontext():
            outputs, *states = torch.lstm(sequences, states, kernels + biases, *options)
        last = outputs[:, -1]
        return last, outputs if self.return_sequences else outputs[:, -1:], [state[0] for state in states]

    def _fits_torch_kernel(self, sequences, mask, training) -> bool:
        """Returns whether torch's own loop computes a pass without gradient: several times as fast as one in Python.

        It takes dense kernels and one draw at a time, and has no rule for `vmap`: the sampler then runs draws in turn.
        """
        if keras.backend.backend() != "torch" or training or mask is not None or self.go_backwards:
            return False
        import torch

        plain = self.activation is keras.activations.tanh and self.recurrent_activation is keras.activations.sigmoid
        traced = torch.is_grad_enabled() or torch.compiler.is_compiling() or torch.jit.is_tracing()
        small = max(self.units, sequences.shape[-1]) * self.units <= _MOST_ENTRIES
        on_cpu = sequences.device.type == "cpu" and sequences.dtype == torch.float32
        return plain and not traced and small and on_cpu and self.posterior.components == 1

    def _step(self, x, states, recur, recurrent_bias):
        h, c = states
        i, f, g, o = ops.split(x + recur(h, 0, 4), 4, axis=-1)
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(g)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]

    def get_config(self):
        return {**super().get_config(), "unit_forget_bias": self.unit_forget_bias}
