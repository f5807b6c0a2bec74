"""MC dropout: on a linear model its moments are closed forms; everything else stands as in prediction."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST, assert_unbiased

import singularbayes as sb
from singularbayes import MCDropout

pytestmark = [pytest.mark.backend, TORCH_FIRST]
RNG = np.random.default_rng(9)
X = RNG.normal(size=(6, 5)).astype("float32")
NUM_DRAWS = 3000 if keras.backend.backend() == "jax" else 600


def _model(*layers, rate=0.3):
    model = keras.Sequential([keras.Input((5,)), *layers, keras.layers.Dropout(rate), keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    return model


def _moments(x, model, rate=0.3):
    """Returns mean and variance of Σᵢ xᵢ mᵢ wᵢ / (1 − p) + b, where mᵢ is 1 with probability 1 − p."""
    w, b = (ops.convert_to_numpy(v).astype("float64") for v in model.layers[-1].weights)
    return x @ w + b, rate / (1 - rate) * x.astype("float64") ** 2 @ w**2


def _assert_moments(draws, mean, variance):
    assert_unbiased(draws, mean)
    assert_unbiased((draws - mean) ** 2, variance)


def test_a_linear_model_has_the_closed_form_mean_and_variance():
    model = _model()
    p = MCDropout(model).predict(X, draws=NUM_DRAWS, keep_draws=True)
    _assert_moments(p.draws, *_moments(X, model))
    np.testing.assert_allclose(p.std, p.draws.std(axis=0), rtol=1e-5)


def test_normalisation_keeps_its_running_statistics():
    norm = keras.layers.BatchNormalization(epsilon=1e-3)
    model = _model(norm)
    norm.moving_mean.assign(RNG.normal(size=5))
    norm.moving_variance.assign(RNG.uniform(0.5, 2.0, size=5))
    before = [ops.convert_to_numpy(v).copy() for v in model.variables]
    p = MCDropout(model).predict(X, draws=NUM_DRAWS, keep_draws=True)
    scaled = (X - ops.convert_to_numpy(norm.moving_mean)) / np.sqrt(ops.convert_to_numpy(norm.moving_variance) + 1e-3)
    _assert_moments(p.draws, *_moments(scaled, model))
    for value, now in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(value, ops.convert_to_numpy(now))
    assert norm.trainable


def test_draws_are_reproducible_and_examples_have_masks_of_their_own():
    model = MCDropout(_model())
    same = np.repeat(X[:1], 6, axis=0)
    one, other, third = (model.predict(same, draws=20, seed=seed, keep_draws=True).draws for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, third)
    assert np.ptp(one, axis=1).max() > 0 and np.ptp(one, axis=0).max() > 0


def test_dropout_inside_a_recurrent_layer_counts():
    model = keras.Sequential([keras.Input((3, 5)), keras.layers.LSTM(4, dropout=0.4), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    p = MCDropout(model).predict(np.repeat(X[:, None], 3, axis=1), draws=5)
    assert (p.std > 0).all()


def test_its_model_is_all_that_it_keeps(tmp_path):
    method = MCDropout(_model()).fit(X, X[:, :2], epochs=1)
    method.model.save(tmp_path / "dropout.keras")
    again = MCDropout(sb.load(tmp_path / "dropout.keras"))
    np.testing.assert_allclose(*(m.predict(X, draws=5).mean for m in (method, again)), rtol=1e-5, atol=1e-6)
    assert method.num_trained == method.num_stored == 12


def test_a_model_without_dropout_is_refused():
    with pytest.raises(ValueError, match="MCDropout needs a model with dropout; got"):
        MCDropout(_model(rate=0.0))


@pytest.mark.parametrize("kind", [MCDropout, sb.SWAG, lambda path: sb.DeepEnsemble.from_models([path])])
def test_a_file_is_no_model(kind):
    with pytest.raises(TypeError, match=r"needs a Keras model; got 'model.keras'. Read a file by singularbayes.load"):
        kind("model.keras")


def test_the_loss_says_what_the_outputs_mean():
    model = _model()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    p = MCDropout(model).predict(X, draws=10)
    assert isinstance(p, sb.ClassPredictive) and (p.mutual_information > 0).all()
