"""Attention whose projections are drawn from posteriors."""

import keras
from keras import ops
from keras.src.backend import get_keras_mask, set_keras_mask

from singularbayes import posteriors
from singularbayes.layers.base import FreezesWhole, Rematerialized, Summarized, refuse, require_posterior
from singularbayes.layers.einsum_dense import EinsumDense
from singularbayes.layers.latent import Projection, latent_attention
from singularbayes.posteriors import LowRankMatrix


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
class MultiHeadAttention(Summarized, FreezesWhole, Rematerialized, keras.layers.MultiHeadAttention):
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
        estimator="shared",
        **kwargs,
    ):
        refuse("MultiHeadAttention", kernel_regularizer=kernel_regularizer, kernel_constraint=kernel_constraint)
        if estimator != "shared":
            raise ValueError(
                'MultiHeadAttention needs estimator="shared": every position of a sequence uses the projections. Got '
                f"estimator={estimator!r}."
            )
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
        projections = self._factored(query, training)
        if projections is None:
            flags = {"return_attention_scores": return_attention_scores, "training": training}
            return super().call(query, value, key, **masks, **options, **flags)
        inputs = (query, value if key is None else key, value)
        # Keras's own: the mask of the query is the output's, and is taken from the tensor.
        masks["query_mask"] = get_keras_mask(query)
        for x in inputs:
            set_keras_mask(x, None)
        mask = self._compute_attention_mask(query, value, **masks, **options)
        outputs, weights = latent_attention(inputs, projections, mask, self._inverse_sqrt_key_dim)
        if masks["query_mask"] is not None:
            set_keras_mask(outputs, masks["query_mask"])
        return (outputs, weights) if return_attention_scores else outputs

    def _factored(self, query, training) -> list[Projection] | None:
        """Returns the drawn projections where attention on their factors gives the same and is cheaper, else None."""
        if not self._may_be_latent(query, training):
            return None
        layers = (self._query_dense, self._key_dense, self._value_dense, self._output_dense)
        draws = [layer._kernel(training) for layer in layers]
        if not all(isinstance(draw, LowRankMatrix) and draw.b.shape[1] <= self._key_dim for draw in draws):
            return None

        def biased(layer):
            return ops.cast(layer._drawn_bias(training)[0], query.dtype) if self._use_bias else None

        def by_head(w):
            return ops.reshape(w, (self._num_heads, -1, w.shape[-1]))

        factors = [(ops.cast(draw.a, query.dtype), ops.cast(draw.b, query.dtype)) for draw in draws]
        (q, k, v), (a, b) = factors[:3], factors[3]
        biased(self._key_dense)  # no score depends on it, but its KL counts in a pass that draws it
        return [
            Projection(q[0], by_head(q[1]), biased(self._query_dense)),
            Projection(k[0], by_head(k[1]), None),
            Projection(v[0], by_head(v[1]), biased(self._value_dense)),
            Projection(by_head(a), b, biased(self._output_dense)),
        ]

    def _may_be_latent(self, query, training) -> bool:
        return (
            keras.backend.backend() == "jax"  # the kernels of torch make no scores; TensorFlow would miss gradients
            and len(query.shape) == 3
            and len(self._output_dense.column_sizes) == 1
            and self._key_dim == self._value_dim
            and not (self.per_head or self._use_gate or self._flash_attention or self._activity_regularizer)
            and not (self._dropout and training)  # weights that do not sum to 1 need the biases of the values
        )

    def get_config(self):
        config = super().get_config()
        for name in ("kernel_regularizer", "kernel_constraint"):
            del config[name]
        return {**config, **self._recipe, "per_head": self.per_head}
