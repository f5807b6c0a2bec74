"""Attention whose projections are drawn from posteriors."""

from typing import ClassVar

import keras
from keras import ops

from singularbayes import posteriors
from singularbayes.layers.base import TakesKerasArguments, require_posterior
from singularbayes.layers.dense import EinsumDense


class _PerHead(keras.layers.Layer):
    """One projection per head, each with a posterior of its own, side by side: (…, features) → (…, heads, size)."""

    def __init__(self, heads: int, make, **kwargs):
        super().__init__(**kwargs)
        self.heads = [make(f"head_{i}") for i in range(heads)]

    def build(self, input_shape):
        for head in self.heads:
            head.build(input_shape)

    def call(self, inputs, training=None):
        return ops.stack([head(inputs, training=training) for head in self.heads], axis=-2)


@keras.saving.register_keras_serializable(package="singularbayes")
class MultiHeadAttention(TakesKerasArguments, keras.layers.MultiHeadAttention):
    """`keras.layers.MultiHeadAttention` with posteriors over its query, key, value and output projections.

    Same arguments, masks and outputs as Keras's layer; each projection gets its own copy of the posterior, over the
    whole features × (heads · size) matrix.

    Args:
        posterior: how each projection is distributed, see `BayesianLayer`.
        bias_posterior: how each bias is distributed; None makes it a plain weight.
        per_head: give every head of the query, key and value its own posterior, over features × size.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> attention = MultiHeadAttention(num_heads=2, key_dim=4, posterior=LowRank(3))
    >>> x = np.ones((1, 5, 8))
    >>> attention(x, x, use_causal_mask=True).shape == (1, 5, 8)
    True
    """

    matrices: ClassVar[dict[str, str]] = {}  # those of its projections
    added = ("posterior", "bias_posterior", "per_head")

    def __init__(self, *args, posterior=None, bias_posterior=None, per_head=False, **kwargs):
        require_posterior("MultiHeadAttention", posterior)
        super().__init__(**self._given(args, kwargs))
        self._recipe = posteriors.recipe(posterior, bias_posterior)
        self.per_head = per_head

    def build(self, query_shape, value_shape, key_shape=None):
        key_shape = value_shape if key_shape is None else key_shape
        # Keras's own check of the shapes.
        self.compute_output_shape(query_shape, value_shape, key_shape)
        self._query_dense = self._heads("query", query_shape, self._key_dim)
        self._key_dense = self._heads("key", key_shape, self._key_dim)
        if self._use_gate:
            self._gate_dense = self._heads("gate", query_shape, self._value_dim, activation="sigmoid")
        self._value_dense = self._heads("value", value_shape, self._value_dim)
        self._build_attention(len(query_shape) + 1)
        output_shape = self._output_shape or (query_shape[-1],)
        letters = "defgij"[: len(output_shape)]
        self._output_dense = self._projection(
            f"...hk,hk{letters}->...{letters}", output_shape, letters, "attention_output"
        )
        self._output_dense.build((*query_shape[:-1], self._num_heads, self._value_dim))

    def _heads(self, name, shape, size, activation=None):
        if self.per_head:
            make = lambda head: self._projection("...d,dk->...k", (size,), "k", head, activation)  # noqa: E731
            dense = _PerHead(self._num_heads, make, name=name, dtype=self.dtype_policy)
        else:
            dense = self._projection("...d,dhk->...hk", (self._num_heads, size), "hk", name, activation)
        dense.build(shape)
        return dense

    def _projection(self, equation, output_shape, bias_axes, name, activation=None):
        return EinsumDense(
            equation,
            output_shape,
            activation=activation,
            bias_axes=bias_axes if self._use_bias else None,
            name=name,
            kernel_initializer=posteriors.initializers.fresh_copy(self._kernel_initializer),
            bias_initializer=self._bias_initializer,
            bias_regularizer=self._bias_regularizer,
            activity_regularizer=self._activity_regularizer,
            bias_constraint=self._bias_constraint,
            dtype=self.dtype_policy,
            **self._recipe,
        )

    def get_config(self):
        config = {name: value for name, value in super().get_config().items() if name not in self._refused()}
        return {**config, **self._recipe, "per_head": self.per_head}
