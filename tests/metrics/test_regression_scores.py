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


def test_the_published_swag_numbers_are_those_of_one_width_for_all(vectors):
    case = vectors["swag_beijing_consistency"]
    std = np.full(2, case["expected"]["sigma"])
    half = stats.norm.ppf(0.975) * std
    assert interval_width(-half, half) == pytest.approx(case["inputs"]["mpiw"])
    errors = case["inputs"]["rmse"] * np.array([1, -1])
    assert gaussian_nll(np.zeros(2), std, errors) == pytest.approx(case["expected"]["nll"], rel=1e-12)


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


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), unit=st.floats(0.01, 100), shift=st.floats(-10, 10))
def test_scores_follow_the_unit_of_the_targets(seed, unit, shift):
    mean, std, y = made_up(seed)
    moved = mean * unit + shift, std * unit, y * unit + shift
    order = np.random.default_rng(seed).permutation(30)
    assert mean_absolute_error(moved[0], moved[2]) == pytest.approx(unit * mean_absolute_error(mean, y))
    assert root_mean_square_error(moved[0], moved[2]) == pytest.approx(unit * root_mean_square_error(mean, y))
    assert r_squared(moved[0], moved[2]) == pytest.approx(r_squared(mean, y))
    assert gaussian_nll(*moved) == pytest.approx(np.log(unit) + gaussian_nll(mean, std, y), abs=1e-9)
    shuffled = calibration_of_levels(needed(mean[order], std[order], y[order]))
    assert shuffled == pytest.approx(calibration_of_levels(needed(mean, std, y)))


def test_a_perfect_and_a_useless_predictor_get_the_textbook_values():
    _, _, y = made_up()
    assert [score(y, y) for score in POINT] == [0, 0, 1]
    assert r_squared(np.full(30, y.mean()), y) == pytest.approx(0, abs=1e-12)
    assert root_mean_square_error(np.full(30, y.mean()), y) == pytest.approx(y.std())
    assert (interval_coverage(y, y, y), interval_width(y, y), interval_score(y, y, y)) == (1, 0, 0)
    # All inside, however low the level, or all outside, however high: half of the square lies between.
    for level in (0.0, 1.0):
        assert calibration_of_levels(np.full(30, level)) == pytest.approx({"error": 0.5, "area": 0.5})


def test_interval_scores_by_hand():
    lower, upper, y = np.array([0.0, 0, 0, 0]), np.array([1.0, 1, 1, 1]), np.array([0.0, 1.0, -0.5, 1.25])
    assert interval_coverage(lower, upper, y) == 0.5  # the ends belong to the interval
    assert interval_score(lower, upper, y, level=0.9) == pytest.approx(1 + 20 * (0.5 + 0.25) / 4)


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
    for targets in (np.ones(3), np.array([1.0]), np.array([[1.0, 2], [1, 3]])):
        with pytest.raises(
            ValueError, match=r"r_squared needs targets that differ, in every output; got \d of one value"
        ):
            r_squared(targets, targets)
    for draws, message in [
        (np.ones(3), r"\(draws, examples, …\), not empty; got \(3,\)"),
        (np.ones((0, 3)), r"got \(0, 3\)"),
        (np.ones((5, 2)), r"the first draw \(2,\), targets \(3,\)"),
        (np.full((5, 3), np.nan), "got nan in draws"),
    ]:
        with pytest.raises(ValueError, match=f"crps_sample needs .*{message}"):
            crps_sample(draws, np.ones(3))
    low, high = np.array([0.0, 2.0]), np.ones(2)
    for call in (interval_coverage, interval_score):
        with pytest.raises(ValueError, match=f"{call.__name__} needs lower <= upper; got 1 of 2 the other way round"):
            call(low, high, np.ones(2))
    with pytest.raises(ValueError, match=r"interval_width needs .* got lower \(2,\), upper \(3,\)"):
        interval_width(low, np.ones(3))
    for level in (0, 1, 95, float("nan")):
        with pytest.raises(ValueError, match="interval_score needs 0 < level < 1; got level="):
            interval_score(high, high, high, level)
        with pytest.raises(ValueError, match="interval_calibration_curve needs levels between 0 and 1; got levels="):
            interval_calibration_curve(low, high, high, levels=[0.5, level])


def test_a_tiny_spread_gives_no_missing_number():
    expected = 0.5 * np.log(2 * np.pi) - 200 * np.log(10)
    assert gaussian_nll(np.ones(1), np.full(1, 1e-200), np.ones(1)) == pytest.approx(expected)
    assert gaussian_nll(np.zeros(1), np.full(1, 1e-200), np.ones(1)) == np.inf
