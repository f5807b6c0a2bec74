"""Posteriors as values: how many parameters they have, their config, their text, and the arguments they refuse."""

import copy
import pickle
import re

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import (
    JAX_FIRST,
    POSTERIORS,
    RANDOM,
    TORCH_FIRST,
    built,
    stirred,
)

from singularbayes import (
    Adapter,
    AdaptiveLowRank,
    Anchored,
    Deterministic,
    FullRank,
    KLSchedule,
    Laplace,
    LowRank,
    Mixture,
    Normal,
    RankOne,
    ScaleMixture,
    layers,
    posteriors,
)

pytestmark = [pytest.mark.backend, JAX_FIRST, TORCH_FIRST]


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (lambda: LowRank(2), 2 * 2 * (5 + 4)),
        (lambda: Adapter(2), 2 * 2 * (5 + 4)),
        (FullRank, 2 * 5 * 4),
        (RankOne, 5 * 4 + 2 * (5 + 4)),
        (Deterministic, 5 * 4),
    ],
)
def test_a_posterior_has_as_many_parameters_as_its_formula_says(make, count):
    assert sum(np.prod(weight.shape) for weight in built(make()).trainable_weights) == count


ARGUMENTS = {
    "prior": Normal(0.3),
    "eta": 0.05,
    "damping": 0.55,
    "initializer": "he_uniform",
    "rho_initializer": keras.initializers.RandomUniform(-5, -4, seed=1),
    "rho_lr": 50.0,
    "kl_weight": 1e-3,
}


@pytest.mark.parametrize("name", POSTERIORS)
def test_a_posterior_comes_back_equal_from_its_config(name):
    arguments = ARGUMENTS if name in RANDOM else {"initializer": "he_uniform"}
    posterior = POSTERIORS[name](**arguments, name="mine")
    config = posterior.get_config()
    assert type(posterior).from_config(config).get_config() == config
    for counterpart in (posteriors.get_posterior(posterior), posteriors.get_posterior(posteriors.serialize(posterior))):
        assert counterpart.get_config() == {**config, "name": "posterior"}


NAMED = {
    8: "LowRank(8)",
    np.int64(8): "LowRank(8)",
    "low_rank": f"LowRank({posteriors.DEFAULT_RANK})",
    "mixture": f"Mixture(LowRank({posteriors.DEFAULT_RANK}), components=4)",
    "paper": f"LowRank(16, prior={ScaleMixture()!r}, eta=0.1, start='independent', loc_lr=1.0)",
    "adaptive_low_rank": "AdaptiveLowRank()",
    "adapter": "Adapter(16)",
    "full_rank": "FullRank()",
    "rank_one": "RankOne()",
    "deterministic": "Deterministic()",
}


def test_a_rank_or_a_name_stands_for_a_posterior():
    assert {given: repr(posteriors.get_posterior(given)) for given in NAMED} == NAMED
    assert {posteriors.get_posterior(given, "mine").name for given in NAMED} == {"mine"}
    assert repr(Mixture(8, components=2)) == "Mixture(LowRank(8), components=2)"
    assert repr(Mixture("low_rank")) == repr(posteriors.get_posterior("mixture"))


def test_a_class_for_a_posterior_is_told_how_to_make_one():
    with pytest.raises(ValueError, match=r"got the class LowRank\. Make one: LowRank\(32\)\."):
        posteriors.get_posterior(LowRank)


@pytest.mark.parametrize("bad", ["lowrank", "", None, 0, -3, 2.0, True, [8]])
def test_what_stands_for_no_posterior_is_refused_with_what_does(bad):
    known = r"LowRank\(32\), an integer rank >= 1, or one of \['adapter', .*'low_rank', 'mixture', 'paper', .*\]; got "
    for make, name in ((posteriors.get_posterior, "posterior"), (Mixture, "Mixture")):
        with pytest.raises(ValueError, match=f"{name} needs a Posterior such as {known}{re.escape(repr(bad))}"):
            make(bad)


@pytest.mark.parametrize("make", [LowRank, Adapter])
@pytest.mark.parametrize("rank", [0, -1, 1.5, 2.0, True, "2", None])
def test_a_rank_that_is_not_an_integer_above_0_is_refused(rank, make):
    with pytest.raises(ValueError, match=rf"{make.__name__} needs rank to be an integer >= 1; got rank={rank!r}"):
        make(rank)


LOWERED = {
    "LowRank(16 → 4)": lambda: LowRank(16),
    "LowRank(3)": lambda: LowRank(3),
    "LowRank(16)": lambda: LowRank(16, overcomplete=True),
    "Adapter(16 → 4)": lambda: Adapter(16),
    "AdaptiveLowRank(4)": lambda: AdaptiveLowRank(16),
    "Mixture of 2 LowRank(16 → 4)": lambda: Mixture(16, components=2),
    "Mixture of 2 AdaptiveLowRank(4)": lambda: Mixture("adaptive_low_rank", components=2),
    "FullRank()": FullRank,
}


@pytest.mark.parametrize("label", LOWERED)
def test_a_rank_above_both_sides_is_lowered_to_them_and_requested_as_it_was(label):
    posterior = LOWERED[label]()
    asked = posterior.get_config()
    assert posterior.effective_rank is None
    built(posterior)  # 5 × 4
    rank = posterior.effective_rank
    assert rank == {"LowRank(3)": 3, "LowRank(16)": 16, "FullRank()": None}.get(label, 4)
    assert posterior.shape == (5, 4) and posterior.label(rank) == label
    assert posterior.get_config() == asked  # with the rank that was requested
    if rank is not None:
        trained = sum(np.prod(weight.shape) for weight in posterior.trainable_weights)
        assert trained == posterior.components * 2 * rank * (5 + 4)


