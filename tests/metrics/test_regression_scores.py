"""Scores of numbers and intervals equal the paper's, scikit-learn's, quadrature and simulation."""

import numpy as np
import pytest
import scoringrules
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sklearn_metrics

from singularbayes.metrics import (
    calibration_of_levels,
    crps_sample,
    gaussian_nll,
    interval_calibration_curve,
    interval_coverage,
    interval_score,
    interval_width,
    mean_absolute_error,
    r_squared,
    root_mean_square_error,
)

POINT = [mean_absolute_error, root_mean_square_error, r_squared]
SPREAD = [
    gaussian_nll,
    interval_calibration_curve,
]


def made_up(seed=0, shape=(30,)):
    rng = np.random.default_rng(seed)
    mean, std = rng.normal(size=shape), rng.uniform(0.5, 2, shape)
    return mean, std, mean + std * rng.normal(size=shape)


def needed(mean, std, y):
    """The level of the smallest Gaussian interval that holds the target."""
    return np.abs(2 * stats.norm.cdf(y, mean, std) - 1)


def test_scores_equal_the_papers_numbers(vectors):
    case = vectors["gaussian_regression_scores"]
    y, mean, std = (np.array(case["inputs"][name]) for name in ("y", "mean", "std"))
    expected = case["expected"]
    lower, upper = np.array(expected["lower"]), np.array(expected["upper"])
    found = {
        "mae": mean_absolute_error(mean, y),
        "rmse": root_mean_square_error(mean, y),
        "nll_mean": gaussian_nll(mean, std, y),
        "picp": interval_coverage(lower, upper, y),
        "mpiw": interval_width(lower, upper),
        "interval_score_mean": interval_score(lower, upper, y, level=1 - case["inputs"]["alpha"]),
    }
    assert found == pytest.approx({name: expected[name] for name in found}, rel=1e-12)
    for i in range(4):
        one = slice(i, i + 1)
        assert gaussian_nll(mean[one], std[one], y[one]) == pytest.approx(expected["nll"][i], rel=1e-12)
        score = interval_score(lower[one], upper[one], y[one])
        assert score == pytest.approx(expected["interval_score"][i], rel=1e-12)


@pytest.mark.parametrize("shape", [(30,), (30, 1), (30, 3)])
def test_point_scores_are_scikit_learns(shape):
    p, _, y = made_up(shape=shape)
    assert mean_absolute_error(p, y) == pytest.approx(sklearn_metrics.mean_absolute_error(y, p), rel=1e-12)
    assert r_squared(p, y) == pytest.approx(sklearn_metrics.r2_score(y, p), rel=1e-12)
    squared = sklearn_metrics.mean_squared_error(y, p)
    assert root_mean_square_error(p, y) == pytest.approx(np.sqrt(squared), rel=1e-12)


def test_the_gaussian_score_is_scipys_density():
    mean, std, y = made_up()
    assert gaussian_nll(mean, std, y) == pytest.approx(-stats.norm(mean, std).logpdf(y).mean(), rel=1e-12)


@pytest.mark.parametrize("shape", [(30,), (30, 1), (30, 3)])
def test_crps_of_draws_is_the_energy_form_over_all_pairs_of_different_draws(shape):
    draws = np.random.default_rng(1).normal(size=(7, *shape))
    _, _, y = made_up(shape=shape)
    pairs = np.abs(draws[:, None] - draws).sum(axis=(0, 1)) / (7 * 6)
    assert crps_sample(draws, y) == pytest.approx((np.abs(draws - y).mean(axis=0) - pairs / 2).mean(), rel=1e-12)


@pytest.mark.parametrize("draws", [2, 5, 50])
def test_crps_of_draws_does_not_depend_on_their_number_on_average(draws):
    rng = np.random.default_rng(draws)
    found = [crps_sample(rng.normal(size=(draws, 200)), np.full(200, 0.5)) for _ in range(200)]
    assert abs(np.mean(found) - scoringrules.crps_normal(0.5, 0, 1)) < 4 * np.std(found) / np.sqrt(len(found))


def test_crps_of_many_draws_is_the_gaussian_one_and_of_one_the_absolute_error():
    mean, std, y = made_up()
    quantiles = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    exact = scoringrules.crps_normal(y, mean, std).mean()
    assert crps_sample(mean + std * quantiles[:, None], y) == pytest.approx(exact, rel=1e-3)
    assert crps_sample(mean[None], y) == pytest.approx(mean_absolute_error(mean, y))


