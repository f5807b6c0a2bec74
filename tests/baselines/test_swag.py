"""SWAG: its Gaussian has the covariance that it reports, and on a quadratic that of stationary SGD."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST, assert_unbiased

import singularbayes as sb
from singularbayes import SWAG, LowRank, layers
from singularbayes.baselines.swag import Snapshots, renew_statistics

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(8)
X = RNG.normal(size=(40, 3)).astype("float32")
TARGET = X @ np.array([[1.0], [-1.0], [0.5]], "float32")


def _line(*before):
    model = keras.Sequential([keras.Input((3,)), *before, keras.layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def _snapshots(rank, values):
    snapshots = Snapshots(rank)
    for value in values:
        snapshots.add(value)
    return snapshots


@pytest.mark.parametrize(("rank", "collected"), [(3, 8), (8, 8), (20, 5), (2, 2)])
def test_draws_have_half_the_diagonal_and_half_the_low_rank_covariance(rank, collected):
    path = RNG.normal(size=(collected, 4)) @ RNG.normal(size=(4, 4))
    snapshots = _snapshots(rank, path)
    running = np.cumsum(path, axis=0) / np.arange(1, collected + 1)[:, None]
    k = min(rank, collected)
    deviations = (path - running)[-k:]
    expected = 0.5 * (np.diag(path.var(axis=0)) + deviations.T @ deviations / (k - 1))
    rng = np.random.default_rng(0)
    draws = np.stack([snapshots.draw(rng) for _ in range(4000)]) - path.mean(axis=0)
    assert_unbiased(draws, 0.0)
    assert_unbiased(draws[:, :, None] * draws[:, None, :], expected)


class Shift(keras.layers.Layer):
    """x + θ."""

    def build(self, input_shape):
        self.theta = self.add_weight(shape=input_shape[1:], initializer="zeros")

    def call(self, x):
        return x + self.theta


def test_on_a_quadratic_it_recovers_the_stationary_covariance_of_sgd():
    # The loss ½ ‖θ + ε‖² has gradient θ + ε: constant-rate SGD with Gaussian noise of variance s²/b, so
    # Var θ = a² s²/b / (1 − (1 − a)²), and snapshots 12 steps apart have correlation (1 − a)¹² = 0.0002.
    size, rate, batch, collected, rank = 600, 0.5, 2, 40, 20
    model = keras.Sequential([keras.Input((size,)), keras.layers.GaussianNoise(1.0), Shift()])
    model.compile("sgd", sb.Gaussian(1.0))
    zeros = np.zeros((12 * batch, size), "float32")
    swag = SWAG(model, rank).fit(
        zeros, zeros, collected + 3, batch, start=3, optimizer=keras.optimizers.SGD(rate), seed=1
    )
    variance = rate**2 / batch / (1 - (1 - rate) ** 2)
    assert_unbiased(swag.snapshots.mean, 0.0)
    assert_unbiased(swag.snapshots.variance, variance * (1 - 1 / collected))
    # A deviation from the running mean of i snapshots has the share 1 − 1/i.
    i = np.arange(collected - rank + 1, collected + 1)
    low_rank = (np.stack(swag.snapshots.deviations).astype("float64") ** 2).sum(axis=0) / (rank - 1)
    assert_unbiased(low_rank, variance * (1 - 1 / i).sum() / (rank - 1))


@TORCH_FIRST
def test_it_predicts_with_its_draws_and_leaves_the_model_at_the_mean():
    swag = SWAG(_line(), rank=4).fit(X, TARGET, epochs=6, start=1)
    p = swag.predict(X, draws=8, seed=3, keep_draws=True)
    keys = np.random.SeedSequence(3).generate_state(16) >> 1
    for key, found in zip(keys.reshape(8, 2), p.draws, strict=True):
        w = swag.snapshots.draw(np.random.default_rng(key))
        np.testing.assert_allclose(found, X @ w[:3] + w[3], rtol=1e-4, atol=1e-5)
    assert p.num_draws == 8 and (p.std > 0).all()
    np.testing.assert_allclose(
        np.concatenate([ops.convert_to_numpy(v).ravel() for v in swag.model.weights]), swag.snapshots.mean, rtol=1e-6
    )
    assert swag.snapshots.collected == 5 and len(swag.history.history["loss"]) == 6


@TORCH_FIRST
def test_draws_are_normalised_by_the_statistics_of_the_training_inputs(tmp_path):
    hidden = keras.layers.Dense(4, name="hidden")
    norm = keras.layers.BatchNormalization(epsilon=1e-5)
    swag = SWAG(_line(hidden, norm, keras.layers.Dropout(0.5)), rank=2).fit(X, TARGET, epochs=3)
    # The model stands at the mean, so its running statistics are those of the hidden values there.
    values = X @ ops.convert_to_numpy(hidden.kernel) + ops.convert_to_numpy(hidden.bias)
    np.testing.assert_allclose(ops.convert_to_numpy(norm.moving_mean), values.mean(axis=0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ops.convert_to_numpy(norm.moving_variance), values.var(axis=0), rtol=1e-4)
    p = swag.predict(X[:5], draws=4)
    swag.save(tmp_path / "swag")
    with pytest.raises(ValueError, match=r"needs the training inputs .* SWAG.load\(folder, inputs=x\)"):
        SWAG.load(tmp_path / "swag").predict(X[:5], draws=4)
    again = SWAG.load(tmp_path / "swag", inputs=X).predict(X[:5], draws=4)
    np.testing.assert_allclose(again.mean, p.mean, rtol=1e-4, atol=1e-5)


def test_statistics_are_averaged_over_batches_of_any_size():
    norm = keras.layers.BatchNormalization()
    model = _line(norm)
    renew_statistics(model, X, batch_size=16)
    parts = [X[:16], X[16:32], X[32:]]
    shares = np.array([16, 16, 8])[:, None] / 40
    np.testing.assert_allclose(ops.convert_to_numpy(norm.moving_mean), X.mean(axis=0), rtol=1e-4, atol=1e-6)
    variances = (shares * [part.var(axis=0) for part in parts]).sum(axis=0)
    np.testing.assert_allclose(ops.convert_to_numpy(norm.moving_variance), variances, rtol=1e-4)
    assert norm.momentum == 0.99


@pytest.mark.parametrize(("epochs", "rank", "kept"), [(20, 20, 19), (25, 20, 20), (3, 20, 2)])
def test_it_stores_two_and_k_times_the_numbers(epochs, rank, kept):
    swag = SWAG(_line(), rank)
    swag.snapshots = _snapshots(rank, RNG.normal(size=(epochs, 4)))
    assert (swag.num_trained, swag.num_stored) == (4, (2 + kept) * 4)


@TORCH_FIRST
def test_a_saved_swag_predicts_the_same(tmp_path):
    swag = SWAG(_line(), rank=3).fit(X, TARGET, epochs=4)
    swag.save(tmp_path / "swag")
    again = SWAG.load(tmp_path / "swag")
    for one, other in zip(*(s.predict(X, draws=5, keep_draws=True).draws for s in (swag, again)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    assert again.num_stored == swag.num_stored


@pytest.mark.parametrize("bad", [1, 2.5])
def test_a_rank_below_2_is_refused(bad):
    with pytest.raises(ValueError, match=rf"SWAG needs rank to be an integer >= 2; got rank={bad!r}"):
        SWAG(_line(), bad)


def test_fewer_than_two_snapshots_or_weights_that_diverged_are_refused():
    with pytest.raises(ValueError, match="finite weights; got NaN or infinity in a snapshot"):
        Snapshots(2).add(np.array([np.nan]))
    swag = SWAG(_line())
    for ask in (lambda: swag.fit(X, TARGET, epochs=2, start=1), lambda: swag.predict(X)):
        with pytest.raises(ValueError, match=r"SWAG needs 2 or more snapshots; got [01]\. Call fit with epochs"):
            ask()


def test_what_is_no_compiled_point_network_is_refused():
    random = keras.Sequential([keras.Input((3,)), layers.Dense(2, posterior=LowRank(1))])
    with pytest.raises(ValueError, match="SWAG needs a compiled model; got"):
        SWAG(random)
    random.compile("sgd", "mse")
    with pytest.raises(ValueError, match="SWAG needs a deterministic network; got"):
        SWAG(random)
    with pytest.raises(TypeError, match=r"SWAG needs a Keras model; got 'a'"):
        SWAG("a")
    assert repr(SWAG(_line(), 5)).endswith("rank=5, 0 snapshots)")
