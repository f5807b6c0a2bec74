"""One block of a Transformer encoder."""

import keras
from keras import activations, initializers, ops

from singularbayes import posteriors
from singularbayes.layers.attention import MultiHeadAttention
from singularbayes.layers.base import HoldsPosteriors, integers, require_posterior
from singularbayes.layers.dense import Dense


class _Norm(keras.layers.LayerNormalization):
    """Keras's layer with the squares taken of centred values, which XLA makes one loop with the sum before it.

    Args:
        block: whose components have gains and shifts of their own.
    """

    def __init__(self, block, **kwargs):
        super().__init__(**kwargs)
        self._posterior = lambda: block.inner.posterior  # a function, because the layer is not a part of this one
        self._stack = posteriors.get_posterior(block._recipe["posterior"]).stack

    def build(self, input_shape):
        shape, ones = self._stack(input_shape[-1:]), keras.initializers.Ones()
        self.gamma = self.add_weight(name="gamma", shape=shape, initializer=ones, autocast=False)
        self.beta = self.add_weight(name="beta", shape=shape, initializer="zeros", autocast=False)

    def call(self, inputs, training=None):
        x = ops.cast(inputs, keras.backend.result_type(inputs.dtype, "float32"))
        gamma, beta = (self._own(ops.cast(weight, x.dtype), x, training) for weight in (self.gamma, self.beta))
        centred = x - ops.mean(x, axis=-1, keepdims=True)
        variance = ops.mean(ops.square(centred), axis=-1, keepdims=True)
        return ops.cast(centred * ops.rsqrt(variance + self.epsilon) * gamma + beta, self.compute_dtype)

    def _own(self, weight, x, training):
        """Returns the gain or shift of every example, of one for all, for inputs (batch, …, features)."""
        picked = self._posterior().pick(weight, training, ops.shape(x)[0])
        return ops.reshape(picked, (-1, *[1] * (len(x.shape) - 2), weight.shape[-1]))


@keras.saving.register_keras_serializable(package="singularbayes")
class TransformerEncoder(HoldsPosteriors):
    """Self-attention and a feed-forward network, each behind a normalisation (pre-norm) and with a residual connection.

    h = x + Attention(LayerNorm(x)), y = h + Dense(Dense(LayerNorm(h))). The six matrices have posteriors, the
    normalisations are plain. Masks of the input (an `Embedding` with `mask_zero`) are honoured.

    Args:
        intermediate_dim: width of the feed-forward network.
        num_heads: it divides the number of features.
        posterior: how each matrix is distributed, see `BayesianLayer`.
        bias_posterior: how each bias is distributed; None makes them plain weights.
        per_head: see `MultiHeadAttention`.
        normalize_first: False normalises after each residual connection instead (post-norm).
        positions: return only the first positions, this many; they attend to all. None returns all. A classifier that
            reads the first token needs no more of its last block.

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
        posterior=None,
        bias_posterior=None,
        per_head=False,
        positions=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.intermediate_dim, self.num_heads = integers(
            "TransformerEncoder", intermediate_dim=intermediate_dim, num_heads=num_heads
        )
        self.dropout = dropout
        self.activation = activations.get(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.normalize_first = normalize_first
        self.per_head = per_head
        self.positions = None if positions is None else integers("TransformerEncoder", positions=positions)[0]
        require_posterior("TransformerEncoder", posterior)
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
        norm = _Norm(self, epsilon=self.layer_norm_epsilon, name=name, dtype=self.dtype_policy)
        norm.build(shape)
        return norm

    def _arguments(self, name) -> dict:
        return {
            "name": name,
            "kernel_initializer": posteriors.initializers.fresh_copy(self.kernel_initializer),
            "bias_initializer": self.bias_initializer,
            "dtype": self.dtype_policy,
            **self._recipe,
        }

    def call(self, inputs, attention_mask=None, training=None, mask=None):
        first = slice(self.positions)
        source = self.attention_norm(inputs, training=training) if self.normalize_first else inputs
        masks = {} if mask is None else {"query_mask": mask[:, first], "value_mask": mask, "key_mask": mask}
        if attention_mask is not None:
            masks["attention_mask"] = attention_mask[..., first, :]
        query = source if self.positions is None else source[:, first]
        h = inputs[:, first] + self.drop(self.attention(query, source, training=training, **masks), training=training)
        if not self.normalize_first:
            h = self.attention_norm(h, training=training)
        x = self.dense_norm(h, training=training) if self.normalize_first else h
        y = h + self.drop(self.outer(self.inner(x, training=training), training=training), training=training)
        return y if self.normalize_first else self.dense_norm(y, training=training)

    def compute_mask(self, inputs, previous_mask):
        return None if previous_mask is None else previous_mask[:, : self.positions]

    def compute_output_shape(self, input_shape):
        batch, length, *features = input_shape
        known = [size for size in (length, self.positions) if size is not None]
        return (batch, min(known) if known else None, *features)

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
            "positions": self.positions,
            **self._recipe,
        }
