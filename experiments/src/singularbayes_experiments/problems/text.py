"""Sentiment of film reviews (SST-2) by a small pre-norm Transformer, and news as out-of-distribution text.

The paper: 67,349 phrases to train and 872 sentences to test (the "dev" set), AG News (7,600) as out-of-distribution
text; WordPiece, 64 tokens; 4 blocks of width 256 with 4 heads and 512 inner units, no dropout, the first token's vector
into two logits; rank 16 everywhere, also of the head, random biases; damping 0.85 of low-rank means, ρ ~ U(−5, −4);
full-rank means ~ U(−0.2, 0.2). Adam (deterministic networks: decay 0.01) at 2·10⁻⁴, a cosine to a hundredth of it,
batches of 64, 20 epochs, early stopping after 5; KL weight 0.001 / batches, which is β = 0.064 on the scale of the
ELBO, off for two epochs and full by the fourth; 200 draws. It leaves open the prior (here the mixture of the other
experiments). The published parameter counts have no positions and no final normalisation.

Ours: nothing is chosen on the dev set. 435 whole sentences of the training rows are held out with all their phrases and
validate. Early stopping watches the loss from the epoch in which the KL is full, because weights from before had no
prior. Rows are left out of training at random until batches are whole.
"""

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import keras
import numpy as np

from singularbayes import layers
from singularbayes.checks import require_package
from singularbayes_experiments import data, scores
from singularbayes_experiments.methods import Settings, Weights
from singularbayes_experiments.problems.base import TUNING, Arrays, Data, Part, Predict, Problem, Scores

PADDING = 0  # the id of [PAD]
CLASSES = 2
PERTURBED = 500  # training texts that are perturbed for the proxy OOD score
_LONG = 20  # pieces that these have, as whole sentences have, which validate
_FIRST_WORD = 999  # of the vocabulary: what stands before are marks and letters
_SPLIT = 0  # one split for all seeds and methods
Tokens = tuple[int, ...]


@dataclass(frozen=True)
class TextSettings(Settings):
    """The paper's values.

    Args:
        length: tokens of a text in the data; the network takes any. Training texts are cut to `train_length`.
        ranks: of the table of words, of the matrices of the blocks, and of the head.
        positions, embedding_scale: what is added to the vectors of the tokens, and their factor.
        num_train: training rows that are used; None is all.
        num_validation: sentences that are held out; 0 trains on all rows.
        mean_start: means of matrices start uniform between these; None leaves them to the posterior.
        patience: epochs without a better validation loss after which training ends; None trains all epochs.
    """

    vocabulary: int = 30_522
    length: int = 64
    train_length: int = 64
    width: int = 256
    blocks: int = 4
    heads: int = 4
    feed_forward: int = 512
    ranks: tuple[int, ...] = (16, 16, 16)
    positions: Literal["none", "sinusoidal"] = "none"
    embedding_scale: float = 1.0
    num_train: int | None = None
    num_validation: int = 435
    bayesian_bias: bool = True
    overcomplete: bool = True  # the published head of two columns has a rank above its size
    mean_start: tuple[float, float] | None = None
    rho_start: tuple[float, float] | None = (-5.0, -4.0)
    damping: float = 0.85
    rank_one_form: str = "product"
    learning_rate: float = 2e-4
    cosine: Literal["step", "epoch"] | None = "step"
    cosine_floor: float = 0.01
    weight_decay: float = 0.01
    batch_size: int = 64
    epochs: int = 20
    patience: int | None = 5
    beta: float = 0.064
    zero_epochs: int = 2
    warmup: int = 2
    draws: int = 200
    svd_epochs: int = 20
    svd_decay: float = 0.01


