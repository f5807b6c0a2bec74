"""An SST-2 training step with one seed generator and KL weight for all posteriors, and with one per posterior, in turn.

`training.share_state` stays because of it: without it a step on an H200 takes 1.76 times as long
(`records/shared_state.json`), for 100 more variables go in and out of every step.
"""

import json
import statistics
from unittest import mock

import keras
import numpy as np
from step import Step

import singularbayes as sb
from singularbayes import LowRank, layers

TOKENS, BATCH, NUM_DATA, REPEATS = 64, 64, 67_349, 15


def network() -> keras.Model:
    """Returns the Transformer of the paper, rank 16."""
    ids = keras.Input((TOKENS,), dtype="int32")
    h = layers.Embedding(30_522, 256, mask_zero=True, posterior=LowRank.paper(16))(ids)
    for _ in range(4):
        h = layers.TransformerEncoder(512, num_heads=4, posterior=LowRank.paper(16), bias_posterior=sb.FullRank())(h)
    return keras.Model(ids, layers.Dense(2, posterior=LowRank.paper(2), bias_posterior=sb.FullRank())(h[:, 0]))


def main() -> None:
    """Prints the median time of a step of each, and the median ratio."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(1, 30_522, (BATCH, TOKENS)).astype("int32"), rng.integers(0, 2, BATCH).astype("int32")
    shared = Step(network(), x, y, NUM_DATA)
    with mock.patch("singularbayes.training.elbo.share_state", lambda model: None):
        apart = Step(network(), x, y, NUM_DATA)
    pairs = [(shared.seconds(100, 10), apart.seconds(100, 10)) for _ in range(REPEATS)]
    medians = [1e3 * statistics.median(times) for times in zip(*pairs, strict=True)]
    ratio = statistics.median(two / one for one, two in pairs)
    print(json.dumps({"shared_ms": medians[0], "apart_ms": medians[1], "ratio_apart_over_shared": ratio}))


if __name__ == "__main__":
    main()
