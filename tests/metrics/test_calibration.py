"""Calibration errors equal the paper's numbers and a naive loop; ties and order do not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve
from test_scoring import made_up

from singularbayes.metrics import (
    accuracy,
    calibration_errors,
    expected_calibration_error,
    optimistic_configuration,
    reliability_curve,
)


def two_classes(confidence, correct):
    confidence = np.array(confidence)
    return np.stack([confidence, 1 - confidence], axis=1), 1 - np.array(correct)


@pytest.mark.parametrize("scheme", ["equal_width", "equal_mass"])
def test_errors_equal_the_papers_numbers(scheme, vectors):
    case = vectors["ece"]
    p, labels = two_classes(**case["inputs"])
    found = calibration_errors(p, labels, bins=(5, 10, 15, 20))
    for bins, expected in case["expected"][scheme].items():
        assert expected_calibration_error(p, labels, int(bins), scheme) == pytest.approx(expected, rel=1e-12)
        assert found[f"{scheme}_{bins}"] == pytest.approx(expected, rel=1e-12)
    assert len(found) == 8


def naive_error(p, labels, bins):
    """Returns the equal-width error by one pass over the bins."""
    confidence, correct = p.max(axis=1), p.argmax(axis=1) == labels
    total = 0.0
    for b in range(1, bins + 1):
        inside = ((b - 1) / bins < confidence) & (confidence <= b / bins)
        if inside.any():
            total += inside.mean() * abs(correct[inside].mean() - confidence[inside].mean())
    return total


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), bins=st.integers(1, 40))
def test_equal_width_is_a_loop_over_bins_and_ties_on_an_edge_stay_together(seed, bins):
    p, labels = made_up(seed, classes=2)  # confidences such as 0.5 and 0.6 lie on edges
    found = expected_calibration_error(p, labels, bins, "equal_width")
    assert found == pytest.approx(naive_error(p, labels, bins), abs=1e-12)


@pytest.mark.parametrize(("scheme", "strategy"), [("equal_width", "uniform"), ("equal_mass", "quantile")])
def test_the_curve_is_scikit_learns(scheme, strategy):
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 1000)
    correct = rng.random(1000) < confidence**2
    curve = reliability_curve(*two_classes(confidence, correct), bins=10, scheme=scheme)
    accuracies, confidences = calibration_curve(correct, confidence, n_bins=10, strategy=strategy)
    np.testing.assert_allclose(curve.confidence, confidences)
    np.testing.assert_allclose(curve.accuracy, accuracies)
    assert curve.share.sum() == pytest.approx(1)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), bins=st.integers(1, 120), scheme=st.sampled_from(["equal_mass", "equal_width"]))
def test_the_order_of_examples_does_not_matter_even_with_ties(seed, bins, scheme):
    p, labels = made_up(seed)
    order = np.random.default_rng(seed).permutation(len(labels))
    expected = expected_calibration_error(p, labels, bins, scheme)
    assert expected_calibration_error(p[order], labels[order], bins, scheme) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 999), bins=st.integers(1, 30), scheme=st.sampled_from(["equal_mass", "equal_width"]))
def test_of_a_uniform_predictor_it_is_the_gap_to_the_accuracy_however_labels_are_shuffled(seed, bins, scheme):
    _, labels = made_up(seed)
    uniform = np.full((len(labels), 4), 0.25)
    shuffled = np.random.default_rng(seed).permutation(labels)
    gap = abs(accuracy(uniform, labels) - 0.25)
    assert expected_calibration_error(uniform, shuffled, bins, scheme) == pytest.approx(gap, abs=1e-12)


def test_two_bins_by_hand():
    p = np.array([[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [1.0, 0.0]])
    labels = np.array([1, 0, 0, 0])  # the less sure half is right once, the surer half always
    expected = (2 * abs(0.5 - 0.65) + 2 * abs(1.0 - 0.9)) / 4
    assert expected_calibration_error(p, labels, bins=2) == pytest.approx(expected)


@pytest.mark.parametrize("scheme", ["equal_mass", "equal_width"])
def test_one_bin_is_confidence_less_accuracy_and_more_bins_never_cancel_more(scheme):
    p, labels = made_up()
    gap = abs(p.max(axis=1).mean() - accuracy(p, labels))
    assert expected_calibration_error(p, labels, 1, scheme) == pytest.approx(gap)
    assert expected_calibration_error(p, labels, 8, scheme) >= expected_calibration_error(p, labels, 4, scheme) - 1e-12


def test_a_perfect_predictor_has_none_and_a_sure_and_wrong_one_all():
    labels = np.arange(8) % 4
    assert set(calibration_errors(np.eye(4)[labels], labels).values()) == {0}
    assert set(calibration_errors(np.eye(4)[labels - 1], labels).values()) == {1}


def test_it_is_zero_when_confidence_is_the_accuracy():
    p = np.tile([0.75, 0.25], (40, 1))
    assert expected_calibration_error(p, np.tile([0, 0, 0, 1], 10)) == pytest.approx(0, abs=1e-12)


def test_the_optimistic_configuration_has_the_least_mean_over_models():
    errors = {str(seed): calibration_errors(*made_up(seed), bins=(10, 15, 20)) for seed in range(3)}
    means = {name: np.mean([found[name] for found in errors.values()]) for name in errors["0"]}
    assert means[optimistic_configuration(errors)] == min(means.values())


def test_wrong_bins_schemes_and_configurations_are_refused():
    for bins in (0, -1, 2.5, True):
        for score in (expected_calibration_error, reliability_curve):
            with pytest.raises(ValueError, match=f"{score.__name__} needs bins to be an integer >= 1; got bins={bins}"):
                score(*made_up(), bins=bins)
    with pytest.raises(ValueError, match=r"calibration_errors needs bins .* got bins=0"):
        calibration_errors(*made_up(), bins=(10, 0))
    with pytest.raises(ValueError, match=r"one of \['equal_mass', 'equal_width'\]; got scheme='width'"):
        expected_calibration_error(*made_up(), scheme="width")
    for errors in ({}, {"a": {}}, {"a": {"equal_mass_5": 0.1}, "b": {"equal_mass_6": 0.1}}):
        with pytest.raises(ValueError, match="needs the same configurations of every model, at least one"):
            optimistic_configuration(errors)


def test_the_optimistic_search_refuses_errors_that_are_not_numbers():
    with pytest.raises(ValueError, match="needs finite errors"):
        optimistic_configuration({"one": {"equal_mass_15": float("nan"), "equal_width_10": 0.1}})
