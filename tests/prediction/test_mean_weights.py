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


class Doubled(keras.Model):
    """A model that Keras does not know the layers' graph of."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x):
        return 2.0 * self.inner(x)


def _sharing(dense):
    return keras.Sequential([keras.Input((5,)), dense, keras.layers.Dense(2)])


@pytest.mark.parametrize("make", [_sharing, Doubled], ids=["sequential", "subclass"])
def test_a_model_that_shares_a_layer_and_was_compiled_before_uses_the_mean_too(make):
    dense = layers.Dense(3, posterior=LowRank(2))
    model, other = stirred_layer(keras.Sequential([keras.Input((5,)), dense]), X), make(dense)

    def differs(model):
        return np.abs(model.predict(X, verbose=0) - model.predict(X, verbose=0)).max() > 1e-4

    assert differs(other) and differs(model)
    with sb.mean_weights(model):
        assert not differs(other) and not differs(model)
    assert differs(other) and differs(model)


def test_predict_draws_inside_it_too(model):
    outside = sb.predict(model, X, 5, likelihood="gaussian").std
    with sb.mean_weights(model):
        np.testing.assert_allclose(sb.predict(model, X, 5, likelihood="gaussian").std, outside, rtol=1e-5)
