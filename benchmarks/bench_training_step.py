"""One training step of low-rank, full-rank, rank-one and point networks against the Keras network of the same shape.

Times `fit` as a user runs it: Adam, the loss with its KL, compiled, data in memory. `--only mlp` takes one group.
"""

from collections.abc import Callable
from dataclasses import dataclass

import keras
import numpy as np
from cyclopts import App
from interleaved import ratio, report, seconds, summary

from singularbayes import FullRank, LowRank, RankOne, layers, set_kl
from singularbayes.experiments import beijing, sst2

app = App(help=__doc__)
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Network:
    """Networks of one shape, one a rival; a repeat is one epoch of `steps` batches."""

    rivals: dict[str, Callable[[], keras.Model]]
    inputs: Callable[[int], np.ndarray]
    batch: int
    steps: int
    goals: dict[str, float | None]
    outputs: int = 10


def mlp(widths: tuple[int, ...], ranks: tuple[int, ...]) -> dict[str, Callable[[], keras.Model]]:
    """Returns builders of dense ReLU networks."""

    def build(dense) -> keras.Model:
        last = len(ranks) - 1
        hidden = [dense(n, "relu" if i < last else None, i) for i, n in enumerate(widths[1:])]
        return keras.Sequential([keras.Input((widths[0],)), *hidden])

    return {
        "keras": lambda: build(lambda n, activation, i: keras.layers.Dense(n, activation)),
        "low_rank": lambda: build(lambda n, activation, i: layers.Dense(n, activation, posterior=LowRank(ranks[i]))),
        "full_rank": lambda: build(lambda n, activation, i: layers.Dense(n, activation, posterior=FullRank())),
        "rank_one": lambda: build(lambda n, activation, i: layers.Dense(n, activation, posterior=RankOne())),
    }


def _keras_lstm() -> keras.Model:
    lstm = [keras.layers.LSTM(64, return_sequences=True), keras.layers.LSTM(64)]
    return keras.Sequential([keras.Input((24, 15)), *lstm, keras.layers.Dense(1)])


class _Block(keras.layers.Layer):
    """The encoder block of Keras's own layers."""

    def __init__(self, settings: sst2.Settings):
        super().__init__()
        self.supports_masking = True
        self.norms = [keras.layers.LayerNormalization(epsilon=1e-5) for _ in range(2)]
        self.attention = keras.layers.MultiHeadAttention(settings.heads, settings.width // settings.heads)
        self.inner = keras.layers.Dense(settings.feed_forward, "relu")
        self.outer = keras.layers.Dense(settings.width)

    def call(self, x):
        n = self.norms[0](x)
        x = x + self.attention(n, n)
        return x + self.outer(self.inner(self.norms[1](x)))


def _keras_transformer() -> keras.Model:
    settings = sst2.Settings()
    ids = keras.Input((settings.length,), dtype="int32")
    x = keras.layers.Embedding(settings.vocabulary, settings.width, mask_zero=True)(ids)
    for _ in range(settings.blocks):
        x = _Block(settings)(x)
    return keras.Model(ids, keras.layers.Dense(settings.classes)(x[:, 0]))


def _convolution(layer) -> keras.Model:
    return keras.Sequential([keras.Input((28, 28, 128)), layer, keras.layers.GlobalAveragePooling2D()])


def _normal(*shape: int) -> Callable[[int], np.ndarray]:
    return lambda n: RNG.normal(size=(n, *shape)).astype("float32")


NETWORKS = {
    "mlp 784-1200-1200-10": Network(
        mlp((784, 1200, 1200, 10), (25, 25, 10)),
        _normal(784),
        batch=128,
        steps=20,
        goals={"low_rank / keras": 0.45, "low_rank / full_rank": 0.06, "rank_one / keras": None},
    ),
    "mlp 44-128-128-1": Network(
        mlp((44, 128, 128, 1), (15, 15, 1)),
        _normal(44),
        batch=64,
        steps=200,
        goals={"low_rank / keras": 1.4, "low_rank / full_rank": None, "rank_one / keras": None},
        outputs=1,
    ),
    "lstm 2x64 on 24x15": Network(
        {
            "keras": _keras_lstm,
            "low_rank": lambda: beijing.network("low_rank"),
            "full_rank": lambda: beijing.network("full_rank"),
        },
        _normal(24, 15),
        batch=64,
        steps=40,
        goals={"low_rank / keras": 1.2, "low_rank / full_rank": None},
        outputs=1,
    ),
    "sst2 transformer": Network(
        {"keras": _keras_transformer, "low_rank": lambda: sst2.network("low_rank")},
        lambda n: RNG.integers(1, 30_522, (n, 64)).astype("int32"),
        batch=64,
        steps=2,
        goals={"low_rank / keras": 0.8},
        outputs=2,
    ),
    "conv2d 3x3 128-128": Network(
        {
            "keras": lambda: _convolution(keras.layers.Conv2D(128, 3, padding="same")),
            "low_rank": lambda: _convolution(layers.Conv2D(128, 3, padding="same", posterior=LowRank(16))),
        },
        _normal(28, 28, 128),
        batch=16,
        steps=4,
        goals={"low_rank / keras": 0.7},
        outputs=128,
    ),
}


def trainer(network: Network, build: Callable[[], keras.Model]) -> Callable[[], object]:
    """Returns a function that trains one epoch."""
    keras.utils.set_random_seed(0)
    examples = network.batch * network.steps
    x = network.inputs(examples)
    if network.outputs == 1:
        loss, y = keras.losses.MeanSquaredError(), RNG.normal(size=(examples, 1)).astype("float32")
    else:
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        y = RNG.integers(0, network.outputs, examples).astype("int32")
    model = build()
    model.compile(keras.optimizers.Adam(), loss)
    set_kl(model, num_data=examples)
    return lambda: model.fit(x, y, batch_size=network.batch, epochs=1, verbose=0)


@app.default
def main(only: str = "", repeats: int = 15) -> None:
    """Measures every network whose name contains `only`."""
    results = {}
    for name, network in NETWORKS.items():
        if only in name:
            rivals = {rival: trainer(network, build) for rival, build in network.rivals.items()}
            times = seconds(rivals, repeats, label=name)
            ratios = {pair: (ratio(times, *pair.split(" / ")), goal) for pair, goal in network.goals.items()}
            results[name] = {"steps": summary(times, network.steps), "ratios": ratios}
    report("training_step" + (f"_{only}" if only else ""), results)


if __name__ == "__main__":
    app()
