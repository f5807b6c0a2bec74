"""Sentiment of film reviews by a small pre-norm Transformer, and news as out-of-distribution text.

The paper: SST-2, 67,349 phrases to train and 872 sentences to test (the "dev" set), AG News (7,600) as
out-of-distribution text; WordPiece, 64 tokens; 4 blocks of width 256 with 4 heads and 512 inner units, no dropout, the
first token's vector into two logits; rank 16 everywhere, the head included, random biases; damping 0.85 of the low-rank
means, ρ ~ U(−5, −4); full-rank means ~ U(−0.2, 0.2). Adam (deterministic networks: decay 0.01) at 2·10⁻⁴, a cosine to a
hundredth of it, batches of 64, 20 epochs, early stopping after 5; KL weight 0.001 / batches, which is β = 0.064 on the
scale of the ELBO, off for two epochs and full by the fourth; 200 draws. It leaves open the prior (here the mixture of
the other experiments).

Ours: nothing is chosen on the dev set. 435 whole sentences of the training rows are held out with all their phrases
(`phrases.py`) and validate; dev is for the last table. Early stopping watches the loss from the epoch in which the KL
is full, because weights from before had no prior. Rows are left out of training at random until batches are whole: a
smaller last batch would be one more program to compile. Rank-one factors start at 1, not at 1 + U(−0.2, 0.2). Settings
that were chosen on validation are in `sst2.py`.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import keras
import numpy as np

from singularbayes import layers
from singularbayes_experiments import data
from singularbayes_experiments.methods import class_scores, methods, study
from singularbayes_experiments.methods.settings import TrainingSettings
from singularbayes_experiments.methods.stopping import EarlyStop, Resumable
from singularbayes_experiments.methods.study import Arrays, Ask, Scores
from singularbayes_experiments.methods.trainers import Training
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.problems import phrases, text
from singularbayes_experiments.problems.position_embedding import Positions

Part = tuple[np.ndarray, np.ndarray]  # token ids and labels
_ONE = ("low_rank", "low_rank_svd", "full_rank", "rank_one", "deterministic")
METHODS = methods.sentences(*_ONE, "deep_ensemble", "low_rank_ensemble", "low_rank_svd_ensemble", "swag")
PAPER_METHODS = tuple(name for name in METHODS if name != "low_rank_svd_ensemble")  # what runs when no method is given
_SPLIT = 0  # one split for all seeds and methods


@dataclass(frozen=True)
class ReviewSettings(TrainingSettings):
    """The paper's values. The published parameter counts have no positions and no final normalisation.

    `num_train` of the training rows are used, None is all; `num_validation` counts sentences, 0 holds out nothing.
    """

    vocabulary: int = 30_522
    length: int = 64  # tokens of a text in the data; the network takes any
    width: int = 256
    blocks: int = 4
    heads: int = 4
    feed_forward: int = 512
    classes: int = 2
    rank: int = 16
    embedding_rank: int = 16
    per_head: bool = False
    positions: Literal["none", "sinusoidal", "learned"] = "none"
    embedding_scale: float = 1.0
    num_train: int | None = None
    num_validation: int = 435
    bayesian_bias: bool = True
    overcomplete: bool = True  # the published head of two columns has a rank above its size
    pi: float = 0.5
    rho_start: tuple[float, float] | None = (-5.0, -4.0)
    damping: float = 0.85  # of low-rank means alone
    full_rank_start: float | None = 0.2  # means ~ U(−0.2, 0.2); None is Glorot
    rank_one_form: str = "product"
    learning_rate: float = 2e-4
    cosine: bool = True
    cosine_floor: float = 0.01
    weight_decay: float = 0.01  # of deterministic networks alone
    batch_size: int = 64
    epochs: int = 20
    patience: int | None = 5  # epochs; None trains all of them
    beta: float = 0.064
    zero_epochs: int = 2
    warmup: int = 2
    draws: int = 200
    svd_epochs: int = 20
    swag_epochs: int = 20
    swag_rank: int = 20
    swag_rate: float = 0.01


QUICK = ReviewSettings(
    width=64,
    blocks=1,
    feed_forward=128,
    rank=8,
    embedding_rank=8,
    num_train=6_400,
    num_validation=200,
    epochs=6,
    patience=None,
    zero_epochs=1,
    warmup=1,
    learning_rate=2e-3,
    draws=20,
    members=2,
    svd_epochs=2,
    swag_epochs=3,
)


def network(kind: str | Weights, settings: ReviewSettings = ReviewSettings()) -> keras.Model:
    """Returns token ids (length) → logits (classes): embedding, encoder blocks, the first token's vector, a head.

    Args:
        kind: what is put on the weights, by name ("low_rank", "full_rank", "rank_one", "deterministic", "point").

    >>> network("low_rank", ReviewSettings(vocabulary=100, blocks=1)).output_shape
    (None, 2)
    """
    weights = kind if isinstance(kind, Weights) else Weights(kind, settings)
    uniform = settings.full_rank_start if weights.kind == "full_rank" else None

    def inner(rank: int, **options) -> dict:
        start = None if uniform is None else keras.initializers.RandomUniform(-uniform, uniform)
        return {"posterior": weights(rank), "kernel_initializer": start, **options}

    ids = keras.Input((None,), dtype="int32", name="ids")  # any length: what is padding is masked
    table = inner(settings.embedding_rank)
    # Layers have names, the same in every network, so that figures can compare their weights.
    start = {"embeddings_initializer": table.pop("kernel_initializer") or "uniform", "name": "embedding"}
    x = layers.Embedding(settings.vocabulary, settings.width, mask_zero=True, **start, **table)(ids)
    if settings.positions != "none" or settings.embedding_scale != 1.0:
        x = Positions(settings.positions, settings.length, settings.embedding_scale)(x)
    block = {"intermediate_dim": settings.feed_forward, "num_heads": settings.heads, "per_head": settings.per_head}
    for i in range(settings.blocks):
        positions = 1 if i == settings.blocks - 1 else None  # the head reads the first token alone
        matrices = inner(settings.rank, bias_posterior=weights.bias())
        x = layers.TransformerEncoder(**block, positions=positions, name=f"block_{i + 1}", **matrices)(x)
    logits = layers.Dense(settings.classes, name="head", **inner(settings.rank, bias_posterior=weights.bias()))(x[:, 0])
    return keras.Model(ids, logits, name=f"sst2_{weights.kind}")


@functools.cache
def encoded(length: int) -> tuple[list[list[int]], np.ndarray, np.ndarray, Part, np.ndarray]:
    """Returns pieces, token ids and labels of the training rows, the dev sentences, and the news; once a process."""
    sentences, pieces = data.sst2(), text.bert()
    rows, labels = sentences.train
    dev = pieces.encode(sentences.dev[0], length), sentences.dev[1]
    return pieces.ids(rows), pieces.encode(rows, length), labels, dev, pieces.encode(data.ag_news().texts, length)


@functools.cache
def _split(length: int, sentences: int) -> phrases.PhraseSplit:
    return phrases.split(encoded(length)[0], sentences, _SPLIT)


class Reviews(study.Comparison):
    """SST-2 with AG News as out-of-distribution text."""

    name = "sst2"
    methods: Mapping[str, str] = METHODS
    padding = text.PADDING

    def __init__(self, paper: Mapping[str, ReviewSettings]):
        self.paper = paper

    def network(self, weights: Weights, settings: ReviewSettings) -> keras.Model:
        return network(weights, settings)

    def with_rank(self, settings: ReviewSettings, rank: int) -> ReviewSettings:
        return replace(settings, rank=rank, embedding_rank=rank)

    def trained(self, settings: ReviewSettings) -> Part:
        """Returns the rows that networks are trained on, whole batches of them."""
        _, ids, labels, _, _ = encoded(settings.length)
        held = settings.num_validation
        rows = _split(settings.length, held).train if held else np.arange(len(labels))
        wanted = len(rows) if settings.num_train is None else settings.num_train
        if not settings.batch_size <= wanted <= len(rows):
            raise ValueError(
                f"sst2 needs batch_size <= num_train <= {len(rows)}, the rows that are not held out; got num_train="
                f"{settings.num_train} and batch_size={settings.batch_size}."
            )
        used = np.random.default_rng(_SPLIT).permutation(rows)[: wanted - wanted % settings.batch_size]
        return ids[used], labels[used]

    def held_out(self, settings: ReviewSettings) -> Part:
        """Returns the whole sentences that validate."""
        if not settings.num_validation:
            raise ValueError(
                "sst2 needs num_validation > 0 for tuning runs and for early stopping; got num_validation=0. Set "
                "patience=None to train on all rows."
            )
        _, ids, labels, _, _ = encoded(settings.length)
        rows = _split(settings.length, settings.num_validation).sentences
        return ids[rows], labels[rows]

    def training(self, settings: ReviewSettings) -> Training:
        watched = None if settings.patience is None else self.held_out(settings)
        x, y = self.trained(settings)
        return Training(x, y, validation=watched, callbacks=_early_stop, padding=self.padding)

    def validated(self, ask: Ask, settings: ReviewSettings) -> Scores:
        x, y = self.held_out(settings)
        return study.prefixed("validation", class_scores.quality(ask({"validation": x})["validation"], y))

    def tested(self, ask: Ask, settings: ReviewSettings) -> tuple[Scores, Arrays]:
        *_, (x_dev, y_dev), news = encoded(settings.length)
        x, y = self.held_out(settings) if settings.num_validation else (x_dev[:0], y_dev[:0])
        held, test, ood = ask({"validation": x, "test": x_dev, "ag_news": news}).values()
        found = class_scores.of_test(test, y_dev, ood)
        arrays = class_scores.stored("test", test, y_dev) | class_scores.stored("ag_news", ood)
        if settings.num_validation:
            found |= class_scores.recalibrated(test, y_dev, held, y)
            found |= study.prefixed("validation", class_scores.quality(held, y))
            arrays |= class_scores.stored("validation", held, y)
        return found, arrays


def _early_stop(settings: ReviewSettings) -> list[Resumable]:
    if settings.patience is None:
        return []
    return [_StopByWholeLoss("val_loss", settings.patience, start=settings.zero_epochs + settings.warmup)]


class _StopByWholeLoss(EarlyStop):
    """Watches the loss of validation data with the KL, as the paper is taken to do."""

    def on_epoch_end(self, epoch, logs=None):
        logs = logs or {}
        whole = logs["val_loss"] + logs.get("kl", 0.0) * logs.get("kl_weight", 0.0)  # deterministic networks have none
        super().on_epoch_end(epoch, {**logs, "val_loss": whole})
