"""Dense: Keras's layer of the same name, with one draw of the posterior for its kernel."""

import json

import keras
import numpy as np
import pytest
from keras import ops
from layer_table import LAYERS, counterpart_of
from posterior_table import (
    POSTERIORS,
    RANDOM,
    assert_unbiased,
    assert_uncorrelated,
    draw_of,
    input_gradient,
    one_row_each,
    repeated,
    stirred_layer,
)

from singularbayes import Adapter, FullRank, LowRank, draw_weights, find_posteriors, layers
from singularbayes.posteriors import scope

pytestmark = [pytest.mark.backend, pytest.mark.rows_on_torch]
CASE = LAYERS["dense"]
X = np.random.default_rng(1).normal(size=(6, 5)).astype("float32")


def _posterior(name):
    return POSTERIORS[name](kl_weight=0.1) if name in RANDOM else POSTERIORS[name]()


def _numpy(x):
    return ops.convert_to_numpy(ops.cast(x, "float32"))


@pytest.mark.parametrize(("x", "bias"), [(X, None), (X.reshape(2, 3, 5), FullRank())], ids=["plain", "sequence"])
@pytest.mark.parametrize("name", one_row_each(POSTERIORS))
def test_a_draw_is_the_keras_layer_with_that_kernel_and_bias(name, x, bias):
    layer = stirred_layer(CASE.make(_posterior(name), bias_posterior=bias), x)
    draw = draw_of(layer)
    counterpart = counterpart_of(CASE, layer, x, draw)
    with scope.fix_draws(draw):
        np.testing.assert_allclose(_numpy(layer(x)), _numpy(counterpart(x)), rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(input_gradient(layer, x), input_gradient(counterpart, x), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", one_row_each(POSTERIORS))
def test_without_bias_a_draw_is_x_times_w(name):
    layer = layers.Dense(4, use_bias=False, posterior=_posterior(name), bias_posterior=FullRank())
    stirred_layer(layer, X)
    assert find_posteriors(layer) == [layer.posterior]
    draw = draw_of(layer)
    w = _numpy(layer.posterior.weight(draw[id(layer.posterior)]).dense())
    with scope.fix_draws(draw):
        np.testing.assert_allclose(_numpy(layer(X)), X @ w, rtol=2e-5, atol=2e-6)


# Eight and eleven bits of mantissa; products and sums of numbers up to five lose a few units of the last.
@pytest.mark.parametrize(("policy", "precision"), [("mixed_bfloat16", 2**-8), ("mixed_float16", 2**-11)])
@pytest.mark.parametrize("name", one_row_each(POSTERIORS))
def test_mixed_precision_computes_in_half_and_keeps_its_weights_in_float32(name, policy, precision):
    layer = stirred_layer(CASE.make(_posterior(name), bias_posterior=FullRank(), dtype=policy), X)
    draw = draw_of(layer)
    counterpart = counterpart_of(CASE, layer, X, draw)
    with scope.fix_draws(draw):
        outputs = layer(X)
    assert keras.backend.standardize_dtype(outputs.dtype) == policy.removeprefix("mixed_")
    np.testing.assert_allclose(_numpy(outputs), _numpy(counterpart(X)), atol=16 * precision)
    assert {keras.backend.standardize_dtype(w.dtype) for w in layer.trainable_weights} == {"float32"}


def test_shapes_and_masks_are_those_of_keras():
    ours, theirs = CASE.make(LowRank(2)), CASE.keras()
    for shape in [(None, 5), (7, 5), (None, None, 5), (2, 3, 9, 5)]:
        assert ours.compute_output_shape(shape) == theirs.compute_output_shape(shape)
    assert ours.supports_masking
    ids = keras.Input((3,), dtype="int32")
    masked = keras.layers.Embedding(5, 5, mask_zero=True)(ids)
    assert ours(masked)._keras_mask is masked._keras_mask
    with pytest.raises(ValueError, match=r"expected axis -1 .* to have value 5"):
        ours(np.ones((2, 6)))


@pytest.mark.parametrize("name", POSTERIORS)
def test_a_layer_is_rebuilt_from_its_config(name):
    arguments = {
        "bias_posterior": LowRank(1, prior="normal", eta=0.3),
        "bias_regularizer": "l2",
        "activity_regularizer": "l1",
        "bias_constraint": "non_neg",
        "kernel_initializer": "he_uniform",
    }
    layer = CASE.make(_posterior(name), name="head", **arguments)
    config = json.loads(json.dumps(layer.get_config()))
    again = layers.Dense.from_config(config)
    assert again.get_config() == layer.get_config()
    assert type(again.posterior) is type(layer.posterior)
    again(X)
    assert [w.shape for w in again.weights] == [w.shape for w in stirred_layer(layer, X).weights]


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


@pytest.mark.parametrize("bias", [None, LowRank(1)], ids=["plain", "bayesian"])
@pytest.mark.parametrize("name", ["low_rank", "full_rank", "rank_one", "adapter"])
def test_forward_passes_average_to_the_mean_weight(name, bias):
    layer = stirred_layer(layers.Dense(4, posterior=_posterior(name), bias_posterior=bias), X)
    truth = X @ _numpy(layer.posterior.mean().dense())
    truth = truth + (_numpy(layer.bias) if bias is None else _numpy(layer.bias_posterior.mean().dense()))
    assert_unbiased(repeated(layer, X), truth)


def test_layers_given_one_posterior_object_draw_independently():
    posterior = LowRank(2)
    x = keras.Input((5,))
    model = keras.Model(x, [layers.Dense(4, use_bias=False, posterior=posterior)(x) for _ in "ab"])
    stirred_layer(model, X)
    first, second = find_posteriors(model)
    assert first is not second
    for factor, other in zip(first.factors, second.factors, strict=True):
        other.values.assign(factor.values)
    draws = repeated(model, X)
    assert_uncorrelated([a for a, _ in draws], [b for _, b in draws])