def test_a_rank_above_both_sides_can_be_asked_for():
    posterior = stirred(LowRank(6, overcomplete=True))
    assert posterior.ab.shape == (5 + 4, 6)
    a, b = np.split(ops.convert_to_numpy(posterior.ab.loc), [5])
    np.testing.assert_allclose(ops.convert_to_numpy(posterior.mean().dense()), a @ b.T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [FullRank, RankOne, lambda **k: LowRank(2, **k)], ids=["full", "one", "low"])
@pytest.mark.parametrize("name", ["eta", "damping", "rho_lr"])
@pytest.mark.parametrize("bad", [0, -0.1, float("nan"), float("inf"), "1", None, True])
def test_a_multiple_that_is_not_a_positive_number_is_refused(make, name, bad):
    if (name, bad) == ("eta", None) and isinstance(make(), LowRank):
        return  # that of the class
    with pytest.raises(ValueError, match=rf"needs {name} > 0 and finite; got {name}={bad!r}"):
        make(**{name: bad})


@pytest.mark.parametrize("bad", [-1e-3, float("nan"), float("inf")])
def test_a_negative_or_infinite_kl_weight_is_refused(bad):
    with pytest.raises(ValueError, match=rf"FullRank needs kl_weight >= 0 and finite; got kl_weight={bad!r}"):
        FullRank(kl_weight=bad)
    with pytest.raises(ValueError, match=rf"needs kl_weight >= 0 and finite; got kl_weight={bad!r}"):
        FullRank(name="mine").set_kl_weight(bad)


def test_an_unknown_form_of_rank_one_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of \['outer', 'product', 'scale'\]; got form='sum'"):
        RankOne("sum")


def test_a_deterministic_weight_refuses_the_arguments_of_random_ones():
    with pytest.raises(TypeError, match="unexpected keyword argument 'prior'"):
        Deterministic(prior="normal")


@pytest.mark.parametrize("whole", [np.int64(2), np.int32(2)])
def test_numbers_may_come_from_numpy(whole):
    posterior = LowRank(whole, eta=np.float32(0.25))
    assert posterior.get_config() == LowRank(2, eta=0.25, name=posterior.name).get_config()


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda it: pickle.loads(pickle.dumps(it))}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", POSTERIORS)
def test_a_posterior_that_is_not_built_is_copied_as_its_arguments_say(name, how):
    posterior = POSTERIORS[name]()
    again = COPIES[how](posterior)
    assert again is not posterior and type(again) is type(posterior) and not again.built
    assert again.get_config() == posterior.get_config()
    for one in (posterior, again):
        one.build((5, 4))
        assert [weight.shape for weight in one.weights] == [weight.shape for weight in posterior.weights]


@pytest.mark.parametrize("how", COPIES)
def test_so_are_layers_and_models_and_their_copies_are_trained_alone(how):
    x, y = np.ones((4, 3), "float32"), np.ones((4, 1), "float32")
    model = keras.Sequential([layers.Dense(4, posterior=LowRank(2), bias_posterior=FullRank()), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    again, layer = COPIES[how](model), COPIES[how](model.layers[0])
    assert layer.get_config() == model.layers[0].get_config() and not layer.built
    again.fit(x, y, verbose=0, callbacks=[KLSchedule(num_data=4, beta=1.0)])
    assert again.built and not model.built
    trained = COPIES[how](again)
    for ours, theirs in zip(again.trainable_variables, trained.trainable_variables, strict=True):
        np.testing.assert_array_equal(ops.convert_to_numpy(ours), ops.convert_to_numpy(theirs))


CALLS = {
    "LowRank(2)": lambda: LowRank(2),
    "LowRank(2, overcomplete=True, eta=0.5)": lambda: LowRank(2, overcomplete=True, eta=0.5),
    "LowRank(16, prior=Normal(scale=0.5), rho_lr=4.0)": lambda: LowRank(16, prior=Normal(0.5), rho_lr=4),
    "Adapter(8)": lambda: Adapter(8, prior=Anchored(3.0, anchor="random", relative=True)),
    "Adapter(8, prior=Laplace(scale=1.0), family='laplace')": lambda: Adapter(8, prior=Laplace(), family="laplace"),
    "FullRank()": lambda: FullRank(prior=ScaleMixture(), name="mine", trainable=False),
    "FullRank(rho_initializer=RandomUniform(minval=-5, maxval=-4))": lambda: FullRank(
        rho_initializer=keras.initializers.RandomUniform(-5, -4)
    ),
    "RankOne()": RankOne,
    "RankOne(form='outer')": lambda: RankOne("outer"),
    "Deterministic()": Deterministic,
    "Deterministic(initializer=HeNormal())": lambda: Deterministic("he_normal"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_posterior_is_printed_as_the_call_that_makes_it(call):
    assert repr(CALLS[call]()) == str(CALLS[call]()) == call


def test_what_a_layer_holds_is_printed_the_same():
    layer = layers.Dense(3, "relu", posterior=LowRank(2, damping=0.5))
    layer.build((None, 4))
    assert repr(layer.posterior) == "LowRank(2, damping=0.5)"


def test_an_initializer_that_is_a_function_is_printed_by_its_name():
    def wide(shape, dtype=None):
        return keras.ops.ones(shape, dtype)

    assert repr(FullRank(initializer=wide)) == "FullRank(initializer=wide)"
