"""A posterior is printed as the call that makes it: what is not at its default, and nothing else."""

import keras
import pytest

from singularbayes import Adapter, Deterministic, FullRank, Laplace, LowRank, Normal, RankOne, ScaleMixture, layers

MADE = {
    "LowRank(2)": lambda: LowRank(2),
    "LowRank(2, overcomplete=True, eta=0.5)": lambda: LowRank(2, overcomplete=True, eta=0.5),
    "LowRank(16, prior=Normal(scale=0.3), rho_lr=4.0)": lambda: LowRank(16, prior=Normal(0.3), rho_lr=4),
    "Adapter(8)": lambda: Adapter(8, prior="scale_mixture"),
    "Adapter(8, prior=Laplace(scale=1.0), family='laplace')": lambda: Adapter(8, prior=Laplace(), family="laplace"),
    "FullRank()": lambda: FullRank(prior=ScaleMixture(), name="mine", trainable=False),
    "FullRank(kl_weight=0.1, kl_rows=4)": lambda: FullRank(kl_weight=0.1, kl_rows=4),
    "FullRank(rho_initializer=RandomUniform(minval=-5, maxval=-4))": lambda: FullRank(
        rho_initializer=keras.initializers.RandomUniform(-5, -4)
    ),
    "RankOne()": RankOne,
    "RankOne(form='outer')": lambda: RankOne("outer"),
    "Deterministic()": Deterministic,
    "Deterministic(initializer=HeNormal())": lambda: Deterministic("he_normal"),
}


@pytest.mark.parametrize("call", MADE)
def test_a_posterior_is_printed_as_the_call_that_makes_it(call):
    assert repr(MADE[call]()) == str(MADE[call]()) == call


def test_what_a_layer_holds_is_printed_the_same():
    layer = layers.Dense(3, "relu", posterior=LowRank(2, damping=0.5))
    layer.build((None, 4))
    assert repr(layer.posterior) == "LowRank(2, damping=0.5)"


def test_an_initializer_that_is_a_function_is_printed_by_its_name():
    def wide(shape, dtype=None):
        return keras.ops.ones(shape, dtype)

    assert repr(FullRank(initializer=wide)) == "FullRank(initializer=wide)"
