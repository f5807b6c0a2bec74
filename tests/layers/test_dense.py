"""Dense: Keras's layer of the same name, with one draw of the posterior for its kernel."""

import keras
import numpy as np
import pytest
from keras import ops
from layer_table import LAYERS, counterpart_of
from posterior_table import (
    POSTERIORS,
    RANDOM,
    draw_of,
    one_row_each,
    stirred_layer,
)

from singularbayes import Adapter, FullRank, LowRank, draw_weights, layers
from singularbayes.posteriors import scope

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]
CASE = LAYERS["dense"]
X = np.random.default_rng(1).normal(size=(6, 5)).astype("float32")


def _posterior(name):
    return POSTERIORS[name](kl_weight=0.1) if name in RANDOM else POSTERIORS[name]()


def _numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


def test_the_mean_starts_where_the_initializer_says():
    start = keras.initializers.Constant(np.outer(np.arange(5), np.ones(4)))
    for posterior in (LowRank(1), FullRank(), Adapter(2), "rank_one", "deterministic"):
        layer = layers.Dense(4, kernel_initializer=start, posterior=posterior)
        layer.build((None, 5))
        mean = _numpy(layer.posterior.mean().dense())
        np.testing.assert_allclose(mean, np.outer(np.arange(5), np.ones(4)), atol=1e-5)


@pytest.mark.parametrize(("activation", "variance"), [("relu", 2 / 300), ("tanh", 2 / 500), (None, 2 / 500)])
@pytest.mark.parametrize(
    "posterior",
    [LowRank.paper(20), FullRank(), Adapter(20), "rank_one"],
    ids=["low_rank", "full_rank", "adapter", "rank_one"],
)
def test_the_mean_starts_with_the_variance_of_he_for_rectified_activations_and_glorot_else(
    posterior, activation, variance
):
    layer = layers.Dense(200, activation, posterior=posterior)
    layer.build((None, 300))
    assert _numpy(layer.posterior.mean().dense()).var() == pytest.approx(variance, rel=0.1)


def test_bias_and_activity_regularizers_are_added_as_keras_adds_them():
    arguments = {"bias_regularizer": "l2", "activity_regularizer": "l1"}
    layer = stirred_layer(CASE.make(LowRank(2, prior="normal", kl_weight=0.0), **arguments), X)
    draw = draw_of(layer)
    counterpart = counterpart_of(CASE, layer, X, draw, **arguments)
    with scope.fix_draws(draw):
        layer(X), counterpart(X)
        np.testing.assert_allclose(sum(map(_numpy, layer.losses)), sum(map(_numpy, counterpart.losses)), rtol=1e-5)


def test_an_adapter_at_its_start_answers_as_the_layer_it_came_from_to_the_last_bit():
    plain = keras.layers.Dense(4, "tanh")
    plain(X)
    layer = layers.Dense(4, "tanh", posterior=Adapter(2))
    layer(X)
    layer.posterior.center(_numpy(plain.kernel))
    np.testing.assert_array_equal(_numpy(layer(X)), _numpy(plain(X)))
    with draw_weights(layer):
        assert np.abs(_numpy(layer(X)) - _numpy(plain(X))).max() > 0


@pytest.mark.parametrize("name", one_row_each(RANDOM))
def test_each_call_is_a_fresh_draw(name):
    layer = stirred_layer(CASE.make(_posterior(name)), X)
    with draw_weights(layer):
        assert not np.allclose(_numpy(layer(X)), _numpy(layer(X)))


def test_every_use_of_a_layer_in_one_forward_pass_is_the_same_draw():
    layer = CASE.make(LowRank(2), bias_posterior=FullRank())
    x = keras.Input((5,))
    inner = keras.Model(x, layer(x))
    model = keras.Model(x, [layer(x), inner(x), layer(x)])
    stirred_layer(model, X)
    with draw_weights(model):
        first, second, third = map(_numpy, model(X))
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(first, third)
        assert not np.allclose(first, _numpy(model(X)[0]))
        assert not np.allclose(first, _numpy(layer(X)))


def test_time_steps_of_time_distributed_share_the_draw():
    layer = keras.layers.TimeDistributed(CASE.make(LowRank(2), bias_posterior=FullRank()))
    stirred_layer(layer, np.repeat(X[:, None], 3, axis=1))
    with draw_weights(layer):
        outputs = _numpy(layer(np.repeat(X[:, None], 3, axis=1)))
    np.testing.assert_allclose(outputs[:, 0], outputs[:, 2], rtol=1e-6)
