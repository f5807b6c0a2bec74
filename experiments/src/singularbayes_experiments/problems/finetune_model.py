"""The encoder that the experiment `finetune` adapts, as KerasHub builds it, with adapters and a head."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

import singularbayes as sb

SIZES = {"num_layers": 6, "num_heads": 12, "hidden_dim": 384, "intermediate_dim": 1536}


def encoder(weights: Sequence[np.ndarray] | None, vocabulary: int, length: int = 64, **kwargs: Any) -> keras.Model:
    """Returns the KerasHub backbone with these weights, or random ones."""
    from keras_hub.models import BertBackbone

    # cuDNN's attention refuses the mask of padding; Keras would log the error for every layer, and go on without it.
    keras.config.disable_flash_attention()
    backbone = BertBackbone(vocabulary, dropout=0.0, max_sequence_length=length, **{**SIZES, **kwargs})
    if weights is not None:
        backbone.set_weights([np.asarray(array, "float32") for array in weights])
    return backbone


def classifier(backbone: keras.Model, classes: int) -> keras.Model:
    """Returns logits from the mean over the tokens of the last block."""
    mean = keras.layers.GlobalAveragePooling1D(name="mean_of_tokens", dtype="float32")
    pooled = mean(backbone.output["sequence_output"], mask=backbone.input["padding_mask"])
    logits = keras.layers.Dense(classes, name="logits", dtype="float32")(pooled)
    return keras.Model(backbone.input, logits)


def with_adapters(model: keras.Model, rank: int, head: bool = True, **kwargs: Any) -> keras.Model:
    """Returns the model with adapters on the matrices of its blocks and, if wanted, a head with random weights."""
    prior = sb.Anchored(1.0, anchor="random")
    return sb.bayesianize(
        model,
        sb.Adapter(rank, **{"prior": prior, **kwargs}),
        rules={"*embedding*": None, "logits": sb.FullRank(prior=prior) if head else None},
        unsupported="keep",
    )
