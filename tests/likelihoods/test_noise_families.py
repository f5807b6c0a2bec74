"""Losses and families of noise against scipy.stats; predictive distributions against brute force."""

import keras
import numpy as np
import pytest
from keras import ops
from posterior_table import TORCH_FIRST
from scipy import integrate, special, stats

import singularbayes as sb
from singularbayes.likelihoods import COUNTS, GAUSSIAN, LAPLACE, RunningMoments, StudentTFamily
from singularbayes.likelihoods.base import MIN_SCALE

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(0)
MEAN, RHO = RNG.normal(size=(2, 9, 2)).astype("float32")
SCALE = np.logaddexp(0, RHO.astype("float64")) + MIN_SCALE
TARGETS, MANY = RNG.normal(size=(9, 2)) * 3, RNG.integers(0, 30, (9, 2))
BOTH = np.concatenate([MEAN, RHO], -1)


def _nbinom(mean, alpha):
    return stats.nbinom(1 / alpha, 1 / (1 + alpha * mean))


# Loss, its outputs, targets, and the distribution that they mean.
LOSSES = {
    "gaussian": (sb.Gaussian(0.4), MEAN, TARGETS, stats.norm(MEAN, 0.4)),
    "mean_scale": (sb.MeanScale(), BOTH, TARGETS, stats.norm(MEAN, SCALE)),
    "laplace": (sb.LaplaceNoise(), BOTH, TARGETS, stats.laplace(MEAN, SCALE)),
    "laplace, known": (sb.LaplaceNoise(0.4), MEAN, TARGETS, stats.laplace(MEAN, 0.4)),
    "student_t": (sb.StudentTNoise(df=3), BOTH, TARGETS, stats.t(3, MEAN, SCALE)),
    "student_t, known": (sb.StudentTNoise(df=5.5, scale=2.0), MEAN, TARGETS, stats.t(5.5, MEAN, 2.0)),
    "poisson": (sb.Poisson(), MEAN, MANY, stats.poisson(np.exp(MEAN))),
    "negative_binomial": (sb.NegativeBinomial(), BOTH, MANY, _nbinom(np.exp(MEAN), SCALE)),
    "negative_binomial, known": (sb.NegativeBinomial(2.0), MEAN, MANY, _nbinom(np.exp(MEAN), 2.0)),
    "bernoulli": (sb.Bernoulli(), MEAN, MANY % 2, stats.bernoulli(special.expit(MEAN))),
    "bernoulli, not logits": (
        sb.Bernoulli(from_logits=False),
        special.expit(MEAN),
        MANY % 2,
        stats.bernoulli(special.expit(MEAN)),
    ),
}


@TORCH_FIRST
@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_is_minus_the_log_density_summed_over_outputs(name):
    loss, outputs, targets, exact = LOSSES[name]
    log = exact.logpdf(targets) if hasattr(exact.dist, "pdf") else exact.logpmf(targets)
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert type(again) is type(loss) and again.get_config() == loss.get_config()
    found = ops.convert_to_numpy(again(targets.astype("float32"), outputs))
    np.testing.assert_allclose(found, -log.sum(-1).mean(), rtol=2e-6)
    column = type(loss)(**{**loss.get_config(), "reduction": None})(targets[:, :1], outputs[:, ::2])
    np.testing.assert_allclose(ops.convert_to_numpy(column), -log[:, 0], rtol=2e-5, atol=2e-6)


@TORCH_FIRST
@pytest.mark.parametrize("alpha", [1e-6, 1e-3, 0.1, 3.0, 50.0])
def test_the_negative_binomial_is_accurate_from_poisson_to_wide(alpha):
    y, mean = np.array([0, 1, 3, 40, 900.0]), np.array([0.01, 1.0, 20.0, 45.0, 1000.0])
    loss = sb.NegativeBinomial(alpha, reduction=None)
    found = ops.convert_to_numpy(loss(y[:, None].astype("float32"), np.log(mean)[:, None].astype("float32")))
    np.testing.assert_allclose(found, -_nbinom(mean, alpha).logpmf(y), rtol=1e-4, atol=2e-4)


