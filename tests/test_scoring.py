"""Scores equal the paper's numbers and hand-made ones, and do not depend on the order of examples."""

import numpy as np
import pytest

from singularbayes.metrics import (
    accuracy,
    brier,
    expected_calibration_error,
    negative_log_likelihood,
    root_mean_square_error,
)

SCORES = [accuracy, negative_log_likelihood, brier, expected_calibration_error]


def made_up(examples=97, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(classes), examples).round(1) + 1e-3, rng.integers(0, classes, examples)


@pytest.mark.parametrize(
    ("score", "name"), [(accuracy, "accuracy"), (negative_log_likelihood, "nll"), (brier, "brier_sum")]
)
def test_scores_equal_the_papers_numbers(score, name, vectors):
    case = vectors["mutual_information"]
    probabilities = np.mean(case["inputs"]["probs_TxNxC"], axis=0)
    assert score(probabilities, np.array(case["inputs"]["y"])) == pytest.approx(case["expected"][name], rel=1e-12)


@pytest.mark.parametrize("score", SCORES)
def test_the_order_of_examples_does_not_matter_even_with_ties(score):
    probabilities, labels = made_up()
    order = np.random.default_rng(1).permutation(len(labels))
    assert score(probabilities[order], labels[order]) == pytest.approx(score(probabilities, labels), rel=1e-12)


def test_calibration_error_of_two_bins_by_hand():
    probabilities = np.array([[0.6, 0.4], [0.7, 0.3], [0.8, 0.2], [1.0, 0.0]])
    labels = np.array([1, 0, 0, 0])  # the less sure half is right once, the surer half always
    expected = (2 * abs(0.5 - 0.65) + 2 * abs(1.0 - 0.9)) / 4
    assert expected_calibration_error(probabilities, labels, bins=2) == pytest.approx(expected)


def test_calibration_error_of_one_bin_is_confidence_less_accuracy():
    probabilities, labels = made_up()
    gap = abs(probabilities.max(axis=1).mean() - accuracy(probabilities, labels))
    assert expected_calibration_error(probabilities, labels, bins=1) == pytest.approx(gap)


def test_calibration_error_is_zero_when_confidence_is_the_accuracy():
    probabilities = np.tile([0.75, 0.25], (40, 1))
    assert expected_calibration_error(probabilities, np.tile([0, 0, 0, 1], 10)) == pytest.approx(0, abs=1e-12)


def test_an_impossible_label_costs_infinitely_much():
    assert negative_log_likelihood(np.array([[1.0, 0.0]]), np.array([1])) == np.inf


def test_brier_runs_from_zero_to_two():
    certain = np.array([[1.0, 0.0]])
    assert (brier(certain, np.array([0])), brier(certain, np.array([1]))) == (0.0, 2.0)


def test_root_mean_square_error_by_hand():
    assert root_mean_square_error(np.array([1.0, 2.0]), np.array([4.0, -2.0])) == pytest.approx(np.sqrt(12.5))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("probabilities", "labels", "message"),
    [
        (np.ones((3, 2)), np.zeros(2, int), r"one label an example; got shapes \(3, 2\) and \(2,\)"),
        (np.ones(3), np.zeros(3, int), r"\(examples, classes\)"),
        (np.ones((0, 2)), np.zeros(0, int), r"got shapes \(0, 2\)"),
        (np.ones((3, 2)), np.array([0, 1, 2]), "from 0 to 1; got int64 from 0 to 2"),
        (np.ones((3, 2)), np.zeros(3), "whole numbers from 0 to 1; got float64"),
    ],
)
def test_wrong_classes_are_refused(score, probabilities, labels, message):
    with pytest.raises(ValueError, match=message):
        score(probabilities, labels)


def test_wrong_bins_and_shapes_are_refused():
    with pytest.raises(ValueError, match="bins >= 1; got bins=0"):
        expected_calibration_error(*made_up(), bins=0)
    with pytest.raises(ValueError, match=r"one shape; got \(3, 1\) and \(3,\)"):
        root_mean_square_error(np.ones((3, 1)), np.ones(3))
