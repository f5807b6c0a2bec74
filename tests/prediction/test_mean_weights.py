"""`mean_weights`: every forward pass of the model uses E[W], inside the block and nowhere else."""

import keras
import numpy as np
import pytest
from keras import ops
from table import stirred_layer

import singularbayes as sb
from singularbayes import FullRank, LowRank, layers

pytestmark = pytest.mark.backend
X = np.random.default_rng(2).normal(size=(6, 5)).astype("float32")


def _numpy(x):
    return ops.convert_to_numpy(x)


@pytest.fixture
def model():
    dense = layers.Dense(3, "tanh", posterior=LowRank(2), bias_posterior=FullRank())
    inner = keras.Sequential([keras.Input((5,)), dense])
    x = keras.Input((5,))
    return stirred_layer(keras.Model(x, layers.Dense(1, posterior=LowRank(1))(inner(x))), X)


def test_afterwards_each_call_is_a_fresh_draw_again(model):
    with sb.mean_weights(model) as same:
        assert same is model
        mean = _numpy(model(X))
        with sb.mean_weights(model):
            np.testing.assert_array_equal(_numpy(model(X)), mean)
        np.testing.assert_array_equal(_numpy(model(X)), mean)
    first, second = _numpy(model(X)), _numpy(model(X))
    assert not np.allclose(first, mean) and not np.allclose(first, second)


def test_an_error_inside_restores_the_draws(model):
    with pytest.raises(RuntimeError, match="inside"), sb.mean_weights(model):
        raise RuntimeError("inside")
    assert not np.allclose(_numpy(model(X)), _numpy(model(X)))


def test_it_holds_in_keras_predict_and_evaluate_which_draw_before_and_after(model):
    model.compile(loss="mse")
    sb.set_kl(model, num_data=6, beta=0.0)
    y = np.zeros((6, 1))
    before = model.predict(X, verbose=0), model.predict(X, verbose=0)
    with sb.mean_weights(model):
        mean = _numpy(model(X))
        np.testing.assert_allclose(model.predict(X, verbose=0), mean, rtol=1e-5, atol=1e-6)
        assert model.evaluate(X, y, verbose=0) == pytest.approx(float((mean**2).mean()), rel=1e-5)
    after = model.predict(X, verbose=0), model.predict(X, verbose=0)
    assert not np.allclose(*before) and not np.allclose(*after) and not np.allclose(after[0], mean)
    assert model.evaluate(X, y, verbose=0) != model.evaluate(X, y, verbose=0)


def test_other_models_keep_their_draws(model):
    other = stirred_layer(keras.Sequential([keras.Input((5,)), layers.Dense(1, posterior=LowRank(1))]), X)
    with sb.mean_weights(model):
        assert not np.allclose(_numpy(other(X)), _numpy(other(X)))


def test_a_model_whose_constructor_has_not_run_is_passed_over(model):
    unmade = object.__new__(type("Unmade", (keras.Model,), {}))  # KerasHub leaves some behind
    with sb.mean_weights(model):
        np.testing.assert_array_equal(_numpy(model(X)), _numpy(model(X)))
    assert not hasattr(unmade, "_layers")


def test_predict_draws_inside_it_too(model):
    outside = sb.predict(model, X, 5, likelihood="gaussian").std
    with sb.mean_weights(model):
        np.testing.assert_allclose(sb.predict(model, X, 5, likelihood="gaussian").std, outside, rtol=1e-5)
