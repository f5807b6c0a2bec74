"""Conformal sets and intervals contain new targets as often as promised, by simulation; the quantile is exact."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from predictions import class_predictive, value_predictive

import singularbayes as sb
from singularbayes.metrics import interval_coverage


def values(rng, examples, outputs=1):
    """Returns predictions that are wrong in mean and much too sure, and skewed targets."""
    draws = rng.normal(size=(8, examples, outputs)) * rng.uniform(0.1, 1, (examples, 1))
    return value_predictive(draws, noise=0.1), 1 + rng.exponential(2.0, (examples, outputs))


def classes(rng, examples):
    """Returns predictions that are much too sure, and labels that know little of them."""
    p = rng.dirichlet(np.full(4, 0.3), (3, examples))
    labels = np.where(rng.random(examples) < 0.4, p.mean(axis=0).argmax(axis=1), rng.integers(0, 4, examples))
    return class_predictive(p), labels


@pytest.mark.parametrize(("held_out", "level"), [(9, 0.9), (19, 0.8), (40, 0.5)])
@pytest.mark.parametrize("variance", ["total", "epistemic", "constant"])
def test_intervals_hold_new_values_with_the_exact_finite_sample_probability(held_out, level, variance):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        p, y = values(rng, held_out)
        new, targets = values(rng, 20)
        found.append(interval_coverage(*sb.conformal_intervals(p, y, level, variance)(new), targets))
    # A new score is among the k smallest of n + 1 with probability k/(n + 1), for scores without ties.
    exact = math.ceil((held_out + 1) * level) / (held_out + 1)
    assert level <= exact < level + 1 / (held_out + 1)
    assert abs(np.mean(found) - exact) < 4 * np.std(found) / np.sqrt(len(found))


@pytest.mark.parametrize(("held_out", "level"), [(9, 0.9), (30, 0.75)])
def test_sets_hold_new_labels_with_the_exact_finite_sample_probability(held_out, level):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        p, labels = classes(rng, held_out)
        new, targets = classes(rng, 20)
        found.append(sb.conformal_sets(p, labels, level)(new)[np.arange(20), targets].mean())
    exact = math.ceil((held_out + 1) * level) / (held_out + 1)
    assert abs(np.mean(found) - exact) < 4 * np.std(found) / np.sqrt(len(found))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 999), examples=st.integers(5, 60), hundredths=st.integers(1, 80))
@example(seed=0, examples=49, hundredths=14)  # 50 · 0.14 is above 7 in floating point
def test_the_quantile_is_the_order_statistic_and_covers_the_held_out_data(seed, examples, hundredths):
    rng, level = np.random.default_rng(seed), hundredths / 100
    rank = -(-(examples + 1) * hundredths // 100)  # in whole numbers: no rounding
    p, y = values(rng, examples, outputs=2)
    intervals = sb.conformal_intervals(p, y, level)
    scores = np.sort(np.abs(y - p.mean) / np.sqrt(p.variance("total")), axis=0)
    np.testing.assert_array_equal(intervals.quantile, scores[rank - 1])
    lower, upper = intervals(p)
    assert lower.shape == p.mean.shape
    np.testing.assert_array_equal((np.abs(y - p.mean) <= (upper - lower) / 2 + 1e-12).sum(axis=0), rank)
    p, labels = classes(rng, examples)
    chosen = p.mean[np.arange(examples), labels]
    assert sb.conformal_sets(p, labels, level).threshold == np.sort(chosen)[examples - rank]
    assert (sb.conformal_sets(p, labels, level)(p)[np.arange(examples), labels]).sum() == rank


def test_widths_follow_the_named_variance():
    p, y = values(np.random.default_rng(0), 30)
    for variance, scale in {"total": np.sqrt(p.variance("total")), "epistemic": p.std, "constant": 1}.items():
        intervals = sb.conformal_intervals(p, y[:, 0], variance=variance)
        lower, upper = intervals(p)
        np.testing.assert_allclose((upper - lower) / 2, intervals.quantile * scale * np.ones((30, 1)))
        np.testing.assert_allclose((upper + lower) / 2, p.mean)


@pytest.mark.parametrize(("level", "needed"), [(0.9, 9), (0.95, 19), (0.99, 99), (0.5, 1), (0.7, 3)])
def test_too_few_held_out_examples_are_refused_and_just_enough_are_not(level, needed):
    rng = np.random.default_rng(0)
    for make, conformal in ((values, sb.conformal_intervals), (classes, sb.conformal_sets)):
        conformal(*make(rng, needed), level)
        if needed > 1:
            message = (
                f"{conformal.__name__} needs at least {needed} held-out examples for level={level}.*got {needed - 1}"
            )
            with pytest.raises(ValueError, match=message):
                conformal(*make(rng, needed - 1), level)


def test_wrong_input_is_refused():
    rng = np.random.default_rng(0)
    (p, y), (q, labels) = values(rng, 30), classes(rng, 30)
    for level in (0, 1, 95, float("nan")):
        for conformal, data in ((sb.conformal_intervals, (p, y)), (sb.conformal_sets, (q, labels))):
            with pytest.raises(ValueError, match=f"{conformal.__name__} needs 0 < level < 1; got level="):
                conformal(*data, level)
    with pytest.raises(ValueError, match=r"targets in the shape of the predictions, \(30, 1\); got \(3, 1\)"):
        sb.conformal_intervals(p, y[:3])
    with pytest.raises(ValueError, match="conformal_intervals needs finite numbers; got nan in targets"):
        sb.conformal_intervals(p, np.where(y > 3, np.nan, y))
    with pytest.raises(ValueError, match=r"one of \['total', 'epistemic', 'constant'\]; got variance='both'"):
        sb.conformal_intervals(p, y, variance="both")
    with pytest.raises(ValueError, match=r'a variance above 0 everywhere; got 0. Use variance="constant"'):
        sb.conformal_intervals(value_predictive(np.zeros((1, 30, 1))), y, variance="epistemic")
    with pytest.raises(ValueError, match="conformal_sets needs one label per example"):
        sb.conformal_sets(q, labels[:3])
    with pytest.raises(TypeError, match=r"conformal_sets needs a ClassPredictive, .* got ValuePredictive"):
        sb.conformal_sets(p, y)
    with pytest.raises(TypeError, match=r"conformal_intervals needs a ValuePredictive, .* got ClassPredictive"):
        sb.conformal_intervals(q, labels)
    with pytest.raises(TypeError, match="ConformalSets needs a ClassPredictive"):
        sb.conformal_sets(q, labels)(p)
    with pytest.raises(TypeError, match="ConformalIntervals needs a ValuePredictive"):
        sb.conformal_intervals(p, y)(q)
