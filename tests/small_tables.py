"""Small tables and small settings for the tests of the estimators: few shapes, so that few programs are compiled."""

import keras
import numpy as np

import singularbayes as sb

SMALL = {"max_iter": 30, "learning_rate_init": 0.03, "batch_size": 32, "draws": 20, "random_state": 0}
MLP = {"hidden_layer_sizes": (16,), "rank": 4, "components": 1, **SMALL}


def table(rows: int, seed: int = 0, noise=0.3) -> tuple[np.ndarray, np.ndarray]:
    """Returns features (rows, 3) and targets with normal noise, a number or a function of the features."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3))
    scale = noise(x) if callable(noise) else noise
    return x, np.sin(x[:, 0]) + 0.5 * x[:, 1] + scale * rng.normal(size=rows)


def build(X, y, units=16):
    """A network for the estimators that take a function."""
    hidden = sb.layers.Dense(units, "relu", posterior=sb.LowRank.paper(min(4, X.shape[1])))
    return keras.Sequential([keras.Input(X.shape[1:]), hidden, keras.layers.Dense(y.shape[1])])
