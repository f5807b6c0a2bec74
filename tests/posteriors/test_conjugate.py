"""A linear model with Gaussian noise and a Normal prior has an exact posterior, and training finds it."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import set_factor
from scipy import stats

import singularbayes as sb
from singularbayes import FullRank, Gaussian, Normal, layers

NUM, PRIOR, NOISE = 16, 0.8, 0.7
# Orthogonal design: XᵀX = diag(λ), so the exact posterior is a product over weights, which FullRank can be.
LENGTHS = np.array([4.0, 2.0, 0.5])
RNG = np.random.default_rng(11)
X = (np.linalg.qr(RNG.normal(size=(NUM, 3)))[0] * LENGTHS).astype("float32")
Y = (X @ np.array([[1.0], [-0.5], [2.0]]) + NOISE * RNG.normal(size=(NUM, 1))).astype("float32")

PRECISION = LENGTHS**2 / NOISE**2 + 1 / PRIOR**2
EXACT_MEAN = (X.T @ Y)[:, 0] / NOISE**2 / PRECISION
EXACT_SD = PRECISION**-0.5


def _model(**arguments):
    dense = layers.Dense(1, use_bias=False, posterior=FullRank(prior=Normal(PRIOR), **arguments))
    return keras.Sequential([keras.Input((3,)), dense])


def _evidence():
    """Returns log p(y), for which y ~ N(0, noise² I + prior² X Xᵀ)."""
    covariance = NOISE**2 * np.eye(NUM) + PRIOR**2 * X.astype("float64") @ X.T
    return stats.multivariate_normal(np.zeros(NUM), covariance).logpdf(Y[:, 0])


def test_training_recovers_the_exact_posterior():
    model = _model(rho_lr=3.0)
    rate = keras.optimizers.schedules.CosineDecay(0.01, 24_000)
    model.compile(keras.optimizers.Adam(rate), Gaussian(NOISE))
    x, y = np.tile(X, (100, 1)), np.tile(Y, (100, 1))  # every batch has all examples, and a draw of its own
    sb.set_kl(model, num_data=NUM, beta=1.0)
    model.fit(x, y, NUM, 240, 0, shuffle=False)
    w = model.layers[0].posterior.w
    mean, sd = (ops.convert_to_numpy(v)[:, 0] for v in (w.loc, w.scale))
    np.testing.assert_allclose((mean - EXACT_MEAN) / EXACT_SD, 0, atol=0.03)
    np.testing.assert_allclose(sd / EXACT_SD, 1, atol=0.03)


@pytest.mark.backend
def test_at_the_exact_posterior_the_loss_is_the_negative_log_evidence():
    model = _model()
    set_factor(model.layers[0].posterior.w, EXACT_MEAN[:, None], EXACT_SD[:, None])
    sb.set_kl(model, num_data=NUM, beta=1.0)
    model(X, training=True)
    kl = float(ops.convert_to_numpy(sum(model.losses)))
    # E_q of the mean Gaussian loss: at the mean, plus the spread of x W over 2 noise².
    at_mean = float(ops.convert_to_numpy(Gaussian(NOISE)(Y, X @ EXACT_MEAN[:, None])))
    spread = float((X**2 @ EXACT_SD**2).mean() / (2 * NOISE**2))
    assert NUM * (at_mean + spread + kl) == pytest.approx(-_evidence(), rel=1e-5)


@pytest.mark.backend
def test_prediction_from_the_exact_posterior_has_the_exact_mean_and_variance():
    model = _model()
    set_factor(model.layers[0].posterior.w, EXACT_MEAN[:, None], EXACT_SD[:, None])
    model.compile(loss=Gaussian(NOISE))
    predicted = sb.predict(model, X, draws=2000, seed=3)
    variance = X**2 @ EXACT_SD**2
    z = (predicted.mean - X @ EXACT_MEAN) / np.sqrt(variance / 2000)
    assert np.abs(z).max() < 4.5
    # The standard error of a Gaussian sample variance is its √(2 / draws) part.
    assert np.abs(predicted.variance("epistemic") / variance - 1).max() < 4.5 * np.sqrt(2 / 2000)
    np.testing.assert_allclose(predicted.variance("total"), predicted.variance("epistemic") + NOISE**2)
