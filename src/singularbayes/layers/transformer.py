"""One block of a Transformer encoder."""

import keras
from keras import activations, initializers

from singularbayes import posteriors
from singularbayes.layers.attention import MultiHeadAttention
from singularbayes.layers.base import whole
from singularbayes.layers.dense import Dense


@keras.saving.register_keras_serializable(package="singularbayes")
class TransformerEncoder(keras.layers.Layer):
    """Self-attention and a feed-forward network, each behind a normalisation (pre-norm) and with a residual connection.

    h = x + Attention(LayerNorm(x)), y = h + Dense(Dense(LayerNorm(h))). The six matrices have posteriors, the
    normalisations are plain. Masks of the input (an `Embedding` with `mask_zero`) are honoured.

    Args:
        intermediate_dim: width of the feed-forward network.
        num_heads: it divides the number of features.
        posterior: how each matrix is distributed, for example `LowRank(16)`.
        bias_posterior: how each bias is distributed; None makes them plain weights.
        per_head: see `MultiHeadAttention`.
        normalize_first: False normalises after each residual connection instead (post-norm).

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> block = TransformerEncoder(32, num_heads=2, posterior=LowRank(4))
    >>> block(np.ones((1, 5, 16))).shape == (1, 5, 16)
    True
    """

    def __init__(
        self,
        intermediate_dim,
        num_heads,
        dropout=0.0,
        activation="relu",
        layer_norm_epsilon=1e-5,
        kernel_initializer=None,
        bias_initializer="zeros",
        normalize_first=True,
        *,
        posterior,
        bias_posterior=None,
        per_head=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.intermediate_dim, self.num_heads = whole(
            "TransformerEncoder", intermediate_dim=intermediate_dim, num_heads=num_heads
        )
        self.dropout = dropout
        self.activation = activations.get(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.normalize_first = normalize_first
        self.per_head = per_head
        self._recipe = posteriors.recipe(posterior, bias_posterior)
        self.supports_masking = True
        self.drop = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.input_spec = keras.layers.InputSpec(min_ndim=3)

    def build(self, input_shape):
        features = input_shape[-1]
        if features is None or features % self.num_heads:
            raise ValueError(
                f"TransformerEncoder needs a number of features that num_heads={self.num_heads} divides; got inputs of "
                f"shape {tuple(input_shape)} in {self.path or self.name}."
            )
        self.attention_norm = self._norm("attention_norm", input_shape)
        self.attention = MultiHeadAttention(
            self.num_heads,
            features // self.num_heads,
            dropout=self.dropout,
            per_head=self.per_head,
            **self._arguments("attention"),
        )
        self.attention.build(input_shape, input_shape)
        self.dense_norm = self._norm("dense_norm", input_shape)
        self.inner = Dense(self.intermediate_dim, self.activation, **self._arguments("inner"))
        self.inner.build(input_shape)
        self.outer = Dense(features, **self._arguments("outer"))
        self.outer.build((*input_shape[:-1], self.intermediate_dim))
        self.input_spec = keras.layers.InputSpec(min_ndim=3, axes={-1: features})

    def _norm(self, name, shape):
        norm = keras.layers.LayerNormalization(epsilon=self.layer_norm_epsilon, name=name, dtype=self.dtype_policy)
        norm.build(shape)
        return norm

    def _arguments(self, name) -> dict:
        return {
            "name": name,
            "kernel_initializer": posteriors.starts.fresh(self.kernel_initializer),
            "bias_initializer": self.bias_initializer,
            "dtype": self.dtype_policy,
            **self._recipe,
        }

    def call(self, inputs, attention_mask=None, training=None, mask=None):
        def attend(x):
            masks = {} if mask is None else {"query_mask": mask, "value_mask": mask, "key_mask": mask}
            return self.attention(x, x, attention_mask=attention_mask, training=training, **masks)

        h = self._residual(inputs, self.attention_norm, attend, training)
        return self._residual(h, self.dense_norm, lambda x: self.outer(self.inner(x)), training)

    def _residual(self, x, norm, change, training):
        if self.normalize_first:
            return x + self.drop(change(norm(x)), training=training)
        return norm(x + self.drop(change(x), training=training))

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "dropout": self.dropout,
            "activation": activations.serialize(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "kernel_initializer": initializers.serialize(self.kernel_initializer) if self.kernel_initializer else None,
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "normalize_first": self.normalize_first,
            "per_head": self.per_head,
            **self._recipe,
        }