class Text(Problem):
    Settings = TextSettings

    def data(self, task, seed, settings: TextSettings, stage) -> Data:
        """One split serves all seeds; tuning sees perturbed training texts, results the dev set and the news."""
        held = settings.num_validation
        if not held and (stage == TUNING or settings.patience is not None):
            raise ValueError("sst2 must have num_validation > 0 in tuning and for early stopping (patience); got 0.")
        x, y, rows, validating = training_texts(settings.length, held)
        size = settings.batch_size
        wanted = len(rows) if settings.num_train is None else settings.num_train
        if not size <= wanted <= len(rows):
            raise ValueError(f"num_train must be between batch_size={size} and {len(rows)}; got {wanted}.")
        used = np.random.default_rng(_SPLIT).permutation(rows)[: wanted - wanted % size]
        train = Part(x[used, : settings.train_length], y[used])
        validation = Part(x[validating], y[validating]) if held else None
        if stage == TUNING:
            return Data(train, validation, ood={"perturbed": perturbed(x[used], settings.vocabulary)})
        (texts, labels), news = data.sst2().dev, data.ag_news().texts
        dev = Part(encode(texts, settings.length), labels.astype("int32"))
        return Data(train, validation, dev, {"ag_news": encode(news, settings.length)})

    def network(self, weights: Weights, settings: TextSettings) -> keras.Model:
        """Returns token ids → logits: a table of words, encoder blocks, the first token's vector, a head."""
        table, matrices, head = settings.ranks

        def options(rank: int) -> dict:
            start = None if settings.mean_start is None else keras.initializers.RandomUniform(*settings.mean_start)
            return {"posterior": weights(rank), "kernel_initializer": start, "bias_posterior": weights.bias()}

        ids = keras.Input((None,), dtype="int32", name="ids")
        start = options(table)["kernel_initializer"] or "uniform"
        words = {"mask_zero": True, "embeddings_initializer": start, "posterior": weights(table), "name": "embedding"}
        x = layers.Embedding(settings.vocabulary, settings.width, **words)(ids)
        if settings.positions != "none" or settings.embedding_scale != 1.0:
            longest = settings.length if settings.positions == "sinusoidal" else 0
            x = Positions(longest, settings.embedding_scale)(x)
        for i in range(1, settings.blocks + 1):
            block = {"num_heads": settings.heads, "name": f"block_{i}", **options(matrices)}
            first = 1 if i == settings.blocks else None  # the head reads the first token alone
            x = layers.TransformerEncoder(settings.feed_forward, positions=first, **block)(x)
        return keras.Model(ids, layers.Dense(CLASSES, name="head", **options(head))(x[:, 0]))

    def callbacks(self, settings: TextSettings) -> list[keras.callbacks.Callback]:
        if settings.patience is None:
            return []
        full = settings.zero_epochs + settings.warmup
        options = {"mode": "min", "restore_best_weights": True, "start_from_epoch": full}
        return [keras.callbacks.EarlyStopping("val_loss", patience=settings.patience, **options)]

    def uses(self, settings: TextSettings) -> list[int]:
        """Returns the uses of one token: words are looked up."""
        return [0] + [1] * (6 * settings.blocks + 1)

    def score(self, predict: Predict, data: Data, settings, stage) -> tuple[Scores, Arrays]:
        known, held = data.train.y, data.validation
        validation = None if held is None else (predict(held.x), held.y)
        if data.test is None:
            assert validation is not None
            return scores.class_tuning(*validation, predict(data.ood["perturbed"]), known), {}
        test, news = predict(data.test.x), predict(data.ood["ag_news"])
        found = scores.class_result(test, data.test.y, {"ag_news": news}, known, validation)
        found |= {name.removeprefix("ag_news/"): value for name, value in found.items()}
        if "nll" not in found:
            return found, {}
        arrays = scores.class_arrays(test, data.test.y)
        for name in ("entropy", "mutual_information") if test.num_draws > 1 else ("entropy",):
            short = "mi" if name == "mutual_information" else name
            values = {f"test_{short}": getattr(test, name), f"ag_news_{short}": getattr(news, name)}
            arrays |= scores.histograms(values)
        return found, arrays