FAMILIES = {"gaussian": GAUSSIAN, "laplace": LAPLACE, "student_t": StudentTFamily(3.5), "counts": COUNTS}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_the_moments_that_it_is_given_and_its_crps_is_the_integral(name):
    family = FAMILIES[name]
    mean, std = np.array([0.4, 3.0, 12.0]), np.array([0.9, 1.75, 6.0])  # the second are Poisson counts
    std[1] = np.sqrt(3.0)
    found = family.distribution(mean, std)
    if name == "counts":
        grid = np.arange(2000.0)[:, None]
        weights = np.exp(found.logpmf(grid))
        np.testing.assert_allclose([(weights * grid).sum(0), (weights * grid**2).sum(0)], [mean, mean**2 + std**2])
        np.testing.assert_allclose(weights.cumsum(0), found.cdf(grid), atol=1e-12)
    else:
        np.testing.assert_allclose([found.mean(), found.std()], [mean, std])
    for target in (0.0, 5.0, 17.0):
        y = np.full(3, target)
        if name == "counts":
            expected = ((found.cdf(grid) - (y <= grid)) ** 2).sum(0)
        else:
            expected = [_crps(family.distribution(m, s), target) for m, s in zip(mean, std, strict=True)]
        np.testing.assert_allclose(family.crps(mean, std, y), expected, rtol=1e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_needed_level_is_the_least_whose_interval_contains_the_target(name):
    family, y = FAMILIES[name], np.arange(12.0)
    mean, std = np.full(12, 3.0), np.full(12, 2.0)
    needed = family.needed_level(mean, std, y)
    for level in (0.03, 0.3, 0.6, 0.9, 0.99):
        lower, upper = (family.quantile(q, mean, std) for q in ((1 - level) / 2, (1 + level) / 2))
        np.testing.assert_array_equal(needed <= level, (lower <= y) & (y <= upper))


def _crps(distribution, y):
    below = integrate.quad(lambda t: distribution.cdf(t) ** 2, -np.inf, y)[0]
    return below + integrate.quad(lambda t: distribution.sf(t) ** 2, y, np.inf)[0]


@pytest.mark.parametrize("mean", [0.02, 1.0, 30.0, 500.0])
@pytest.mark.parametrize("excess", [1.0, 1.00001, 1.05, 2.0, 20.0])
def test_the_crps_of_counts_is_the_sum_over_all_counts(mean, excess):
    m, s, grid = np.full(3, mean), np.full(3, np.sqrt(excess * mean)), np.arange(20000.0)[:, None]
    y = np.array([0.0, np.round(mean), np.round(3 * mean + 1)])
    expected = ((COUNTS.distribution(m, s).cdf(grid) - (y <= grid)) ** 2).sum(0)
    np.testing.assert_allclose(COUNTS.crps(m, s, y), expected, rtol=1e-7, atol=1e-9)


def _sampled(name, outputs, rng, each):
    """Returns so many targets of every draw and example, from the definitions."""
    first, second = np.split(outputs, 2, -1) if name != "poisson_log" else (outputs, outputs)
    scale, size = np.logaddexp(0, second) + MIN_SCALE, (each, *first.shape)
    if name == "laplace":
        return rng.laplace(first, scale, size)
    if name == "student_t":
        return first + scale * rng.standard_t(4.0, size)
    if name == "poisson_log":
        return rng.poisson(np.exp(first), size)
    return rng.poisson(rng.gamma(1 / scale, scale * np.exp(first), size))


@pytest.mark.parametrize("name", ["laplace", "student_t", "poisson_log", "negative_binomial"])
def test_mean_variance_and_quantiles_are_those_of_targets_drawn_from_every_draw(name):
    rng, likelihood = np.random.default_rng(1), sb.likelihoods.LIKELIHOODS[name]
    base = rng.normal(size=(1, 4, 2 if name == "poisson_log" else 4)) + 1
    outputs = base + 0.15 * rng.normal(size=(50, *base.shape[1:]))
    statistics, moments = likelihood.statistics(outputs), {}
    for key, values in statistics.items():
        moments[key] = RunningMoments(4)
        moments[key].update(slice(None), values)
    p = likelihood.predictive(moments, 50, statistics["prediction"])
    samples = _sampled(name, outputs, rng, 4000).reshape(-1, 4, 2)
    error = samples.std(0) / np.sqrt(len(samples))
    assert (np.abs(samples.mean(0) - p.mean) < 4.5 * error).all()
    np.testing.assert_allclose(samples.var(0), p.variance("total"), rtol=0.1 if name == "student_t" else 0.04)
    lower, upper = p.interval(0.9)
    covered = ((lower <= samples) & (samples <= upper)).mean(0)
    if name in ("laplace", "student_t"):
        np.testing.assert_allclose(covered, 0.9, atol=0.01)
    else:  # of counts the smallest integers that reach the level
        np.testing.assert_allclose([lower, upper], np.quantile(samples, [0.05, 0.95], axis=0), atol=1)
    noisy = p.family.add_noise(np.tile(p.draws, (200, 1, 1)), np.sqrt(p.variance("aleatoric")), rng)
    assert (np.abs(noisy.mean(0) - p.mean) < 4.5 * noisy.std(0) / np.sqrt(len(noisy))).all()
    np.testing.assert_allclose(noisy.var(0), p.variance("total"), rtol=0.25 if name == "student_t" else 0.12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sb.StudentTNoise(df=2), r"StudentTNoise needs df > 2, so that the noise has a variance; got df=2"),
        (lambda: sb.Gaussian(float("nan")), r"Gaussian needs .*scale"),
        (lambda: sb.Gaussian()(np.ones((4, 1)), np.ones((4, 1))), r"Gaussian of known scale as its loss"),
        (lambda: sb.LaplaceNoise(0.0), r"LaplaceNoise needs .*scale"),
        (lambda: sb.NegativeBinomial(-1.0), r"NegativeBinomial needs .*dispersion"),
        (lambda: sb.LaplaceNoise()(np.ones((4, 1)), np.ones((4, 3))), r"two outputs for every target"),
        (lambda: sb.Poisson()(np.ones((4, 2)), np.ones((4, 3))), r"Poisson needs targets in the shape"),
        (lambda: sb.Bernoulli()(np.ones((4, 2)), np.ones((4, 3))), r"Bernoulli needs targets in the shape"),
        (
            lambda: sb.Poisson(False).statistics(-np.ones((1, 2, 1))),
            r"needs rates, .* -1.*Poisson",
        ),
        (lambda: COUNTS.nll(np.ones(2), np.ones(2), np.array([0.5, 1])), r"counts needs targets that are integers"),
    ],
)
def test_what_is_no_noise_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@TORCH_FIRST
def test_fit_trains_counts_and_outliers_and_files_load(tmp_path):
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 1)).astype("float32")
    rate = np.exp(1 + 0.5 * x)
    counts = rng.negative_binomial(2.0, 1 / (1 + 0.5 * rate)).astype("float32")  # α = ½
    model = keras.Sequential([keras.Input((1,)), sb.layers.Dense(1, posterior=sb.FullRank()), sb.layers.LearnedNoise()])
    model.compile(keras.optimizers.Adam(0.05), sb.NegativeBinomial())
    model.fit(x, counts, epochs=30, batch_size=100, verbose=0, callbacks=[sb.KLSchedule(num_data=400, beta=1.0)])
    model.save(tmp_path / "counts.keras")
    p = sb.predict(sb.load(tmp_path / "counts.keras"), x, draws=40)
    assert p.family == COUNTS
    np.testing.assert_allclose(np.ravel(p.mean), rate[:, 0], rtol=0.35)
    alpha = ((p.variance("aleatoric") - p.mean) / p.mean**2).mean()
    assert 0.3 < alpha < 0.8
    found = sb.evaluate(p, counts[:, 0])
    assert 0.92 < found.value("picp_95_total") <= 1
    lower, upper = p.interval(0.95)
    assert (lower >= 0).all() and (upper == np.floor(upper)).all()
