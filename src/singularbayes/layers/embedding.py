"""Tables of vectors, one per token: y = W[ids], and back from vectors to scores of every token."""

from typing import ClassVar

import keras
import numpy as np
from keras import ops
from keras.src.backend import set_keras_mask

from singularbayes.layers.base import BayesianLayer


@keras.saving.register_keras_serializable(package="singularbayes")
class Embedding(BayesianLayer, keras.layers.Embedding):
    """`keras.layers.Embedding` with a posterior over its table, see `BayesianLayer`.

    A token has one vector throughout a draw. The KL covers all rows. An id outside 0 … input_dim − 1 is an error where
    values can be seen (eager calls, `predict`); inside a compiled function its vector is NaN.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = Embedding(1000, 64, posterior=LowRank(4))
    >>> layer(np.array([[1, 5, 1]])).shape == (1, 3, 64)
    True
    """

    matrices: ClassVar = {"embeddings": "posterior"}
    added: tuple[str, ...] = ("posterior",)

    def __init__(self, *args, weights=None, **kwargs):
        super().__init__(*args, **kwargs)
        if weights is not None:
            table = np.asarray(weights[0] if isinstance(weights, list) and len(weights) == 1 else weights)
            if table.shape != (self.input_dim, self.output_dim):
                raise ValueError(
                    f"{type(self).__name__} needs weights of shape {self.input_dim, self.output_dim}; got shape "
                    f"{table.shape}."
                )
            self.build()
            self.posterior.center(table)

    def __call__(self, inputs, *args, **kwargs):
        # Before JAX narrows them to 32 bits, where an id out of range could become another row.
        if isinstance(inputs, np.ndarray) and inputs.dtype.kind in "iu":
            self._require_in_range(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, training=None):
        # 64-bit ids stay: cut to 32 bits, one out of range could become another row.
        ids = inputs if keras.backend.standardize_dtype(inputs.dtype) == "int64" else ops.cast(inputs, "int32")
        self._require_in_range(ids)
        known = ops.logical_and(ids >= 0, ids < self.input_dim)
        rows = self.drawn_kernel(training).rows(ops.where(known, ids, 0))
        rows = ops.where(ops.expand_dims(known, -1), rows, float("nan"))
        return ops.cast(rows, self.compute_dtype)

    def _require_in_range(self, ids):
        values = concrete(ids)
        if values is not None and values.size and (values.min() < 0 or values.max() >= self.input_dim):
            wrong = values[(values < 0) | (values >= self.input_dim)][0]
            raise ValueError(
                f"{type(self).__name__} layer {self.name!r} needs ids from 0 to {self.input_dim - 1}; got the id "
                f"{int(wrong)}."
            )


@keras.saving.register_keras_serializable(package="singularbayes")
class ReversibleEmbedding(Embedding, keras.layers.ReversibleEmbedding):
    """`keras.layers.ReversibleEmbedding` with a posterior over its table.

    Tied weights are one draw in both directions: in a forward pass `layer(ids)` gives rows of the same W that
    `layer(vectors, reverse=True)` multiplies by, as x Wᵀ = (x B) Aᵀ. `tie_weights=False` gives the way back a posterior
    of its own.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = ReversibleEmbedding(100, 16, posterior=LowRank(4))
    >>> layer(layer(np.array([[1, 5, 1]])), reverse=True).shape == (1, 3, 100)
    True
    """

    matrices: ClassVar = {"embeddings": "posterior", "reverse_embeddings": "reverse_posterior"}

    def __init__(self, *args, posterior=None, **kwargs):
        super().__init__(*args, posterior=posterior, **kwargs)
        self.reverse_posterior = None if self.tie_weights else self._posterior(posterior, "reverse_posterior")

    def call(self, inputs, reverse=False, training=None):  # type: ignore[override]
        if not reverse:
            vectors = super().call(inputs, training=training)
            if self.mask_zero:
                set_keras_mask(vectors, ops.not_equal(inputs, 0))
            return vectors
        if self.tie_weights:
            kernel = self.drawn_kernel(training).transposed()
        else:
            kernel = self._draw(self.reverse_posterior, training)
        logits = kernel.apply(ops.cast(inputs, self.reverse_dtype or self.compute_dtype))
        if self.logit_soft_cap is not None:
            logits = self.logit_soft_cap * ops.tanh(logits / self.logit_soft_cap)
        return logits

    def compute_output_spec(self, inputs, reverse=False, training=None):
        dtype = self.reverse_dtype if reverse and self.reverse_dtype else self.compute_dtype
        return keras.KerasTensor(self.compute_output_shape(inputs.shape, reverse), dtype)


def concrete(x) -> np.ndarray | None:
    """Returns the values of an array or an eager tensor, or None inside a compiled or symbolic function."""
    if isinstance(x, np.ndarray):
        return x
    backend = keras.backend.backend()
    if backend == "jax":
        import jax

        if isinstance(x, jax.core.Tracer):
            return None
    elif backend == "tensorflow":
        if not hasattr(x, "numpy"):
            return None
    elif backend == "torch":
        import torch

        if x.device.type == "meta" or torch.compiler.is_compiling():
            return None
    return ops.convert_to_numpy(x)