def test_coverage_of_gaussian_targets_is_the_level_within_standard_errors():
    mean, std, y = made_up(shape=(4000,))
    curve = interval_calibration_curve(mean, std, y)
    error = np.sqrt(curve.levels * (1 - curve.levels) / 4000)
    assert (np.abs(curve.observed - curve.levels) < 4 * error).all()
    np.testing.assert_allclose(curve.levels, np.arange(1, 20) / 20)
    # The quantiles of the normal are as calibrated as n targets can be: the area is that of the staircase, 1/(4n).
    even = stats.norm.ppf((np.arange(50) + 0.5) / 50)
    assert calibration_of_levels(needed(0, 1, even[25:]))["area"] == pytest.approx(1 / 100)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 999), sharpness=st.floats(0.2, 5))
def test_the_curve_is_the_coverage_of_intervals_and_the_area_its_integral(seed, sharpness):
    mean, std, y = made_up(seed)
    curve = interval_calibration_curve(mean, std / sharpness, y, levels=np.arange(1, 4000) / 4000)
    for i in (399, 1999, 3799):
        half = stats.norm.ppf((1 + curve.levels[i]) / 2) * std / sharpness
        assert curve.observed[i] == interval_coverage(mean - half, mean + half, y)
    gaps = np.abs(curve.observed - curve.levels)
    assert calibration_of_levels(needed(mean, std / sharpness, y))["area"] == pytest.approx(gaps.mean(), abs=1e-3)


def test_a_last_axis_of_one_may_be_missing_and_never_broadcasts():
    mean, std, y = made_up()
    assert root_mean_square_error(mean[:, None], y) == root_mean_square_error(mean, y)
    assert gaussian_nll(mean[:, None], std, y[:, None]) == gaussian_nll(mean, std, y)
    assert crps_sample(mean[None, :, None], y) == crps_sample(mean[None], y)


@pytest.mark.parametrize("score", POINT)
def test_wrong_predictions_are_refused(score):
    for predictions, targets, message in [
        (np.ones((3, 2)), np.ones(3), r"one shape, .* got predictions \(3, 2\), targets \(3,\)"),
        (np.ones(1), np.ones(3), r"got predictions \(1,\), targets \(3,\)"),
        (np.ones(0), np.ones(0), r"not empty; got predictions \(0,\)"),
        (np.ones(3), np.array([1, 2, np.nan]), r"finite numbers; got nan in targets at \[2\]"),
    ]:
        with pytest.raises(ValueError, match=f"{score.__name__} needs .*{message}"):
            score(predictions, targets)


@pytest.mark.parametrize("score", SPREAD)
def test_wrong_spreads_are_refused(score):
    for std, message in [
        (-np.ones(3), "std >=? 0; got -1"),
        (np.ones(2), r"std \(2,\)"),
        (np.array([1, np.inf, 1]), r"got inf in std at \[1\]"),
    ]:
        with pytest.raises(ValueError, match=f"{score.__name__} needs .*{message}"):
            score(np.zeros(3), std, np.ones(3))
    with pytest.raises(
        ValueError, match=rf'{score.__name__} needs std > 0; got 0. .*add the noise \(variance="total"\)'
    ):
        score(np.zeros(3), np.array([1, 0, 1]), np.ones(3))


def test_other_wrong_input_is_refused():
    with pytest.raises(ValueError, match=r"r_squared needs targets that differ, in every output; got \d of one value"):
        r_squared(np.ones(3), np.ones(3))
    for draws, message in [
        (np.ones(3), r"\(draws, examples, …\), not empty; got \(3,\)"),
        (np.ones((5, 2)), r"the first draw \(2,\), targets \(3,\)"),
        (np.full((5, 3), np.nan), "got nan in draws"),
    ]:
        with pytest.raises(ValueError, match=f"crps_sample needs .*{message}"):
            crps_sample(draws, np.ones(3))
    low, high = np.array([0.0, 2.0]), np.ones(2)
    with pytest.raises(ValueError, match="interval_coverage needs lower <= upper; got 1 of 2 the other way round"):
        interval_coverage(low, high, np.ones(2))
    with pytest.raises(ValueError, match="interval_score needs 0 < level < 1; got level=95"):
        interval_score(high, high, high, 95)
    with pytest.raises(ValueError, match="interval_calibration_curve needs levels between 0 and 1; got levels="):
        interval_calibration_curve(low, high, high, levels=[0.5, 1])


def test_a_tiny_spread_gives_no_missing_number():
    expected = 0.5 * np.log(2 * np.pi) - 200 * np.log(10)
    assert gaussian_nll(np.ones(1), np.full(1, 1e-200), np.ones(1)) == pytest.approx(expected)
    assert gaussian_nll(np.zeros(1), np.full(1, 1e-200), np.ones(1)) == np.inf
