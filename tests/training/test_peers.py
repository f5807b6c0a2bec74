"""Defects seen in other libraries, each as an invariant here."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import JAX_FIRST, TORCH_FIRST, gradient, set_factor, stirred_layer
from scipy import integrate, special, stats

import singularbayes as sb
from singularbayes import FullRank, LowRank, Normal, ScaleMixture, layers

pytestmark = [pytest.mark.backend, TORCH_FIRST]
RNG = np.random.default_rng(6)
X = RNG.normal(size=(9, 4)).astype("float32")


def _float(x):
    return float(ops.convert_to_numpy(x))


def _classifier(units=3, posterior=None):
    dense = layers.Dense(units, posterior=posterior or LowRank.paper(1, prior=Normal()))
    return stirred_layer(keras.Sequential([keras.Input((4,)), dense]), X)


def test_kl_is_not_a_mean_over_weights():
    kls = []
    for n in (10, 100):
        layer = layers.Dense(n, use_bias=False, posterior=FullRank(prior=Normal()))
        layer.build((None, n))
        set_factor(layer.posterior.w, 0.1, 0.5)
        kls.append(_float(sb.kl(layer)))
    assert kls[1] == pytest.approx(100 * kls[0], rel=1e-5)


def test_kl_is_not_divided_by_the_number_of_layers():
    one = _classifier()
    several = keras.Sequential(
        [keras.Input((4,)), *[layers.Dense(4, posterior=FullRank(prior=Normal())) for _ in "abc"]]
    )
    stirred_layer(several, X)
    assert _float(sb.kl(several)) == pytest.approx(sum(p.kl_exact() for p in sb.find_posteriors(several)), rel=1e-5)
    assert _float(sb.kl(one)) == pytest.approx(one.layers[0].posterior.kl_exact(), rel=1e-5)


def test_kl_does_not_grow_with_the_length_of_a_sequence():
    layer = stirred_layer(layers.Dense(3, posterior=LowRank.paper(1, prior=Normal(), kl_weight=1.0)), X)
    found = []
    for length in (1, 50):
        layer(np.ones((2, length, 4), "float32"), training=True)
        found.append(sum(map(_float, layer.losses)))
    assert found[0] == pytest.approx(found[1]) == pytest.approx(layer.posterior.kl_exact(), rel=1e-5)


def test_log_q_has_its_half():
    # KL = −H(q) − E_q log p with a wide enough prior that the second term is known: an offset of ½ a weight shows.
    layer = layers.Dense(1, use_bias=False, posterior=FullRank(prior=Normal(1e3)))
    layer.build((None, 4))
    set_factor(layer.posterior.w, 0.0, 0.5)
    expected = (
        -stats.norm(0, 0.5).entropy()
        - integrate.quad(lambda w: stats.norm(0, 0.5).pdf(w) * stats.norm(0, 1e3).logpdf(w), -6, 6)[0]
    )
    assert _float(sb.kl(layer)) == pytest.approx(4 * expected, rel=1e-5)


def test_the_mixture_prior_has_no_floor_in_its_tail():
    prior = ScaleMixture()
    w = keras.Variable(np.array([8.0, -8.0], "float32"))
    truth = np.log(0.5) + stats.norm.logpdf(8.0)
    np.testing.assert_allclose(ops.convert_to_numpy(prior.log_density(w.value)), truth, rtol=1e-5)
    assert truth == pytest.approx(-33.6, abs=0.05)
    np.testing.assert_allclose(gradient(lambda: ops.sum(prior.log_density(w + 0.0)), w), [-8.0, 8.0], rtol=1e-5)


@JAX_FIRST
def test_parameters_are_counted_once():
    model = _classifier()
    assert len({id(v) for v in model.trainable_variables}) == len(model.trainable_variables)
    assert model.count_params() == 2 * 1 * (4 + 3) + 3


@pytest.mark.parametrize("batch_size", [1, 2, 9, 64])
def test_prediction_takes_any_batch_size(batch_size):
    model = _classifier()
    p = sb.predict(model, X, draws=4, likelihood="categorical_logits", batch_size=batch_size)
    np.testing.assert_allclose(p.mean.sum(-1), 1, rtol=1e-6)
    assert p.mean.shape == (9, 3)


def test_what_is_called_loss_falls_as_the_fit_improves():
    # `loss` is minus the bound: at the data's own labels it is lower than at their opposites.
    model = _classifier(1)
    model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
    sb.set_kl(model, num_data=9, beta=1.0)
    labels = (ops.convert_to_numpy(model(X)) > 0).astype("float32")
    assert model.evaluate(X, labels, verbose=0) < model.evaluate(X, 1 - labels, verbose=0)


def test_probabilities_are_averaged_not_logits():
    model = _classifier()
    p = sb.predict(model, X, draws=16, likelihood="categorical_logits", keep_draws=True)
    logits = sb.predict(model, X, draws=16, likelihood="gaussian", keep_draws=True).draws
    np.testing.assert_allclose(p.mean, special.softmax(logits, -1).mean(0), rtol=1e-5)
    assert np.abs(p.mean - special.softmax(logits.mean(0), -1)).max() > 1e-3


def test_a_non_square_kernel_keeps_its_orientation():
    layer = stirred_layer(layers.Dense(7, use_bias=False, posterior=LowRank.paper(2)), X)
    a, b = np.split(ops.convert_to_numpy(layer.posterior.ab.loc), [4])
    assert a.shape == (4, 2) and b.shape == (7, 2)
    np.testing.assert_allclose(ops.convert_to_numpy(layer(X)), X @ a @ b.T, rtol=1e-4, atol=1e-5)
