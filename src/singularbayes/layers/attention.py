"""Attention whose projections are drawn from posteriors."""

import keras
from keras import ops
from keras.src.backend import get_keras_mask, set_keras_mask

from singularbayes import posteriors
from singularbayes.layers.base import FreezesWhole, NotRematerialized, Summarized, refuse, require_posterior
from singularbayes.layers.einsum_dense import EinsumDense


def dealt_mask(blocks, mask):
    """Returns an attention mask in the order of the examples; one for all of them, or none, stays as it is."""
    each = mask is not None and len(mask.shape) > 2 and mask.shape[0] != 1
    return blocks.deal(mask) if each else mask


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
class MultiHeadAttention(Summarized, FreezesWhole, NotRematerialized, keras.layers.MultiHeadAttention):
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

    def __init__(
        self,
        num_heads,
        key_dim,
        value_dim=None,
        dropout=0.0,
        use_bias=True,
        output_shape=None,
        attention_axes=None,
        sliding_window=None,
        flash_attention=None,
        kernel_initializer=None,
        bias_initializer="zeros",
        kernel_regularizer=None,
        bias_regularizer=None,
        activity_regularizer=None,
        kernel_constraint=None,
        bias_constraint=None,
        use_gate=False,
        seed=None,
        *,
        posterior=None,
        bias_posterior=None,
        per_head=False,
        **kwargs,
    ):
        refuse("MultiHeadAttention", kernel_regularizer=kernel_regularizer, kernel_constraint=kernel_constraint)
        super().__init__(
            num_heads,
            key_dim,
            value_dim=value_dim,
            dropout=dropout,
            use_bias=use_bias,
            output_shape=output_shape,
            attention_axes=attention_axes,
            sliding_window=sliding_window,
            flash_attention=flash_attention,
            bias_initializer=bias_initializer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            bias_constraint=bias_constraint,
            use_gate=use_gate,
            seed=seed,
            **kwargs,
        )
        self._kernel_initializer = keras.initializers.get(kernel_initializer)
        require_posterior("MultiHeadAttention", posterior)
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
            **self._projection_arguments(),
        )

    def _projection_arguments(self):
        return {
            "kernel_initializer": posteriors.initializers.fresh_copy(self._kernel_initializer),
            "bias_initializer": self._bias_initializer,
            "bias_regularizer": self._bias_regularizer,
            "activity_regularizer": self._activity_regularizer,
            "bias_constraint": self._bias_constraint,
            "dtype": self.dtype_policy,
            **self._recipe,
        }

    def call(
        self,
        query,
        value,
        key=None,
        query_mask=None,
        value_mask=None,
        key_mask=None,
        attention_mask=None,
        return_attention_scores=False,
        training=None,
        use_causal_mask=False,
    ):
        masks = {"query_mask": query_mask, "value_mask": value_mask, "key_mask": key_mask}
        options = {"attention_mask": attention_mask, "use_causal_mask": use_causal_mask}
        flags = {"return_attention_scores": return_attention_scores, "training": training}
        first = self._query_dense.heads[0] if self.per_head else self._query_dense
        with first.posterior.blocks(training, ops.shape(query)[0]) as blocks:
            if not blocks.moves:
                return self._attend(query, value, key, masks, options, **flags)
            kept = get_keras_mask(query)
            dealt = {id(x): x if x is None else blocks.deal(x) for x in (query, value, key, kept, *masks.values())}
            options["attention_mask"] = dealt_mask(blocks, attention_mask)
            query, value, key = (dealt[id(x)] for x in (query, value, key))
            if kept is not None:  # which Keras takes from the tensor
                set_keras_mask(query, dealt[id(kept)])
            masks = {name: dealt[id(mask)] for name, mask in masks.items()}
            outputs = self._attend(query, value, key, masks, options, **flags)
            outputs = keras.tree.map_structure(blocks.collect, outputs)
            if kept is not None:
                set_keras_mask(keras.tree.flatten(outputs)[0], kept)
            return outputs

    def _attend(self, query, value, key, masks, options, return_attention_scores, training):
        flags = {"return_attention_scores": return_attention_scores, "training": training}
        return super().call(query, value, key, **masks, **options, **flags)

    def get_config(self):
        config = super().get_config()
        for name in ("kernel_regularizer", "kernel_constraint"):
            del config[name]
        return {**config, **self._recipe, "per_head": self.per_head}
