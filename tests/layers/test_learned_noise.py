"""Noise that is learned: one for all, or one an example. Its maximum-likelihood value is known where means are free."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST
from scipy import stats

import singularbayes as sb
from singularbayes import Gaussian, LowRank, MeanScale, layers

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(4)
GROUPS = np.arange(32) % 2
TARGETS = np.array([[1.0], [-1.0]])[GROUPS] + np.array([[0.3], [1.5]])[GROUPS] * RNG.normal(size=(32, 1))


def _rho(scale):
    return np.log(np.expm1(scale))


def _trained(network, x, y, steps=200):
    model = keras.Sequential([keras.Input(x.shape[1:]), *network])
    rate = keras.optimizers.schedules.CosineDecay(0.2, steps)
    together = 1 if keras.backend.backend() == "torch" else steps
    model.compile(keras.optimizers.Adam(rate), MeanScale(), steps_per_execution=together)
    model.fit(np.tile(x, (steps, 1)), np.tile(y, (steps, 1)), batch_size=len(x), shuffle=False, verbose=0)
    return model


@TORCH_FIRST
def test_one_learned_noise_becomes_the_sample_standard_deviation_around_the_sample_mean():
    model = _trained([keras.layers.Dense(1), layers.LearnedNoise()], np.ones((32, 1)), TARGETS)
    p = sb.predict(model, np.ones((3, 1)))
    np.testing.assert_allclose(p.mean, TARGETS.mean(), atol=1e-3)
    np.testing.assert_allclose(p.noise, TARGETS.std(), rtol=1e-3)
    np.testing.assert_array_equal(p.variance("epistemic"), 0)
    np.testing.assert_allclose(p.variance("total"), p.noise**2)


@TORCH_FIRST
def test_a_head_of_two_learns_mean_and_standard_deviation_of_every_group():
    model = _trained([keras.layers.Dense(2, use_bias=False)], np.eye(2)[GROUPS], TARGETS)
    p = sb.predict(model, np.eye(2))
    own = TARGETS.reshape(16, 2)  # a group a column
    np.testing.assert_allclose(p.mean, own.mean(axis=0), atol=5e-3)
    np.testing.assert_allclose(p.noise, own.std(axis=0), rtol=5e-3)


@TORCH_FIRST
def test_the_loss_is_minus_the_log_density_summed_over_outputs():
    y, mean = RNG.normal(size=(2, 6, 3)).astype("float32")
    scale = RNG.uniform(0.2, 3, (6, 3))
    prediction = np.concatenate([mean, _rho(scale)], -1).astype("float32")
    expected = -stats.norm(mean, scale).logpdf(y).sum(-1)
    loss = MeanScale(reduction=None)
    np.testing.assert_allclose(ops.convert_to_numpy(loss(y, prediction)), expected, rtol=1e-4)
    assert isinstance(keras.losses.deserialize(keras.losses.serialize(loss)), MeanScale)


@TORCH_FIRST
@pytest.mark.parametrize("loss", [Gaussian(0.5), MeanScale()])
def test_targets_without_their_last_axis_of_one_are_the_same_targets(loss):
    y = RNG.normal(size=7).astype("float32")
    prediction = RNG.normal(size=(7, 1 if isinstance(loss, Gaussian) else 2)).astype("float32")
    one, other = (float(ops.convert_to_numpy(loss(targets, prediction))) for targets in (y, y[:, None]))
    assert one == other


@pytest.mark.parametrize("loss", [Gaussian(0.5), MeanScale()])
def test_targets_of_another_shape_are_refused(loss):
    with pytest.raises(ValueError, match=rf"{type(loss).__name__} needs targets in the shape of the outputs, \(7, 2\)"):
        loss(np.zeros(7), np.zeros((7, 2 if isinstance(loss, Gaussian) else 4)))


def _bayesian(noise=None):
    head = [layers.Dense(2, posterior=LowRank(2, eta=1.0)), *([noise] if noise else [])]
    model = keras.Sequential([keras.Input((3,)), layers.Dense(8, "tanh", posterior=LowRank(2, eta=0.5)), *head])
    model.compile("adam", MeanScale())
    return model


@TORCH_FIRST
def test_the_predictive_is_the_law_of_total_variance_over_the_draws():
    model, x = _bayesian(), RNG.normal(size=(5, 3))
    p = sb.predict(model, x, draws=300, seed=3, batch_size=2, keep_draws=True)
    raw = sb.predict(model, x, draws=300, seed=3, likelihood="gaussian", keep_draws=True).draws
    means, scales = raw[..., 0], np.logaddexp(0, raw[..., 1])
    np.testing.assert_allclose(p.draws, means, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(p.mean, means.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(p.variance("epistemic"), means.var(0), rtol=1e-4)
    np.testing.assert_allclose(p.variance("aleatoric"), (scales**2).mean(0), rtol=1e-4)
    # The variance of targets drawn from the mixture, within its standard error.
    targets = means + scales * RNG.normal(size=(1000, *means.shape))
    squares = (targets - p.mean) ** 2
    error = squares.mean(0).std(0) / np.sqrt(300)
    assert (np.abs(squares.mean((0, 1)) - p.variance("total")) < 5 * error).all()


@TORCH_FIRST
def test_the_learned_noise_has_a_gradient_beside_a_posterior_and_is_saved_with_it(tmp_path):
    model, x = _bayesian(layers.LearnedNoise(scale=0.5)), RNG.normal(size=(32, 3))
    model.fit(x, x[:, :2], epochs=3, verbose=0, callbacks=[sb.KLSchedule(32, beta=1.0)])
    p = sb.predict(model, x, draws=20)
    assert p.mean.shape == p.noise.shape == (32, 2)
    assert (p.noise[0] != 0.5).all() and (p.noise == p.noise[0]).all()
    model.save(tmp_path / "model.keras")
    again = sb.predict(sb.load(tmp_path / "model.keras"), x, draws=20)
    for name in ("mean", "std", "noise"):
        np.testing.assert_allclose(getattr(again, name), getattr(p, name), rtol=1e-5, atol=1e-6)


def test_frozen_draws_say_the_noise_too():
    model, x = _bayesian(), RNG.normal(size=(4, 3)).astype("float32")
    p = sb.predict(model, x, draws=6, seed=1)
    answer = sb.freeze_draws(model, 6, seed=1).predict(x, verbose=0)
    for name in ("mean", "std", "noise"):
        np.testing.assert_allclose(answer[name], getattr(p, name), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-4, 0.5, 1e4])
def test_the_learned_noise_starts_where_it_is_told(scale):
    outputs = ops.convert_to_numpy(layers.LearnedNoise(scale)(np.zeros((2, 3))))
    noise = np.sqrt(MeanScale().statistics(outputs)["noise_variance"])
    np.testing.assert_allclose(noise, scale, rtol=2e-2 if scale < 1e-3 else 1e-5)  # 10⁻⁶ is the least


def test_wrong_heads_and_scales_are_refused():
    with pytest.raises(ValueError, match=r"two outputs for every target, .*got outputs of shape \(examples, …, 3\)"):
        MeanScale()(np.zeros((2, 1)), np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"Double the units of the last layer, or put layers.LearnedNoise\(\) behind"):
        MeanScale().statistics(np.zeros((5, 2, 1)))
    for scale in (0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="LearnedNoise needs scale > 0"):
            layers.LearnedNoise(scale)
