"""Scores of predicted numbers: a noise that fits validation, units, and arrays that give the same scores again."""

import numpy as np
import pytest
from scipy import optimize, stats
from singularbayes_experiments.methods import value_scores

from singularbayes import metrics
from singularbayes.prediction import ValuePredictive

RNG = np.random.default_rng(0)
N = 400
SCALE = RNG.uniform(0.5, 2.0, N)
P = ValuePredictive(RNG.normal(size=N), RNG.uniform(0.1, 0.3, N), 20, noise=SCALE)
Y = P.mean + np.hypot(P.std, 3 * SCALE) * RNG.normal(size=N)


def test_a_factor_is_the_maximum_of_the_likelihood():
    def nll(factor):
        return -stats.norm.logpdf(Y, P.mean, np.sqrt(P.std**2 + (factor * SCALE) ** 2)).sum()

    expected = optimize.minimize_scalar(nll, bounds=(0.1, 10), method="bounded", options={"xatol": 1e-9}).x
    (found,) = value_scores.noise_weights(P, Y, SCALE[:, None])
    assert found == pytest.approx(expected, rel=1e-4)
    assert found == pytest.approx(3, abs=3 * 3 / np.sqrt(2 * N))  # the truth, in standard errors of a scale


def test_a_noise_that_grows_with_a_number_is_found_and_no_other_weights_are_likelier():
    rng = np.random.default_rng(1)
    level = rng.exponential(1.0, 4_000)
    p = ValuePredictive(np.zeros(4_000), np.full(4_000, 0.2), 20, noise=1.0)
    y = np.hypot(0.2, 0.5 + 2 * level) * rng.normal(size=4_000)
    kinds = np.stack([np.ones(4_000), level, rng.uniform(size=4_000)], axis=1)
    found = value_scores.noise_weights(p, y, kinds)
    np.testing.assert_allclose(found, [0.5, 2.0, 0.0], atol=0.15)

    def nll(weights):
        return value_scores.quality(value_scores.with_noise(p, kinds @ weights), y)["nll"]

    for step in ([0.03, 0, 0], [0, 0.03, 0], [0, 0, 0.03], [-0.03, 0, 0], [0, -0.03, 0]):
        assert nll(found + step) > nll(found)


def test_without_a_spread_over_draws_one_noise_is_the_error_of_validation():
    one = ValuePredictive(P.mean, np.zeros(N), 1, noise=1.0)
    (found,) = value_scores.noise_weights(one, Y, np.ones((N, 1)))
    assert found == pytest.approx(np.sqrt(((Y - P.mean) ** 2).mean()), rel=1e-5)


def test_a_spread_that_says_it_all_leaves_no_noise():
    wide = ValuePredictive(P.mean, np.full(N, 100.0), 20, noise=1.0)
    assert 0 < value_scores.noise_weights(wide, Y, np.ones((N, 1)))[0] < 1e-3 * np.abs(Y - P.mean).max()


def test_units_change_the_nll_by_their_logarithm_and_leave_what_has_none():
    y = 100 + 90 * Y
    standard = ValuePredictive(P.mean[:, None], P.std[:, None], 20, noise=SCALE[:, None])
    p = value_scores.in_units(standard, 100, 90)
    ours, plain = value_scores.of_test(p, y, {}), value_scores.of_test(P, Y, {})
    assert ours["nll_total"] == pytest.approx(plain["nll_total"] + np.log(90))
    for name in ("mae", "mpiw_95_total", "crps_epistemic", "risk_at_80_epistemic"):
        assert ours[name] == pytest.approx(90 * plain[name])
    for name in ("r2", "picp_95_total", "calibration_error_epistemic"):
        assert ours[name] == pytest.approx(plain[name])


def test_selective_errors_are_means_of_the_most_certain():
    found = value_scores.selective(P, Y)
    order = np.argsort(P.std)
    for share in (0.9, 0.8, 0.7):
        kept = order[: int(share * N)]
        assert found[f"risk_at_{100 * share:.0f}_epistemic"] == pytest.approx(np.abs(Y - P.mean)[kept].mean())
    assert "risk_at_80_epistemic" not in value_scores.selective(ValuePredictive(P.mean, 0 * P.std, 1, noise=1.0), Y)


def test_conformal_intervals_hold_their_share_of_new_targets():
    held = ValuePredictive(P.mean[:200], P.std[:200], 20, noise=SCALE[:200])
    test = ValuePredictive(P.mean[200:], P.std[200:], 20, noise=SCALE[200:])
    found = value_scores.conformal(test, Y[200:], held, Y[:200])
    assert abs(found["conformal_picp_95"] - 0.95) < 4 * np.sqrt(0.95 * 0.05 * 2 / 200)
    total = np.sqrt(held.variance("total"))
    quantile = np.sort(np.abs(Y[:200] - held.mean) / total)[int(np.ceil(201 * 0.95)) - 1]
    width = 2 * quantile * np.sqrt(test.variance("total")).mean()
    assert found["conformal_mpiw_95"] == pytest.approx(width)


def test_scores_can_be_made_again_from_the_arrays():
    arrays = value_scores.stored("test", P, Y) | value_scores.stored("other", P)
    p = value_scores.read_back("test", arrays, draws=20)
    again = value_scores.of_test(p, arrays["test_targets"].astype("float64"), {"other": p})
    for name, value in value_scores.of_test(P, Y, {"other": P}).items():
        assert again[name] == pytest.approx(value, rel=1e-3, abs=1e-4), name


def test_quality_is_of_the_total_variance():
    found = value_scores.quality(value_scores.with_noise(P, 2 * SCALE), Y)
    assert found["nll"] == pytest.approx(metrics.gaussian_nll(P.mean, np.hypot(P.std, 2 * SCALE), Y), rel=1e-12)
    assert found["mae"] == np.abs(P.mean - Y).mean()
