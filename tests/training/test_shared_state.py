"""On JAX the posteriors of a model share one seed generator and one KL weight: fewer variables per step."""

import keras
import numpy as np
import pytest
from keras import ops

import singularbayes as sb
from singularbayes import LowRank, layers

pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="posteriors share their state on JAX alone")
X = np.random.default_rng(0).normal(size=(8, 6)).astype("float32")


def _model():
    return keras.Sequential([keras.Input((6,)), *[layers.Dense(6, posterior=LowRank.paper(2)) for _ in range(3)]])


def test_a_model_has_one_generator_and_one_weight_once_the_weight_is_set():
    model = _model()
    apart = len(model.variables)
    sb.set_kl(model, num_data=8, beta=2.0)
    posteriors = sb.find_posteriors(model)
    assert len({id(p.seed_generator) for p in posteriors}) == len({id(p.kl_scale) for p in posteriors}) == 1
    assert len(model.variables) == apart - 4  # two of each less
    sb.set_kl(model, num_data=8, beta=1.0)
    assert [float(ops.convert_to_numpy(p.kl_scale)) for p in posteriors] == [0.125] * 3


def test_layers_of_equal_shape_still_draw_apart():
    model = _model()
    sb.set_kl(model, num_data=8, beta=1.0)
    draws = [np.asarray(p.sample(training=True).dense() - p.mean().dense()) for p in sb.find_posteriors(model)]
    assert min(np.abs(draws[i] - draws[j]).max() for i in range(3) for j in range(i)) > 1e-3


def test_fit_draws_anew_in_every_step():
    model = _model()
    model.compile(keras.optimizers.SGD(0.0), "mse")
    history = model.fit(X, X, 8, 4, 0, callbacks=[sb.KLSchedule(num_data=8, beta=1.0)]).history
    assert len(set(history["nll"])) == 4


def test_files_hold_what_each_layer_had(tmp_path):
    model = _model()
    model.compile("adam", "mse")
    model.fit(X, X, verbose=0, callbacks=[sb.KLSchedule(num_data=8, beta=1.0)])
    model.save(tmp_path / "model.keras")
    loaded = sb.load(tmp_path / "model.keras")
    predictions = [sb.predict(m, X, 5, likelihood="gaussian").mean for m in (model, loaded)]
    np.testing.assert_array_equal(*predictions)
    assert [float(ops.convert_to_numpy(p.kl_scale)) for p in sb.find_posteriors(loaded)] == [0.125] * 3
    model.save_weights(tmp_path / "some.weights.h5")
    other = _model()
    other.load_weights(tmp_path / "some.weights.h5")
    np.testing.assert_array_equal(sb.predict(other, X, 5, likelihood="gaussian").mean, predictions[0])


def test_a_layer_of_two_models_follows_the_one_that_was_set_last():
    shared = layers.Dense(6, posterior=LowRank.paper(2))
    first, second = (
        keras.Sequential([keras.Input((6,)), layers.Dense(6, posterior=LowRank.paper(1)), shared]) for _ in "ab"
    )
    sb.set_kl(first, num_data=10, beta=1.0)
    sb.set_kl(second, num_data=20, beta=1.0)
    assert float(ops.convert_to_numpy(shared.posterior.kl_scale)) == pytest.approx(0.05)
    assert float(ops.convert_to_numpy(first.layers[0].posterior.kl_scale)) == pytest.approx(0.1)
    for model in (first, second):
        model.compile("adam", "mse")
        model.fit(X, X, verbose=0)


def test_a_part_of_a_model_has_a_weight_of_its_own():
    inner = layers.Dense(6, posterior=LowRank.paper(2))
    outer = keras.Sequential([keras.Input((6,)), layers.Dense(6, posterior=LowRank.paper(1)), inner])
    sb.set_kl(outer, num_data=10, beta=1.0)
    part = keras.Sequential([keras.Input((6,)), inner, layers.Dense(2, posterior=LowRank.paper(1))])
    sb.set_kl(part, num_data=20, beta=1.0)
    assert float(ops.convert_to_numpy(outer.layers[0].posterior.kl_scale)) == pytest.approx(0.1)
    assert float(ops.convert_to_numpy(inner.posterior.kl_scale)) == pytest.approx(0.05)
