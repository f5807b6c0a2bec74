"""The paper's parameter counts, exactly."""

import math

import keras
import pytest

from singularbayes import Deterministic, FullRank, LowRank, RankOne, layers

BAYES = FullRank()


def _count(sizes, posteriors, bias=None):
    """Returns the trainable numbers of a network of Dense layers, a posterior each."""
    pairs = zip(sizes[1:], posteriors, strict=True)
    model = keras.Sequential([layers.Dense(units, posterior=p, bias_posterior=bias) for units, p in pairs])
    model.build((None, sizes[0]))
    return sum(math.prod(weight.shape) for weight in model.trainable_weights)


TOY, MNIST, MIMIC = (1, 100, 100, 1), (784, 1200, 1200, 10), (44, 128, 128, 1)
COUNTS = {
    "toy_full": (TOY, [FullRank()] * 3, BAYES, 20_802),
    "toy_lowrank": (TOY, [FullRank(), LowRank(16), FullRank()], BAYES, 7_202),
    "mnist_full": (MNIST, [FullRank()] * 3, None, 4_788_010),
    "mnist_lowrank": (MNIST, [LowRank(25), LowRank(25), LowRank(10)], None, 245_810),
    "mnist_rank1": (MNIST, [RankOne()] * 3, None, 2_406_398),
    "mimic_det": (MIMIC, [Deterministic()] * 3, None, 22_401),
    "mimic_full": (MIMIC, [FullRank()] * 3, BAYES, 44_802),
    "mimic_lowrank_head_rank1": (MIMIC, [LowRank(15), LowRank(15), LowRank(1)], BAYES, 13_612),
    "mimic_rank1": (MIMIC, [RankOne(), RankOne(), Deterministic()], None, 23_257),
}


@pytest.mark.parametrize("name", COUNTS)
def test_a_network_has_the_published_number_of_trainable_parameters(name, vectors):
    sizes, posteriors, bias, count = COUNTS[name]
    assert _count(sizes, posteriors, bias) == count == vectors["parameter_counts"]["expected"][name]
