"""Data and models of the cases in tests/robustness, and when an error is clear."""

import keras
import numpy as np

from singularbayes import FullRank, Normal, layers

RNG = np.random.default_rng(0)
X = RNG.integers(-2, 3, (24, 4)).astype("float32")  # every dtype and every sparse format holds these exactly
Y = RNG.permutation(np.arange(24) % 3)
TARGETS = RNG.normal(size=24)
DRAWS = 5


def small_model(units, loss):
    """Returns a linear model whose weights are all drawn."""
    keras.utils.set_random_seed(units)
    head = layers.Dense(units, posterior=FullRank(eta=0.5, prior=Normal(1.0)), use_bias=False)
    model = keras.Sequential([keras.Input((4,), name="x"), head], name=f"net_{units}")
    model.compile("sgd", loss)
    return model


def is_clear(error: BaseException) -> bool:
    """Whether a message names what is needed and what was given, and is short enough to be read."""
    said = str(error)
    return "need" in said and any(word in said for word in ("got", "holds", "has ")) and len(said) < 1200