@functools.lru_cache(maxsize=1)
def training_texts(length: int, sentences: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns token ids and labels of all training rows, the places of those that train and of those that validate."""
    texts, labels = data.sst2().train
    train, validation = np.arange(len(texts)), np.arange(0)
    if sentences:
        found = split(pieces(texts), sentences, _SPLIT)
        train, validation = found.train, found.sentences
    return encode(texts, length), labels.astype("int32"), train, validation


def perturbed(ids: np.ndarray, vocabulary: int, seed: int = 0) -> np.ndarray:
    """Returns long training texts with other pieces: of half of them those of other texts, of half any words.

    The marks at both ends and the number of pieces stay.
    """
    rng = np.random.default_rng(seed)
    found = ids[(ids != PADDING).sum(axis=1) >= min(_LONG, ids.shape[1] // 2)][:PERTURBED].copy()
    last = (found != PADDING).sum(axis=1) - 1
    places = np.arange(found.shape[1])[None]
    inside = (places > 0) & (places < last[:, None])
    mixed, random_words = inside.copy(), inside.copy()
    mixed[len(found) // 2 :], random_words[: len(found) // 2] = False, False
    found[mixed] = rng.permutation(found[inside])[: mixed.sum()]
    found[random_words] = rng.integers(min(_FIRST_WORD, vocabulary // 2), vocabulary, random_words.sum())
    return found


# -- texts as token ids ------------------------------------------------------------------------------------------------


@functools.cache
def _tokenizer():
    """Returns what splits text into WordPieces of the vocabulary of bert-base-uncased, in lower case."""
    tokenizers = require_package("tokenizers", "", "Text", "singularbayes-experiments")
    places = {word: place for place, word in enumerate(data.bert_vocab())}
    return tokenizers.BertWordPieceTokenizer(places, lowercase=True)


def pieces(texts: Sequence[str]) -> list[list[int]]:
    """Returns the ids of the pieces of every text, however many they are."""
    return [found.ids for found in _tokenizer().encode_batch(list(texts), add_special_tokens=False)]


def encode(texts: Sequence[str], length: int) -> np.ndarray:
    """Returns [CLS], the first length − 2 pieces, [SEP] and padding of every text, (texts, length) int32."""
    first, last = (_tokenizer().token_to_id(mark) for mark in ("[CLS]", "[SEP]"))
    encoded = np.full((len(texts), length), PADDING, "int32")
    for row, found in zip(encoded, pieces(texts), strict=True):
        marked = [first, *found[: length - 2], last]
        row[: len(marked)] = marked
    return encoded


@keras.saving.register_keras_serializable(package="singularbayes")
class Positions(keras.layers.Layer):
    """x (…, length, width) times `scale`, plus the sines of Vaswani et al. (2017) of the first `longest` positions.

    >>> keras.ops.convert_to_numpy(Positions(4, 1.0)(np.zeros((1, 2, 4)))).round(3)
    array([[[0.   , 1.   , 0.   , 1.   ],
            [0.841, 0.54 , 0.01 , 1.   ]]], dtype=float32)
    """

    def __init__(self, longest, scale, **kwargs):
        super().__init__(**kwargs)
        self.longest, self.scale, self.supports_masking = longest, scale, True

    def call(self, inputs):
        scaled = self.scale * inputs
        if not self.longest:
            return scaled
        table = keras.ops.convert_to_tensor(sines(self.longest, inputs.shape[-1]))
        return scaled + keras.ops.cast(table, scaled.dtype)[: keras.ops.shape(inputs)[-2]]

    def compute_output_shape(self, input_shape):
        return input_shape

    def get_config(self):
        return {**super().get_config(), "longest": self.longest, "scale": self.scale}


def sines(length: int, width: int) -> np.ndarray:
    """Returns sin(p / 10000^(2i/width)) in column 2i and the cosine beside it, (length, width)."""
    angles = np.arange(length)[:, None] / 10_000 ** (2 * np.arange(-(-width // 2)) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(length, -1)[:, :width].astype("float32")


# -- whole sentences that are held out ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class PhraseSplit:
    """Places of rows of a treebank. A random slice of them would leak: most of its phrases occur inside other rows.

    `train` and `held_out` have no row of one inside a row of the other. `sentences` are those of `held_out` that are in
    no other row at all. Phrases that occur on both sides are in neither.
    """

    train: np.ndarray
    held_out: np.ndarray
    sentences: np.ndarray


def split(rows: Sequence[Sequence[int]], sentences: int, seed: int = 0) -> PhraseSplit:
    """Returns a split that holds out this many whole sentences with their phrases.

    A sentence is a row that is no part of another; a phrase is a part, of whichever sentences it stands in.

    >>> rows = [[1, 2, 3], [1, 2], [4, 2, 5], [2], [5], [6, 7]]
    >>> found = split(rows, sentences=1, seed=1)
    >>> found.sentences, found.held_out, found.train  # [2] is in [1, 2, 3] too
    (array([2]), array([2, 4]), array([0, 1, 5]))
    """
    tokens = [tuple(row) for row in rows]
    known = set(tokens)
    whole = _whole_sentences(known)
    if not 0 < sentences < len(whole):
        raise ValueError(f"split needs 0 < sentences < {len(whole)}, which there are; got sentences={sentences!r}.")
    place = {row: i for i, row in reversed(list(enumerate(tokens)))}
    whole.sort(key=place.__getitem__)  # the order of a set is not the same in every process
    chosen = set(np.random.default_rng(seed).choice(len(whole), sentences, replace=False).tolist())
    held = _parts((row for i, row in enumerate(whole) if i in chosen), known)
    kept = _parts((row for i, row in enumerate(whole) if i not in chosen), known)
    train, held_out = (
        np.array([i for i, row in enumerate(tokens) if row in own]) for own in (kept - held, held - kept)
    )
    return PhraseSplit(train, held_out, np.array(sorted(place[whole[i]] for i in chosen)))


def _whole_sentences(known: set[Tokens]) -> list[Tokens]:
    """Returns the rows that are no part of another; the parts of a part are parts of the whole."""
    found: list[Tokens] = []
    inside: set[Tokens] = set()
    for row in sorted(known, key=len, reverse=True):
        if row not in inside:
            found.append(row)
            inside |= _parts([row], known) - {row}
    return found


def _parts(rows: Iterable[Tokens], known: set[Tokens]) -> set[Tokens]:
    """Returns the known rows that stand in these, themselves among them."""
    found = set()
    for row in rows:
        found |= {row[i:j] for i in range(len(row)) for j in range(i + 1, len(row) + 1)} & known
    return found
