"""Small networks of every kind, with inputs, for the tests of conversion and export."""

import keras
import numpy as np

from singularbayes import Adapter, Deterministic, FullRank, LowRank, RankOne, ValuePredictive, layers

RNG = np.random.default_rng(6)
ROWS = RNG.normal(size=(7, 4)).astype("float32")
IMAGES = RNG.normal(size=(7, 8, 8, 1)).astype("float32")
SEQUENCES = RNG.normal(size=(7, 6, 4)).astype("float32")
IDS = RNG.integers(0, 11, (7, 6)).astype("int32")


def mlp():
    """Every posterior in one network; wide scales, so that draws differ."""
    return keras.Sequential(
        [
            keras.Input((4,), name="rows"),
            layers.Dense(8, "relu", posterior=LowRank(2, eta=0.5), bias_posterior=FullRank()),
            layers.Dense(6, "tanh", posterior=Adapter(2, eta=0.5)),
            layers.Dense(6, "tanh", posterior=Deterministic()),
            layers.Dense(3, posterior=RankOne(eta=0.5)),
        ]
    )


def cnn():
    return keras.Sequential(
        [
            keras.Input((8, 8, 1), name="images"),
            layers.Conv2D(6, 3, activation="relu", posterior=LowRank(2, eta=0.5)),
            keras.layers.BatchNormalization(),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            layers.Dense(3, posterior=FullRank(eta=0.5)),
        ]
    )


def lstm():
    return keras.Sequential(
        [
            keras.Input((6, 4), name="sequences"),
            layers.LSTM(5, posterior=LowRank(2, eta=0.5)),
            layers.Dense(3, posterior=LowRank(2, eta=0.5)),
        ]
    )


def transformer():
    ids = keras.Input((6,), dtype="int32", name="ids")
    x = layers.Embedding(11, 8, mask_zero=True, posterior=LowRank(2, eta=0.5))(ids)
    x = layers.TransformerEncoder(6, 2, posterior=Adapter(2, eta=0.5))(x)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(ids, layers.Dense(3, posterior=LowRank(2, eta=0.5))(x))


NETWORKS = {"mlp": (mlp, ROWS), "cnn": (cnn, IMAGES), "lstm": (lstm, SEQUENCES), "transformer": (transformer, IDS)}


def expected_outputs(p) -> dict[str, np.ndarray]:
    """Returns what an exported graph should output for predictions, by name."""
    if not isinstance(p, ValuePredictive):
        return {"mean": p.mean, "entropy": p.entropy, "mutual_information": p.mutual_information}
    found = {"mean": p.mean, "std": p.std} | ({"noise": p.noise} if isinstance(p.noise, np.ndarray) else {})
    if p.noise is not None:
        found["total_std"] = np.sqrt(p.variance("total"))
        if not p.family.discrete:
            found["lower"], found["upper"] = p.interval(0.95)
    return found
