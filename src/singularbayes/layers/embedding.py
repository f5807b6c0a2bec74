"""A table of vectors, one per token: y = W[ids]."""

import keras
import numpy as np
from keras import initializers, ops

from singularbayes.layers.base import BayesianLayer, integers


@keras.saving.register_keras_serializable(package="singularbayes")
class Embedding(BayesianLayer):
    """`keras.layers.Embedding` with a posterior over its table.

    A token has one vector throughout a draw. The KL covers all rows.
    An id outside 0 … input_dim − 1 is an error where values can be seen (eager calls, `predict`); inside a compiled
    function its vector is NaN.

    Args:
        posterior: see `BayesianLayer`.

    >>> import numpy as np
    >>> from singularbayes import LowRank
    >>> layer = Embedding(1000, 64, posterior=LowRank(4))
    >>> layer(np.array([[1, 5, 1]])).shape == (1, 3, 64)
    True
    """

    arrays: tuple[str, ...] = ("embeddings",)

    def __init__(
        self,
        input_dim,
        output_dim,
        embeddings_initializer="uniform",
        embeddings_regularizer=None,
        embeddings_constraint=None,
        mask_zero=False,
        weights=None,
        lora_rank=None,
        lora_alpha=None,
        quantization_config=None,
        *,
        posterior=None,
        **kwargs,
    ):
        super().__init__(
            posterior=posterior,
            refused={
                "embeddings_regularizer": embeddings_regularizer,
                "embeddings_constraint": embeddings_constraint,
                "lora_rank": lora_rank,
                "lora_alpha": lora_alpha,
                "quantization_config": quantization_config,
            },
            **kwargs,
        )
        self.input_dim, self.output_dim = integers(type(self).__name__, input_dim=input_dim, output_dim=output_dim)
        self.embeddings_initializer = initializers.get(embeddings_initializer)
        self.mask_zero = mask_zero
        self.supports_masking = mask_zero
        self.autocast = False
        if weights is not None:
            table = np.asarray(weights[0] if isinstance(weights, list) and len(weights) == 1 else weights)
            if table.shape != (input_dim, output_dim):
                raise ValueError(
                    f"{type(self).__name__} needs weights of shape {input_dim, output_dim}; got shape {table.shape}."
                )
            self.build()
            self.posterior.center(table)

    def build(self, input_shape=None):
        if not self.built:
            self._build_posterior(self.posterior, (self.input_dim, self.output_dim), self.embeddings_initializer)

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
        rows = self._kernel(training).rows(ops.where(known, ids, 0))
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

    def compute_mask(self, inputs, mask=None):
        return ops.not_equal(inputs, 0) if self.mask_zero else None

    def compute_output_shape(self, input_shape):
        return (*input_shape, self.output_dim)

    def get_config(self):
        return {
            **super().get_config(),
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "embeddings_initializer": initializers.serialize(self.embeddings_initializer),
            "mask_zero": self.mask_zero,
        }


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
