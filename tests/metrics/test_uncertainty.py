"""Uncertainties of draws and of deterministic networks are their formulas; detection is ranking pairs, and loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from predictions import class_predictive
from scipy import stats
from scipy.spatial import distance

from singularbayes import metrics
from singularbayes.metrics import (
    aupr_err,
    aupr_succ,
    auroc_ood,
    entropy,
    epistemic_iqr,
    iqr_scores,
    mi_ratio,
    mutual_information,
    ood_scores,
)

RNG = np.random.default_rng(0)


def made_up(seed=0, draws=9, classes=3):
    return np.random.default_rng(seed).dirichlet(np.ones(classes), (draws, 6))


def test_uncertainties_are_the_papers(vectors):
    case = vectors["mutual_information"]
    draws, expected = np.array(case["inputs"]["probs_TxNxC"]), case["expected"]
    np.testing.assert_allclose(entropy(draws.mean(axis=0)), expected["total_entropy"], rtol=1e-12)
    np.testing.assert_allclose(mutual_information(draws), expected["mi"], atol=1e-15)


def test_they_are_those_of_a_predictive_and_of_scipy():
    draws = made_up()
    p = class_predictive(draws)
    np.testing.assert_allclose(entropy(p.mean), p.entropy)
    np.testing.assert_allclose(entropy(p.mean), stats.entropy(p.mean, axis=1))
    np.testing.assert_allclose(mutual_information(draws), p.mutual_information, atol=1e-14)
    divergence = np.mean([stats.entropy(one, draws.mean(axis=0), axis=1) for one in draws], axis=0)
    np.testing.assert_allclose(mutual_information(draws), divergence)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), draws=st.integers(1, 8), classes=st.integers(2, 6))
def test_bounds_and_order(seed, draws, classes):
    p = made_up(seed, draws, classes)
    rng = np.random.default_rng(seed)
    same = p[rng.permutation(draws)][:, :, rng.permutation(classes)]
    np.testing.assert_allclose(mutual_information(same), mutual_information(p), atol=1e-12)
    information = mutual_information(p)
    assert (information >= 0).all() and (information <= np.log(min(draws, classes)) + 1e-12).all()
    assert (entropy(p.mean(axis=0)) <= np.log(classes) + 1e-12).all()


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


def test_wrong_draws_are_refused():
    for draws, message in [
        (made_up()[0], r"shape \(draws, examples, classes\), not empty; got \(6, 3\)"),
        (np.ones((0, 6, 3)), r"got \(0, 6, 3\)"),
        (made_up() * 2, "sum to 1 over classes; got .* sums from 2 to 2"),
        (np.where(made_up() < 0.01, np.nan, made_up()), "got nan in probabilities"),
    ]:
        with pytest.raises(ValueError, match=f"mutual_information needs .*{message}"):
            mutual_information(draws)


def test_other_wrong_input_is_refused():
    with pytest.raises(ValueError, match=r"entropy needs .*sums from 2 to 2"):
        entropy(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"epistemic_iqr needs .*got \(3,\)"):
        epistemic_iqr(np.ones(3))
    for score in (mi_ratio, iqr_scores):
        for inside, message in [([-0.1], "not negative; got -0.1"), ([], "not empty"), ([np.nan], "got nan in inside")]:
            with pytest.raises(ValueError, match=f"{score.__name__} needs .*{message}"):
                score(inside, np.ones(2))


# -- detection -------------------------------------------------------------------------------------------------------


def ranked(seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 6, 50).astype(float), rng.integers(2, 8, 70).astype(float)


def average_precision(positive, score):
    """Returns Σ (R_k − R_{k−1}) P_k over the distinct scores from the top, by a loop."""
    total, recall = 0.0, 0.0
    for threshold in sorted(set(score), reverse=True):
        flagged = score >= threshold
        precision, now = positive[flagged].mean(), positive[flagged].sum() / positive.sum()
        total, recall = total + (now - recall) * precision, now
    return total


def test_auroc_is_the_share_of_pairs_ranked_right_with_ties_as_half():
    inside, outside = ranked()
    wins = (outside[:, None] > inside).mean() + 0.5 * (outside[:, None] == inside).mean()
    assert auroc_ood(inside, outside) == pytest.approx(wins, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_average_precisions_are_a_loop_over_thresholds(seed):
    inside, outside = ranked(seed)
    found = ood_scores(inside, outside)
    score, foreign = np.concatenate([inside, outside]), np.repeat([False, True], [50, 70])
    assert found["aupr_ood"] == pytest.approx(average_precision(foreign, score), rel=1e-12)
    assert found["aupr_in"] == pytest.approx(average_precision(~foreign, -score), rel=1e-12)
    assert aupr_err(score, foreign) == pytest.approx(average_precision(foreign, score), rel=1e-12)
    assert aupr_succ(score, foreign) == pytest.approx(average_precision(~foreign, -score), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_rates_are_those_of_the_best_allowed_threshold(seed):
    inside, outside = ranked(seed)
    thresholds = [-np.inf, *np.unique(np.concatenate([inside, outside])), np.inf]
    rates = [((inside >= t).mean(), (outside >= t).mean()) for t in thresholds]
    found = ood_scores(inside, outside)
    assert found["fpr_at_95_tpr"] == min(false for false, true in rates if true >= 0.95)
    assert found["tpr_at_5_fpr"] == max(true for false, true in rates if false <= 0.05)


def test_a_blind_score_gets_the_prevalence(vectors):
    case = vectors["prevalence_baselines"]
    for name, (foreign, known) in case["inputs"].items():
        scores = ood_scores(np.zeros(known), np.zeros(foreign))
        assert scores["aupr_ood"] == pytest.approx(case["expected"][f"{name}_ood"], rel=1e-12)
        assert scores["aupr_in"] == pytest.approx(case["expected"].get(f"{name}_in", known / (known + foreign)))
        assert (scores["auroc_ood"], scores["fpr_at_95_tpr"], scores["tpr_at_5_fpr"]) == (0.5, 1, 0)


def test_a_perfect_score_gets_the_best_values_and_a_reversed_one_the_worst():
    best, worst = ood_scores(np.zeros(5), np.ones(7)), ood_scores(np.ones(5), np.zeros(7))
    assert list(best.values()) == [1, 1, 1, 0, 1]
    assert (worst["auroc_ood"], worst["fpr_at_95_tpr"], worst["tpr_at_5_fpr"]) == (0, 1, 0)
    assert (aupr_err(np.array([0, 1]), [0, 1]), aupr_succ(np.array([0, 1]), [0, 1])) == (1, 1)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), shift=st.floats(-5, 5), stretch=st.floats(0.01, 100))
def test_a_monotone_transform_leaves_every_score(seed, shift, stretch):
    inside, outside = ranked(seed)
    moved = ood_scores(np.exp(inside / 10) * stretch + shift, np.exp(outside / 10) * stretch + shift)
    assert moved == pytest.approx(ood_scores(inside, outside), rel=1e-12)


@pytest.mark.parametrize("score", [auroc_ood, ood_scores])
@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        (np.ones(0), np.ones(2), r"not empty; got inside \(0,\)"),
        (np.ones(2), np.ones(0), r"not empty; got outside \(0,\)"),
        (np.ones(2), np.float64(1), r"got outside \(\)"),
        (np.ones((2, 3)), np.ones(2), r"one number per example in inside; got shape \(2, 3\)"),
        (np.array([0, np.nan]), np.ones(2), r"finite numbers; got nan in inside at \[1\], and 1 of 2"),
        (np.ones(2), np.array([np.inf, 0]), r"finite numbers; got inf in outside at \[0\]"),
    ],
)
def test_wrong_uncertainties_are_refused(score, inside, outside, message):
    with pytest.raises(ValueError, match=f"{score.__name__} needs .*{message}"):
        score(inside, outside)


@pytest.mark.parametrize("score", [aupr_err, aupr_succ])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([0, 0, 0], r"examples of both; got \[0.0\]"),
        ([True, True, True], r"examples of both; got \[1.0\]"),
        ([0, 1, 2], r"0 or 1 per example, and examples of both; got \[0.0, 1.0, 2.0\]"),
        ([0, 1], r"one shape, .* got uncertainty \(3,\), wrong \(2,\)"),
        ([0, 1, np.nan], "got nan in wrong"),
    ],
)
def test_wrong_answers_are_refused(score, wrong, message):
    with pytest.raises(ValueError, match=f"{score.__name__} needs .*{message}"):
        score(np.ones(3), np.array(wrong))


# -- deterministic networks ------------------------------------------------------------------------------------------


def test_energy_and_least_confidence_are_their_formulas():
    logits = RNG.normal(size=(20, 4)) * 3
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(metrics.least_confidence(p), [1 - max(row) for row in p])
    for temperature in (0.5, 1.0, 7.0):
        expected = -temperature * np.log(np.exp(logits / temperature).sum(axis=1))
        np.testing.assert_allclose(metrics.energy_score(logits, temperature), expected)
    np.testing.assert_allclose(metrics.energy_score(logits + 5), metrics.energy_score(logits) - 5)
    assert np.isfinite(metrics.energy_score(np.array([[1e4, -1e4]]))).all()


def test_mahalanobis_is_the_distance_to_the_nearest_class_and_no_units_matter():
    labels = RNG.integers(0, 3, 300)
    features = RNG.normal(size=(300, 5)) @ RNG.normal(size=(5, 5)) + 4 * np.eye(5)[labels]
    new = RNG.normal(size=(10, 5))
    means = [features[labels == k].mean(axis=0) for k in range(3)]
    covariance = sum((features[labels == k] - means[k]).T @ (features[labels == k] - means[k]) for k in range(3)) / 300
    inverse = np.linalg.inv(covariance)
    expected = [min(distance.mahalanobis(row, mean, inverse) for mean in means) for row in new]
    found = metrics.MahalanobisDistance(features, labels)
    np.testing.assert_allclose(found(new), expected, rtol=1e-8)
    change = RNG.normal(size=(5, 5))
    changed = metrics.MahalanobisDistance(features @ change + 2, labels + 7)
    np.testing.assert_allclose(changed(new @ change + 2), expected, rtol=1e-6)
    constant = metrics.MahalanobisDistance(np.c_[features, np.ones(300)], labels)  # a dead unit
    np.testing.assert_allclose(constant(np.c_[new, np.ones(10)]), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.energy_score(np.zeros(3)), r"needs logits of shape \(examples, …\).*got shape \(3,\)"),
        (lambda: metrics.energy_score(np.zeros((2, 2)), 0), "temperature > 0 and finite; got temperature=0"),
        (lambda: metrics.least_confidence(np.array([[0.9, 0.3]])), "least_confidence needs probabilities"),
        (lambda: metrics.MahalanobisDistance(np.zeros((4, 2)), np.zeros(3)), r"one label per example, \(4,\)"),
        (lambda: metrics.MahalanobisDistance(np.eye(3), np.zeros(3))(np.zeros((1, 2))), "needs 3 features"),
    ],
)
def test_wrong_arrays_are_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
