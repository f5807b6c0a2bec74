"""Our networks and their Keras counterparts, by the names of `shapes.SHAPES`."""

from collections.abc import Callable, Iterable
from functools import partial

import keras
from shapes import SHAPES, Convolution, Headed, Lstm, Mlp, Transformer
from singularbayes_experiments.problems import beijing, reviews

from singularbayes import Deterministic, FullRank, LowRank, Mixture, RankOne, layers

Rivals = dict[str, Callable[[], keras.Model]]
POSTERIORS = ("low_rank", "full_rank", "deterministic")  # of the LSTM
MIXTURES = ("split_4", "repeat_5")  # compared by bench_mixture.py alone


def rivals(name: str) -> Rivals:
    """Returns the builders of a network: "keras" and the posteriors."""
    shape = SHAPES[name]
    match shape:
        case Headed():
            return _headed(shape)
        case Mlp():
            return mlp(shape)
        case Lstm():
            return {"keras": partial(_keras_lstm, shape), **_experiment(beijing.network, POSTERIORS)}
        case Transformer():
            return {"keras": partial(keras_transformer, shape), **_experiment(reviews.network, reviews.METHODS)}
        case Convolution():
            return _convolution(shape)


def _experiment(network: Callable[[str], keras.Model], methods: Iterable[str]) -> Rivals:
    return {method: partial(network, method) for method in methods}


def mlp(shape: Mlp) -> Rivals:
    def build(dense) -> keras.Model:
        last = len(shape.ranks) - 1
        hidden = [dense(n, "relu" if i < last else None, i) for i, n in enumerate(shape.widths[1:])]
        return keras.Sequential([keras.Input((shape.widths[0],)), *hidden])

    def ours(posterior) -> Callable[[], keras.Model]:
        return lambda: build(lambda n, activation, i: layers.Dense(n, activation, posterior=posterior(shape.ranks[i])))

    return {
        "keras": lambda: build(lambda n, activation, i: keras.layers.Dense(n, activation)),
        "low_rank": ours(LowRank.paper),
        "full_rank": ours(lambda rank: FullRank()),
        "rank_one": ours(lambda rank: RankOne()),
        "deterministic": ours(lambda rank: Deterministic()),
        "split_4": ours(lambda rank: Mixture(LowRank.paper(rank), components=4)),
        "repeat_5": ours(lambda rank: Mixture(LowRank.paper(rank), components=5, examples="repeat")),
    }


def _headed(shape: Headed) -> Rivals:
    def build(head) -> keras.Model:
        body = [keras.layers.Dense(n, "relu") for n in shape.widths[1:-1]]
        return keras.Sequential([keras.Input((shape.widths[0],)), *body, head])

    return {
        "keras": lambda: build(keras.layers.Dense(shape.outputs)),
        "low_rank": lambda: build(layers.Dense(shape.outputs, posterior=LowRank(shape.ranks[0]))),
    }


def _convolution(shape: Convolution) -> Rivals:
    def build(layer) -> keras.Model:
        images = keras.Input((shape.size, shape.size, shape.channels))
        return keras.Sequential([images, layer, keras.layers.GlobalAveragePooling2D()])

    return {
        "keras": lambda: build(keras.layers.Conv2D(shape.outputs, 3, padding="same")),
        "low_rank": lambda: build(layers.Conv2D(shape.outputs, 3, padding="same", posterior=LowRank.paper(16))),
    }


def _keras_lstm(shape: Lstm) -> keras.Model:
    lstm = [keras.layers.LSTM(shape.units, return_sequences=True), keras.layers.LSTM(shape.units)]
    return keras.Sequential([keras.Input((shape.hours, shape.features)), *lstm, keras.layers.Dense(shape.outputs)])


class _Block(keras.layers.Layer):
    """The encoder block of Keras's own layers; the last one computes the first token alone, as ours."""

    def __init__(self, shape: Transformer, positions: int | None):
        super().__init__()
        self.supports_masking = True
        self.positions = positions
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-5) for _ in range(2)]
        self.attention = keras.layers.MultiHeadAttention(shape.heads, shape.width // shape.heads)
        self.inner = keras.layers.Dense(shape.feed_forward, "relu")
        self.outer = keras.layers.Dense(shape.width)

    def call(self, x, mask=None):
        n = self.norms[0](x)
        first = slice(self.positions)
        x = x[:, first] + self.attention(n if self.positions is None else n[:, first], n, value_mask=mask)
        return x + self.outer(self.inner(self.norms[1](x)))

    def compute_mask(self, x, mask):
        return None if mask is None else mask[:, : self.positions]


def keras_transformer(shape: Transformer) -> keras.Model:
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(shape.vocabulary, shape.width, mask_zero=True)(ids)
    for i in range(shape.blocks):
        x = _Block(shape, 1 if i == shape.blocks - 1 else None)(x)
    return keras.Model(ids, keras.layers.Dense(shape.outputs)(x[:, 0]))
