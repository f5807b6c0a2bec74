"""Detection scores: the chance of ranking a pair right, average precision as the paper means it, rates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import singularbayes as sb
from singularbayes.metrics import (
    aupr_err,
    aupr_in,
    aupr_ood,
    aupr_succ,
    auroc_ood,
    fpr_at_tpr,
    ood_scores,
    tpr_at_fpr,
)


def made_up(seed=0):
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
    inside, outside = made_up()
    wins = (outside[:, None] > inside).mean() + 0.5 * (outside[:, None] == inside).mean()
    assert auroc_ood(inside, outside) == pytest.approx(wins, rel=1e-12)


def test_auroc_of_swapped_roles_is_the_rest():
    inside, outside = made_up()
    assert auroc_ood(inside, outside) + auroc_ood(outside, inside) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(3))
def test_average_precisions_are_a_loop_over_thresholds(seed):
    inside, outside = made_up(seed)
    score, foreign = np.concatenate([inside, outside]), np.repeat([False, True], [50, 70])
    assert aupr_ood(inside, outside) == pytest.approx(average_precision(foreign, score), rel=1e-12)
    assert aupr_in(inside, outside) == pytest.approx(average_precision(~foreign, -score), rel=1e-12)
    assert aupr_err(score, foreign) == pytest.approx(average_precision(foreign, score), rel=1e-12)
    assert aupr_succ(score, foreign) == pytest.approx(average_precision(~foreign, -score), rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_rates_are_those_of_the_best_allowed_threshold(seed):
    inside, outside = made_up(seed)
    thresholds = [-np.inf, *np.unique(np.concatenate([inside, outside])), np.inf]
    rates = [((inside >= t).mean(), (outside >= t).mean()) for t in thresholds]
    for level in (0.05, 0.3, 0.95):
        assert fpr_at_tpr(inside, outside, level) == min(false for false, true in rates if true >= level)
        assert tpr_at_fpr(inside, outside, level) == max(true for false, true in rates if false <= level)


def test_rates_reach_their_level_exactly():
    inside, outside = np.arange(20.0), np.arange(20.0) + 0.5
    # 19 of 20 foreign ones lie above 1, as do 18 known ones; 1 of 20 known ones is above 18.5 or equal to 19.
    assert fpr_at_tpr(inside, outside) == 18 / 20
    assert tpr_at_fpr(inside, outside) == 2 / 20


def test_a_blind_score_gets_the_prevalence(vectors):
    case = vectors["prevalence_baselines"]
    for name, (foreign, known) in case["inputs"].items():
        scores = ood_scores(np.zeros(known), np.zeros(foreign))
        assert scores["aupr_ood"] == pytest.approx(case["expected"][f"{name}_ood"], rel=1e-12)
        assert scores["aupr_in"] == pytest.approx(case["expected"].get(f"{name}_in", known / (known + foreign)))
        assert (scores["auroc_ood"], scores["fpr_at_95_tpr"], scores["tpr_at_5_fpr"]) == (0.5, 1, 0)


def test_errors_and_successes_are_the_papers(vectors):
    case = vectors["aupr_err_succ"]
    uncertainty, error = (np.array(values) for values in case["inputs"].values())
    assert aupr_err(uncertainty, error) == pytest.approx(case["expected"]["aupr_err"], rel=1e-12)
    assert aupr_succ(uncertainty, error == 1) == pytest.approx(case["expected"]["aupr_succ"], rel=1e-12)
    assert aupr_err(np.ones(10), error) == pytest.approx(case["expected"]["constant_score_ap"])


def test_a_perfect_score_gets_the_best_values_and_a_reversed_one_the_worst():
    best, worst = ood_scores(np.zeros(5), np.ones(7)), ood_scores(np.ones(5), np.zeros(7))
    assert list(best.values()) == [1, 1, 1, 0, 1]
    assert (worst["auroc_ood"], worst["fpr_at_95_tpr"], worst["tpr_at_5_fpr"]) == (0, 1, 0)
    assert (aupr_err(np.array([0, 1]), [0, 1]), aupr_succ(np.array([0, 1]), [0, 1])) == (1, 1)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), shift=st.floats(-5, 5), stretch=st.floats(0.01, 100))
def test_a_monotone_transform_leaves_every_score(seed, shift, stretch):
    inside, outside = made_up(seed)
    moved = ood_scores(np.exp(inside / 10) * stretch + shift, np.exp(outside / 10) * stretch + shift)
    assert moved == pytest.approx(ood_scores(inside, outside), rel=1e-12)


def test_one_call_gives_what_each_function_gives():
    inside, outside = made_up()
    assert sb.ood_scores(inside[:, None], outside.tolist()) == {
        "auroc_ood": auroc_ood(inside, outside),
        "aupr_ood": aupr_ood(inside, outside),
        "aupr_in": aupr_in(inside, outside),
        "fpr_at_95_tpr": fpr_at_tpr(inside, outside, 0.95),
        "tpr_at_5_fpr": tpr_at_fpr(inside, outside, 0.05),
    }


@pytest.mark.parametrize("score", [auroc_ood, aupr_ood, aupr_in, fpr_at_tpr, tpr_at_fpr])
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


@pytest.mark.parametrize("rate", [0, 1, 95, float("nan")])
def test_rates_lie_between_0_and_1(rate):
    with pytest.raises(ValueError, match="fpr_at_tpr needs 0 < tpr < 1; got tpr="):
        fpr_at_tpr(np.zeros(2), np.ones(2), rate)
    with pytest.raises(ValueError, match="tpr_at_fpr needs 0 < fpr < 1; got fpr="):
        tpr_at_fpr(np.zeros(2), np.ones(2), rate)


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
