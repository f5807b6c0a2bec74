"""The paper's text classifier: a small pre-norm Transformer on SST-2. Its network alone, so far."""

from collections.abc import Callable
from dataclasses import dataclass

import keras

from singularbayes import layers
from singularbayes.experiments.training import require_method
from singularbayes.posteriors import Deterministic, FullRank, LowRank, Posterior, RankOne


@dataclass(frozen=True)
class Settings:
    """The paper's values. The published parameter counts have no positions and no final normalisation."""

    vocabulary: int = 30_522
    length: int = 64  # tokens of a sentence in the data; the network takes any
    width: int = 256
    blocks: int = 4
    heads: int = 4
    feed_forward: int = 512
    classes: int = 2
    rank: int = 16
    embedding_rank: int = 16
    per_head: bool = False


# What a method puts on a matrix, given the rank; the published head of two columns has a rank above its size.
METHODS: dict[str, Callable[[int], Posterior]] = {
    "low_rank": lambda rank: LowRank(rank, overcomplete=True),
    "full_rank": lambda rank: FullRank(),
    "rank_one": lambda rank: RankOne(),
    "deterministic": lambda rank: Deterministic(),
}
BAYESIAN_BIAS = ("low_rank", "full_rank")


def network(method: str, settings: Settings = Settings()) -> keras.Model:
    """Returns token ids (length) → logits (classes): embedding, encoder blocks, the first token's vector, a head.

    >>> network("low_rank", Settings(vocabulary=100, blocks=1)).output_shape
    (None, 2)
    """
    require_method(method, METHODS)
    bias = FullRank() if method in BAYESIAN_BIAS else None
    posterior = METHODS[method]
    inner = {"posterior": posterior(settings.rank), "bias_posterior": bias}
    ids = keras.Input((None,), dtype="int32", name="ids")  # any length: what is padding is masked
    embedding = posterior(settings.embedding_rank)
    x = layers.Embedding(settings.vocabulary, settings.width, mask_zero=True, posterior=embedding)(ids)
    block = {"intermediate_dim": settings.feed_forward, "num_heads": settings.heads, "per_head": settings.per_head}
    for i in range(settings.blocks):
        positions = 1 if i == settings.blocks - 1 else None  # the head reads the first token alone
        x = layers.TransformerEncoder(**block, positions=positions, **inner)(x)
    logits = layers.Dense(settings.classes, **inner)(x[:, 0])
    return keras.Model(ids, logits, name=f"sst2_{method}")
