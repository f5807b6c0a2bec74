"""A table of vectors used in both directions: ids to vectors, and vectors to scores of every id."""

import keras
from keras import ops
from keras.src.backend import set_keras_mask

from singularbayes import posteriors
from singularbayes.layers.embedding import Embedding


@keras.saving.register_keras_serializable(package="singularbayes")
class ReversibleEmbedding(Embedding):
    """`keras.layers.ReversibleEmbedding` with a posterior over its table.

    Tied weights are one draw in both directions: in a forward pass `layer(ids)` gives rows of the same W that
    `layer(vectors, reverse=True)` multiplies by, as x Wᵀ = (x B) Aᵀ.

    Args:
        tie_weights: False gives the way back a posterior of its own.
        posterior: see `BayesianLayer`.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = ReversibleEmbedding(100, 16, posterior=LowRank(4))
    >>> layer(layer(np.array([[1, 5, 1]])), reverse=True).shape == (1, 3, 100)
    True
    """

    arrays = ("embeddings", "reverse_embeddings")

    def __init__(
        self,
        input_dim,
        output_dim,
        tie_weights=True,
        embeddings_initializer="uniform",
        embeddings_regularizer=None,
        embeddings_constraint=None,
        mask_zero=False,
        reverse_dtype=None,
        logit_soft_cap=None,
        *,
        posterior=None,
        **kwargs,
    ):
        super().__init__(
            input_dim,
            output_dim,
            embeddings_initializer,
            embeddings_regularizer,
            embeddings_constraint,
            mask_zero,
            posterior=posterior,
            **kwargs,
        )
        self.tie_weights = tie_weights
        self.reverse_dtype = reverse_dtype
        self.logit_soft_cap = logit_soft_cap
        self.reverse_posterior = None if tie_weights else posteriors.get_posterior(posterior, "reverse_posterior")

    def build(self, input_shape=None):
        super().build(input_shape)
        if self.reverse_posterior is not None and not self.reverse_posterior.built:
            shape = (self.output_dim, self.input_dim)
            self._build_posterior(self.reverse_posterior, shape, self.embeddings_initializer)

    def call(self, inputs, reverse=False, training=None):  # type: ignore[override]
        if not reverse:
            vectors = super().call(inputs, training=training)
            if self.mask_zero:
                set_keras_mask(vectors, ops.not_equal(inputs, 0))
            return vectors
        if self.tie_weights:
            kernel = self._kernel(training).transposed()
        else:
            kernel = self._draw(self.reverse_posterior, training)
        logits = kernel.apply(ops.cast(inputs, self.reverse_dtype or self.compute_dtype))
        if self.logit_soft_cap is not None:
            logits = self.logit_soft_cap * ops.tanh(logits / self.logit_soft_cap)
        return logits

    def compute_mask(self, inputs, mask=None):
        return None  # it does not know the direction, so `call` sets the mask

    def compute_output_shape(self, input_shape, reverse=False):
        return (*input_shape[:-1], self.input_dim) if reverse else super().compute_output_shape(input_shape)

    def compute_output_spec(self, inputs, reverse=False, training=None):
        dtype = self.reverse_dtype if reverse and self.reverse_dtype else self.compute_dtype
        return keras.KerasTensor(self.compute_output_shape(inputs.shape, reverse), dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "tie_weights": self.tie_weights,
            "reverse_dtype": self.reverse_dtype,
            "logit_soft_cap": self.logit_soft_cap,
        }
