"""A training pass on torch and TensorFlow draws the posteriors of a model together; its noise estimates their KL."""

import keras
import numpy as np
import pytest
from keras import ops

import singularbayes as sb
from singularbayes.posteriors import families

BACKEND = keras.backend.backend()
pytestmark = [
    pytest.mark.backend,
    pytest.mark.skipif(BACKEND == "jax", reason="JAX compiles a step as a whole"),
]
ROWS, COLUMNS = 8, (12, 7)
EYE = np.eye(ROWS, dtype="float32")
PRIOR = sb.ScaleMixture(0.5, 1.0, 0.05)


def _model():
    """Returns a model whose outputs for the unit vectors are its drawn matrices."""
    keras.utils.set_random_seed(3)
    x = keras.Input((ROWS,))
    posteriors = [sb.FullRank(prior=PRIOR), sb.LowRank(3, prior=PRIOR, eta=0.2)]
    pairs = zip(COLUMNS, posteriors, strict=True)
    model = keras.Model(x, [sb.layers.Dense(n, use_bias=False, posterior=q)(x) for n, q in pairs])
    sb.set_kl(model, num_data=1, beta=1.0)
    return model


def _as_fit_does(function):
    """Returns a function compiled as `fit` does, whose results are arrays."""
    if BACKEND == "tensorflow":
        import tensorflow as tf

        function = tf.function(function)

    def run(*arguments):
        found = function(*arguments)
        return keras.tree.map_structure(lambda t: ops.convert_to_numpy(ops.stop_gradient(t)), found)

    return run


def _kl_at(posterior, w):
    """Returns −Σ H(q) + log p(w) of a posterior over the entries of W."""
    scale = ops.convert_to_numpy(posterior.w.scale)
    entropy = families.get_family("gaussian").entropy(scale, np)
    return -(entropy + PRIOR.log_density(w.astype("float64"), np)).sum()


def test_the_kl_in_the_loss_is_that_of_the_drawn_weights():
    model = _model()
    full, low = sb.find_posteriors(model)
    outputs, losses, again = _as_fit_does(lambda: (model(EYE, training=True), model.losses, model.losses))()
    np.testing.assert_allclose(losses[0], _kl_at(full, outputs[0]), rtol=1e-4)
    assert abs(again[0] - losses[0]) > 1e-2  # noise of its own: one draw estimates one KL
    standard_error = 5 * np.sqrt(low.ab.size)
    assert abs(losses[1] - low.kl_exact()) < standard_error


def test_posteriors_that_are_drawn_together_have_noise_of_their_own():
    model = _model()
    full, low = sb.find_posteriors(model)
    run = _as_fit_does(lambda: model(EYE, training=True))
    draws = [run() for _ in range(60)]
    for i, posterior in enumerate((full, low)):
        found = np.stack([draw[i] for draw in draws])
        error = np.sqrt(posterior.variance() / len(draws))
        z = (found.mean(axis=0) - ops.convert_to_numpy(posterior.mean().dense())) / error
        assert np.abs(z).max() < 5
        np.testing.assert_allclose(found.var(axis=0).sum(), posterior.variance().sum(), rtol=0.15)
    one, other = (np.stack([draw[i].reshape(-1)[: ROWS * 7] for draw in draws]) for i in range(2))
    correlations = [np.corrcoef(one[:, j], other[:, j])[0, 1] for j in range(ROWS * 7)]
    assert np.abs(correlations).max() < 5 / np.sqrt(len(draws))


def test_a_frozen_posterior_draws_alone_and_has_no_kl():
    model = _model()
    model.layers[1].trainable = False
    full, low = sb.find_posteriors(model)
    outputs, losses = _as_fit_does(lambda: (model(EYE, training=True), model.losses))()
    assert len(losses) == 1 and abs(losses[0] - low.kl_exact()) < 5 * np.sqrt(low.ab.size)
    assert np.abs(outputs[0] - ops.convert_to_numpy(full.mean().dense())).max() > 1e-3


def test_a_pass_of_another_model_draws_as_if_alone():
    model = _model()
    inner = model.layers[1]
    outer = keras.Sequential([keras.Input((ROWS,)), inner])
    outputs, losses = _as_fit_does(lambda: (outer(EYE, training=True), outer.losses))()
    assert abs(losses[0] - _kl_at(inner.posterior, outputs)) > 1e-2
    sb.set_kl(outer, num_data=1, beta=1.0)
    outputs, losses = _as_fit_does(lambda: (outer(EYE, training=True), outer.losses))()
    np.testing.assert_allclose(losses[0], _kl_at(inner.posterior, outputs), rtol=1e-4)


def test_layers_inside_loops_train_beside_others():
    x = keras.Input((5, 4))
    inner = sb.layers.Dense(3, posterior=sb.LowRank(2, prior=PRIOR))
    y = keras.layers.TimeDistributed(inner)(x)
    outputs = sb.layers.Dense(2, posterior=sb.LowRank(2, prior=PRIOR))(keras.layers.Flatten()(y))
    model = keras.Model(x, outputs)
    model.compile(keras.optimizers.SGD(0.01), "mse")
    data = np.random.default_rng(0).normal(size=(16, 5, 4)).astype("float32")
    before = [q.ab.float64_values()[1] for q in sb.find_posteriors(model)]
    model.fit(data, data[:, 0, :2], verbose=0, callbacks=[sb.KLSchedule(beta=1.0)])
    after = [q.ab.float64_values()[1] for q in sb.find_posteriors(model)]
    assert all(np.abs(new - old).max() > 0 for new, old in zip(after, before, strict=True))


@pytest.mark.skipif(BACKEND != "torch", reason="gradients of one pass, taken one after the other")
def test_gradients_of_loss_and_kl_may_be_taken_apart_and_noise_is_forgotten_after_a_step():
    model = _model()
    full = sb.find_posteriors(model)[0]
    outputs = model(EYE, training=True)
    model.losses[0].backward()
    ops.sum(outputs[0]).backward()
    by_loc = ops.convert_to_numpy(full.w.values.value.grad)[0]
    w = ops.convert_to_numpy(ops.stop_gradient(outputs[0])).astype("float64")
    slope = (PRIOR.log_density(w - 1e-6, np) - PRIOR.log_density(w + 1e-6, np)) / 2e-6
    np.testing.assert_allclose(by_loc, 1 + slope, rtol=1e-3, atol=1e-3)

    outputs = model(EYE, training=True)
    full.w.shift_rho(0.0)  # a step, of size 0
    kl = float(ops.stop_gradient(model.losses[0]))
    assert abs(kl - _kl_at(full, ops.convert_to_numpy(ops.stop_gradient(outputs[0])))) > 1e-2
