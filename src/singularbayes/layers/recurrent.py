"""Recurrent layers: both kernels are drawn once for a batch of sequences, before the first step.

All inputs are projected before the loop, so that a step is the recurrent product and the gates. Masks, states,
directions and unrolling are those of `keras.layers.RNN`.
"""

from abc import abstractmethod
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import keras
from keras import backend, ops
from keras.src.backend import rnn as loop  # the scan of every backend, with masks; it is not public

from singularbayes.layers.base import BayesianLayer
from singularbayes.layers.torch_threads import one_thread
from singularbayes.posteriors import LowRankMatrix, initializers

_UNROLLED = 32  # steps, up to which a graph of all of them is small
_MOST_ENTRIES = 1 << 20  # of a dense kernel of one gate
_SMALL_STEP = 1 << 23  # multiplications of the recurrent product of one step


@dataclass(frozen=True)
class _Product:
    """x ↦ x W for packed gates; dropout may give every gate its own mask of x."""

    kernel: Any
    units: int
    masks: list | None  # none, one for all gates, or one per gate

    def __call__(self, x, first: int, last: int):
        """Returns the products for the gates `first` … `last` − 1 side by side."""
        kernel = self.kernel.columns(first * self.units, last * self.units)
        if not self.masks:
            return kernel.apply(x)
        if len(self.masks) == 1:
            return kernel.apply(x * self.masks[0])
        parts = [
            self.kernel.columns(gate * self.units, (gate + 1) * self.units).apply(x * self.masks[gate])
            for gate in range(first, last)
        ]
        return ops.concatenate(parts, axis=-1)


class Recurrent(BayesianLayer):
    """What the LSTM and the GRU share. The cell of Keras keeps the settings and has no weights: these are the layer's.

    Args:
        recurrent_posterior: how the recurrent kernel is distributed; None is the same as `posterior`.
    """

    matrices: ClassVar = {"kernel": "posterior", "recurrent_kernel": "recurrent_posterior"}
    added = ("posterior", "recurrent_posterior", "bias_posterior")
    gates: int

    def __init__(self, *args, posterior=None, recurrent_posterior=None, **kwargs):
        super().__init__(*args, posterior=posterior, **kwargs)
        chosen = posterior if recurrent_posterior is None else recurrent_posterior
        self.recurrent_posterior: Any = self._posterior(chosen, "recurrent_posterior")

    def _given(self, args, kwargs):
        given = super()._given(args, kwargs)
        wanted = given.get("use_cudnn", "auto")
        if wanted not in ("auto", False):
            raise ValueError(
                f'{type(self).__name__} needs use_cudnn="auto" or False: cuDNN cannot apply a factored kernel. Got '
                f"use_cudnn={wanted!r}."
            )
        return {**given, "use_cudnn": False}  # nor may Keras's Bidirectional look for the arrays

    def build(self, sequences_shape, initial_state_shape=None):
        self.cell.built = True  # it has no weights
        super().build(sequences_shape, initial_state_shape)
        cell, width = self.cell, self.gates * self.units
        self.add_weight((sequences_shape[-1], width), cell.kernel_initializer, name="kernel")
        self.add_weight((self.units, width), cell.recurrent_initializer, name="recurrent_kernel")
        self.bias = None
        if self.use_bias:
            options = {"regularizer": cell.bias_regularizer, "constraint": cell.bias_constraint}
            self.bias = self.add_weight(self._full_bias_shape, self._bias_start(), name="bias", **options)
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: sequences_shape[-1]})

    @property
    def _full_bias_shape(self) -> tuple[int, ...]:
        return (self.gates * self.units,)

    def _bias_start(self):
        return self.cell.bias_initializer

    @abstractmethod
    def _step(self, x, states, recur, recurrent_bias):
        """Returns the output and the new states from projected inputs, (batch, gates · units), and the old states."""

    def _biases(self, training, examples) -> tuple:
        """Returns the biases of the input and of the recurrent product, (examples or 1, width); each may be None."""
        return (self._drawn_bias(training, examples) if self.use_bias else None), None

    def inner_loop(self, sequences, initial_state, mask, training=False):
        if len(initial_state) != len(self.state_size):
            raise ValueError(
                f"{type(self).__name__} needs {len(self.state_size)} initial states; got {len(initial_state)} in "
                f"{self.path or self.name}."
            )
        if self.stateful and training and self.posterior.components > 1:
            raise ValueError(
                f"{type(self).__name__} with a mixture needs stateful=False in training: its examples are there once "
                f"for each component. Got stateful=True in {self.path or self.name}."
            )
        return self._loop(sequences, initial_state, mask[0] if isinstance(mask, (list, tuple)) else mask, training)

    def _loop(self, sequences, initial_state, mask, training):
        """Returns the last output, all outputs and the last states."""
        cell, first, state = self.cell, sequences[:, 0], initial_state[0]
        project = self._product(self.posterior, lambda: cell.get_dropout_mask(first), training, over_time=True)
        recur = self._product(self.recurrent_posterior, lambda: cell.get_recurrent_dropout_mask(state), training)
        bias, recurrent_bias = self._biases(training, self._bias_examples(sequences))
        if backend.backend() == "jax" and not training and isinstance(project.kernel, LowRankMatrix):
            # x A before the loop and B inside it: the gates of all steps and draws are not in memory at once.
            inner, outer = project.kernel.factors()
            x = inner.apply(sequences)

            def gates(x):
                return outer.apply(x) if bias is None else outer.apply(x) + bias

        else:
            x = project(sequences, 0, self.gates)
            x = x if bias is None else x + ops.expand_dims(bias, 1)

            def gates(x):
                return x

        return loop(
            lambda x, states: self._step(gates(x), states, recur, recurrent_bias),
            x,
            self._fresh(initial_state),
            go_backwards=self.go_backwards,
            mask=mask,
            unroll=self.unroll or self._unrolls(sequences, training),
            input_length=sequences.shape[1],
            zero_output_for_mask=self.zero_output_for_mask,
            return_all_outputs=self.return_sequences,
        )

    def _unrolls(self, sequences, training) -> bool:
        # Outside training TensorFlow's loop over steps takes a fifth longer than the steps one behind another.
        length = sequences.shape[1]
        return backend.backend() == "tensorflow" and not training and length is not None and length <= _UNROLLED

    def activation_size(self, length):
        return length * self.gates * self.units  # all inputs are projected for all gates before the loop

    def _product(self, posterior, masks, training, over_time=False) -> _Product:
        """Returns the product with a drawn kernel; `masks` gives those of the cell: one, or one for each gate."""
        found = masks() if training else None
        found = found if found is None or isinstance(found, list) else [found]
        if found and over_time:
            found = [ops.expand_dims(mask, 1) for mask in found]
        return _Product(self._draw(posterior, training), self.units, found)

    def _fresh(self, states):
        # A stateful layer writes its states in place on torch, where the gradient still needs the old ones.
        return [ops.copy(state) for state in states] if self.stateful and backend.backend() == "torch" else states


