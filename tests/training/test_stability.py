"""Low-rank layers train stably at the rates at which Keras's layers do."""

import keras
import numpy as np
import pytest
from keras import ops
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

import singularbayes as sb
from singularbayes import LowRank, layers

X, LABELS = load_digits(return_X_y=True)
X, LABELS = StandardScaler().fit_transform(X)[:1200].astype("float32"), LABELS[:1200]
NOISELESS = LowRank(32, eta=1e-8, rho_lr=1e-4)


def _log(posterior, optimizer, beta=0.0, epochs=60):
    """Returns the training NLLs of a network on digits, epoch by epoch; posterior None is a Keras network."""
    keras.utils.set_random_seed(1)
    dense = keras.layers.Dense if posterior is None else lambda *args: layers.Dense(*args, posterior=posterior)
    model = keras.Sequential([keras.Input((64,)), dense(64, "relu"), dense(10)])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    callbacks = [] if posterior is None else [sb.KLSchedule(beta=beta)]
    log = model.fit(X, LABELS, epochs=epochs, verbose=0, callbacks=callbacks).history
    return np.array(log.get("nll", log["loss"]))


def _largest_rise(values):
    return (values - np.minimum.accumulate(values)).max()


@pytest.mark.parametrize(
    "optimizer",
    [lambda: keras.optimizers.Adam(0.01), lambda: keras.optimizers.SGD(0.1, momentum=0.9)],
    ids=["Adam", "SGD"],
)
def test_means_train_as_stably_as_a_keras_network(optimizer):
    dense = _log(None, optimizer())
    low_rank = _log(NOISELESS, optimizer())
    assert _largest_rise(dense) < 0.01 and _largest_rise(low_rank) < 0.01
    assert low_rank[-1] < 10 * dense[-1] < 0.02


@pytest.mark.parametrize("name", ["low_rank", "mixture"])
def test_the_defaults_train_stably_at_the_rate_of_the_quickstart(name):
    nll = _log(name, keras.optimizers.Adam(0.01), beta=0.03)
    # The KL asks for noise, and noise costs likelihood: with parameters / num_data * beta / 2 about 0.06 at most.
    assert nll[5:].mean() < 0.05 and nll[-20:].mean() < 0.04


@pytest.mark.backend
def test_a_step_of_adam_moves_means_by_their_share_of_the_rate():
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4, posterior=LowRank(3, loc_lr=0.25, rho_lr=2.0))])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    (posterior,) = sb.find_posteriors(model)
    before = [ops.convert_to_numpy(part) for part in (posterior.ab.loc, posterior.ab.rho)]
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(20, 6)).astype("float32"), rng.normal(size=(20, 4)).astype("float32")
    model.fit(x, y, batch_size=20, verbose=0, callbacks=[sb.KLSchedule(20, beta=1)])
    after = [ops.convert_to_numpy(part) for part in (posterior.ab.loc, posterior.ab.rho)]
    # The first step of Adam is the rate, whatever the gradient.
    for old, new, share in zip(before, after, (0.25, 2.0), strict=True):
        np.testing.assert_allclose(np.abs(new - old), share * 0.01, rtol=0.02)
