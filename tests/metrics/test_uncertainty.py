"""Uncertainties of draws equal the paper's numbers, those of a Predictive, and NumPy's."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predictions import class_predictive
from scipy import stats

from singularbayes.metrics import (
    efficiency_factors,
    entropy,
    epistemic_iqr,
    iqr_scores,
    mi_ratio,
    mutual_information,
    predictive_std,
)


def made_up(seed=0, draws=9, classes=3):
    return np.random.default_rng(seed).dirichlet(np.ones(classes), (draws, 6))


def test_uncertainties_are_the_papers(vectors):
    case = vectors["mutual_information"]
    draws, expected = np.array(case["inputs"]["probs_TxNxC"]), case["expected"]
    np.testing.assert_allclose(entropy(draws.mean(axis=0)), expected["total_entropy"], rtol=1e-12)
    np.testing.assert_allclose(mutual_information(draws), expected["mi"], atol=1e-15)
    np.testing.assert_allclose(predictive_std(draws), expected["std_p1"], atol=1e-15)


def test_they_are_those_of_a_predictive_and_of_scipy():
    draws = made_up()
    p = class_predictive(draws)
    np.testing.assert_allclose(entropy(p.mean), p.entropy)
    np.testing.assert_allclose(entropy(p.mean), stats.entropy(p.mean, axis=1))
    np.testing.assert_allclose(mutual_information(draws), p.mutual_information, atol=1e-14)
    np.testing.assert_allclose(predictive_std(draws), p.std[np.arange(6), p.predicted_labels])
    divergence = np.mean([stats.entropy(one, draws.mean(axis=0), axis=1) for one in draws], axis=0)
    np.testing.assert_allclose(mutual_information(draws), divergence)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), draws=st.integers(1, 8), classes=st.integers(2, 6))
def test_bounds_and_order(seed, draws, classes):
    p = made_up(seed, draws, classes)
    rng = np.random.default_rng(seed)
    same = p[rng.permutation(draws)][:, :, rng.permutation(classes)]
    for uncertainty in (mutual_information, predictive_std):
        np.testing.assert_allclose(uncertainty(same), uncertainty(p), atol=1e-12)
    information = mutual_information(p)
    assert (information >= 0).all() and (information <= np.log(min(draws, classes)) + 1e-12).all()
    assert (entropy(p.mean(axis=0)) <= np.log(classes) + 1e-12).all()


def test_identical_members_have_no_information_and_sure_ones_that_disagree_all():
    same = np.repeat(made_up(draws=1), 7, axis=0)
    np.testing.assert_allclose(mutual_information(same), 0, atol=1e-15)
    np.testing.assert_allclose(predictive_std(same), 0, atol=1e-15)
    np.testing.assert_allclose(mutual_information(np.eye(4)[:, None]), np.log(4))
    np.testing.assert_allclose(entropy(np.eye(4)), 0)


def test_the_ratio_of_means_is_nan_for_a_deterministic_model_even_with_rounding():
    assert mi_ratio(np.array([1.0, 3.0]), np.array([2.0, 6.0, 7.0])) == 2.5
    assert np.isnan(mi_ratio(np.zeros(3), np.zeros(2)))
    same = mutual_information(np.repeat(made_up(draws=1), 7, axis=0))
    assert np.isnan(mi_ratio(same, same + 1e-16))
    assert mi_ratio(np.zeros(3), np.ones(2)) == np.inf
    assert mi_ratio(np.ones(2), np.zeros(3)) == 0


def test_iqr_is_the_normal_ones_for_normal_draws():
    scales = np.array([0.5, 2.0, 4.0])
    quantiles = stats.norm.ppf((np.arange(2000) + 0.5) / 2000)
    widths = epistemic_iqr(quantiles[:, None, None] * scales[:, None])
    np.testing.assert_allclose(widths[:, 0], 2 * stats.norm.ppf(0.75) * scales, rtol=1e-3)
    scores = iqr_scores(widths[:2], widths[2:])
    assert scores["iqr_inside"] == pytest.approx(widths[:2].mean())  # the median of two
    assert scores["iqr_outside"] == widths[2, 0]
    assert scores["iqr_ratio"] == pytest.approx(4 / 1.25)
    assert np.isnan(iqr_scores(epistemic_iqr(np.ones((5, 3))), np.zeros(2))["iqr_ratio"])


def test_efficiency_factors_are_the_papers(vectors):
    case = vectors["efficiency_factor"]
    assert efficiency_factors(case["inputs"]["params"]) == pytest.approx(case["expected"], rel=1e-12)


@pytest.mark.parametrize("uncertainty", [mutual_information, predictive_std])
def test_wrong_draws_are_refused(uncertainty):
    for draws, message in [
        (made_up()[0], r"shape \(draws, examples, classes\), not empty; got \(6, 3\)"),
        (np.ones((0, 6, 3)), r"got \(0, 6, 3\)"),
        (made_up() * 2, "sum to 1 over classes; got .* sums from 2 to 2"),
        (np.where(made_up() < 0.01, np.nan, made_up()), "got nan in probabilities"),
    ]:
        with pytest.raises(ValueError, match=f"{uncertainty.__name__} needs .*{message}"):
            uncertainty(draws)


def test_other_wrong_input_is_refused():
    for probabilities, message in [(np.ones(3) / 3, r"got \(3,\)"), (np.ones((2, 2)), "sums from 2 to 2")]:
        with pytest.raises(ValueError, match=f"entropy needs .*{message}"):
            entropy(probabilities)
    for draws, message in [
        (np.ones(3), r"got \(3,\)"),
        (np.ones((2, 0)), "not empty"),
        ([[np.nan]], "got nan in draws"),
    ]:
        with pytest.raises(ValueError, match=f"epistemic_iqr needs .*{message}"):
            epistemic_iqr(draws)
    for score in (mi_ratio, iqr_scores):
        for inside, message in [([-0.1], "not negative; got -0.1"), ([], "not empty"), ([np.nan], "got nan in inside")]:
            with pytest.raises(ValueError, match=f"{score.__name__} needs .*{message}"):
                score(inside, np.ones(2))
    for parameters in ({}, {"a": 0}, {"a": 3, "b": -1}, {"a": float("nan")}):
        with pytest.raises(ValueError, match="efficiency_factors needs models with at least one parameter each; got "):
            efficiency_factors(parameters)