@keras.saving.register_keras_serializable(package="singularbayes")
class LSTM(Recurrent, keras.layers.LSTM):
    """`keras.layers.LSTM` with posteriors over its input and recurrent kernels, see `BayesianLayer` and `Recurrent`.

    The gates are packed: input, forget, cell, output. One draw of the weights reads a sequence from its first step to
    its last.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = LSTM(8, posterior=LowRank(3), recurrent_posterior=LowRank(4))
    >>> layer(np.ones((2, 24, 5))).shape == (2, 8)
    True
    """

    gates = 4

    def _bias_start(self):
        if not self.unit_forget_bias:
            return super()._bias_start()

        def with_open_forget_gate(shape, dtype=None):
            start = initializers.fresh_copy(self.cell.bias_initializer)(shape, dtype)
            start = ops.reshape(start, (4, self.units))
            return ops.reshape(ops.concatenate([start[:1], ops.ones_like(start[:1]), start[2:]]), shape)

        return with_open_forget_gate

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


@keras.saving.register_keras_serializable(package="singularbayes")
class GRU(Recurrent, keras.layers.GRU):
    """`keras.layers.GRU` with posteriors over its input and recurrent kernels, see `BayesianLayer` and `Recurrent`.

    The gates are packed: update, reset, candidate.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> GRU(8, return_sequences=True, posterior=LowRank(3))(np.ones((2, 24, 5))).shape == (2, 24, 8)
    True
    """

    gates = 3

    @property
    def _full_bias_shape(self):
        return (2, 3 * self.units) if self.reset_after else (3 * self.units,)

    def _biases(self, training, examples):
        bias, _ = super()._biases(training, examples)
        return (bias[:, 0], bias[:, 1]) if self.reset_after and bias is not None else (bias, None)

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
