"""Recurrent layers: both kernels are drawn once for a batch of sequences, before the first step.

All inputs are projected before the loop, so that a step is the recurrent product and the gates. Masks, states,
directions and unrolling are those of `keras.layers.RNN`.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import keras
from keras import activations, backend, initializers, ops
from keras.src.backend import rnn as loop  # the scan of every backend, with masks; it is not public

from singularbayes import posteriors
from singularbayes.layers.base import KernelLayer, WithoutArrays, integers
from singularbayes.posteriors import LowRankMatrix

_UNROLLED = 32  # steps, up to which a graph of all of them is small


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


class _States(WithoutArrays):
    """What `keras.layers.RNN` reads from a cell: the sizes of its states. The weights and the step are the layer's."""

    arrays = ("kernel", "recurrent_kernel")

    def __init__(self, units: int, number: int, **kwargs):
        super().__init__(**kwargs)
        self.state_size, self.output_size = [units] * number, units

    def build(self, input_shape):
        """Nothing to build."""

    def call(self, inputs, states):
        return inputs, states


class Recurrent(KernelLayer, keras.layers.RNN):
    """What the LSTM and the GRU share.

    Args:
        posterior: see `BayesianLayer`.
        bias_posterior: how the bias is distributed, for example `FullRank()`; None makes it a plain weight.
        recurrent_posterior: how the recurrent kernel is distributed; None is the same as `posterior`.
    """

    gates: int
    num_states: int
    arrays = _States.arrays

    def __init__(
        self,
        units,
        *,
        recurrent_posterior,
        recurrent_activation,
        recurrent_initializer,
        recurrent_regularizer,
        recurrent_constraint,
        dropout,
        recurrent_dropout,
        seed,
        use_cudnn,
        implementation,
        posterior,
        **kwargs,
    ):
        kind = type(self).__name__
        (units,) = integers(kind, units=units)
        if use_cudnn not in ("auto", False):
            raise ValueError(
                f'{kind} needs use_cudnn="auto" or False: cuDNN cannot apply a factored kernel. Got '
                f"use_cudnn={use_cudnn!r}."
            )
        dtype = kwargs.get("dtype")
        super().__init__(
            cell=_States(units, self.num_states, dtype=dtype, name="states"),
            posterior=posterior,
            refused={"recurrent_regularizer": recurrent_regularizer, "recurrent_constraint": recurrent_constraint},
            **kwargs,
        )
        self.recurrent_posterior = self._posterior(
            posterior if recurrent_posterior is None else recurrent_posterior, "recurrent_posterior"
        )
        self.units = units
        self.recurrent_activation = activations.get(recurrent_activation)
        self.recurrent_initializer = initializers.get(recurrent_initializer)
        self.dropout = min(1.0, max(0.0, dropout))
        self.recurrent_dropout = min(1.0, max(0.0, recurrent_dropout))
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)  # of dropout alone
        self.implementation = 1 if self.recurrent_dropout else implementation
        self.input_spec = keras.layers.InputSpec(ndim=3)

    def build(self, sequences_shape, initial_state_shape=None):
        keras.layers.RNN.build(self, sequences_shape, initial_state_shape)
        width = self.gates * self.units
        self._build_kernel((sequences_shape[-1], width))
        self._build_posterior(self.recurrent_posterior, (self.units, width), self.recurrent_initializer)
        self._build_bias(self._full_bias_shape, self._full_bias_initializer)
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: sequences_shape[-1]})

    @property
    def _full_bias_shape(self) -> tuple[int, ...]:
        return (self.gates * self.units,)

    @property
    def _full_bias_initializer(self):
        return self.bias_initializer

    @abstractmethod
    def _step(self, x, states, recur, recurrent_bias):
        """Returns the output and the new states from projected inputs, (batch, gates · units), and the old states."""

    @abstractmethod
    def _biases(self, training, examples) -> tuple:
        """Returns the biases of the input and of the recurrent product, (examples or 1, width); each may be None."""

    def inner_loop(self, sequences, initial_state, mask, training=False):
        if len(initial_state) != self.num_states:
            raise ValueError(
                f"{type(self).__name__} needs {self.num_states} initial states; got {len(initial_state)} in "
                f"{self.path or self.name}."
            )
        with self.posterior.blocks(training, ops.shape(sequences)[0]) as blocks:
            if self.stateful and blocks.moves:
                raise ValueError(
                    f"{type(self).__name__} with a mixture needs stateful=False in training: the next batch has other "
                    f"components. Got stateful=True in {self.path or self.name}."
                )
            mask = mask[0] if isinstance(mask, (list, tuple)) else mask
            dealt = [None if x is None else blocks.deal(x) for x in (sequences, mask, *initial_state)]
            outputs = self._loop(dealt[0], dealt[2:], dealt[1], training)
            return keras.tree.map_structure(blocks.collect, outputs)

    def _loop(self, sequences, initial_state, mask, training):
        """Returns the last output, all outputs and the last states."""
        project = self._product(self.posterior, sequences[:, 0], self.dropout, training, over_time=True)
        recur = self._product(self.recurrent_posterior, initial_state[0], self.recurrent_dropout, training)
        bias, recurrent_bias = self._biases(training, self._bias_examples(sequences))
        if backend.backend() == "jax" and not training and isinstance(project.kernel, LowRankMatrix):
            # x A before the loop and B inside it: the gates of all steps and draws are not in memory at once.
            first, second = project.kernel.factors()
            x = first.apply(sequences)

            def gates(x):
                return second.apply(x) if bias is None else second.apply(x) + bias

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

    def _product(self, posterior, step_inputs, rate, training, over_time=False) -> _Product:
        masks = None
        if training and 0.0 < rate < 1.0:
            # One mask for all steps, as in Keras; its slower implementation has one per gate.
            count = self.gates if self.implementation == 1 else 1
            ones = ops.ones_like(step_inputs)
            masks = [keras.random.dropout(ones, rate, seed=self.seed_generator) for _ in range(count)]
            masks = [ops.expand_dims(mask, 1) for mask in masks] if over_time else masks
        return _Product(self._draw(posterior, training), self.units, masks)

    def _fresh(self, states):
        # A stateful layer writes its states in place on torch, where the gradient still needs the old ones.
        return [ops.copy(state) for state in states] if self.stateful and backend.backend() == "torch" else states

    def get_config(self):
        config = {
            **super().get_config(),
            "units": self.units,
            "recurrent_posterior": posteriors.serialize(self.recurrent_posterior),
            "recurrent_activation": activations.serialize(self.recurrent_activation),
            "recurrent_initializer": initializers.serialize(self.recurrent_initializer),
            "dropout": self.dropout,
            "recurrent_dropout": self.recurrent_dropout,
            "seed": self.seed,
        }
        del config["cell"]
        return config

    @classmethod
    def from_config(cls, config):
        return cls(**config)
