"""Scores of classes refuse wrong probabilities and labels with a sentence, never with a NaN."""

import numpy as np
import pytest
from test_scoring import made_up

from singularbayes.metrics import (
    accuracy,
    auroc,
    brier,
    calibration_errors,
    expected_calibration_error,
    negative_log_likelihood,
    ood_scores,
    reliability_curve,
)
from singularbayes.prediction import ClassPredictive

HALF = np.full((3, 2), 0.5)
SCORES = [
    accuracy,
    auroc,
    negative_log_likelihood,
    brier,
    expected_calibration_error,
    calibration_errors,
    reliability_curve,
]
BAD = {
    "one label too few": (HALF, np.zeros(2, int), r"one label per example; got shapes \(3, 2\) and \(2,\)"),
    "one-hot labels": (HALF, np.eye(2)[[0, 1, 1]], r"got shapes \(3, 2\) and \(3, 2\).*labels.argmax\(axis=1\)"),
    "one column": (
        np.full((3, 1), 0.5),
        np.zeros(3, int),
        r"got \(3, 1\).*np.stack\(\[1 - p, p\], axis=-1\) with p of shape",
    ),
    "no column": (np.full(3, 0.5), np.zeros(3, int), r"\(examples, classes\), not empty; got \(3,\)"),
    "a sequence": (np.full((3, 5, 2), 0.5), np.zeros((3, 5), int), r"got \(3, 5, 2\).*reshape\(-1, classes\)"),
    "empty": (np.ones((0, 2)), np.zeros(0, int), r"not empty; got \(0, 2\)"),
    "a scalar": (np.float64(0.5), np.zeros(1, int), r"not empty; got \(\)"),
    "NaN": (np.where(np.eye(3, 2), np.nan, 0.5), np.zeros(3, int), r"got nan in probabilities at \[0, 0\], and 2 of 6"),
    "not of sum 1": (
        np.ones((3, 2)),
        np.zeros(3, int),
        "sum to 1 over classes; got values from 1 to 1 and sums from 2",
    ),
    "negative": (
        HALF + np.array([0.7, -0.7]),
        np.zeros(3, int),
        "not negative and sum to 1 .* got values from -0.2 to 1.2",
    ),
    "a label too high": (HALF, np.array([0, 1, 2]), "integers from 0 to 1; got int64 from 0 to 2"),
    "a label too low": (HALF, np.array([-1, 1, 1]), "integers from 0 to 1; got int64 from -1 to 1"),
    "a label between": (HALF, np.array([0, 0.5, 1]), "integers from 0 to 1; got float64 from 0.0 to 1.0"),
    "a missing label": (HALF, np.array([0, np.nan, 1]), "integers from 0 to 1; got float64"),
    "words": (HALF, np.array(["cat", "dog", "dog"]), "integers from 0 to 1; got <U3"),
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", BAD)
def test_wrong_classes_are_refused(score, name):
    probabilities, labels, message = BAD[name]
    with pytest.raises(ValueError, match=f"{score.__name__} needs .*{message}"):
        score(probabilities, labels)


def test_predictions_as_a_whole_are_refused_with_the_parts_to_take():
    p = ClassPredictive.of_draws(HALF[None])
    with pytest.raises(TypeError, match=r"accuracy needs an array of numbers in probabilities; got ClassP.* p\.mean"):
        accuracy(p, np.zeros(3, int))
    with pytest.raises(TypeError, match=r"auroc_ood needs .* in inside; got ClassPredictive.* p\.mutual_information"):
        ood_scores(p, p)


def test_auroc_needs_every_class():
    p, labels = made_up()
    with pytest.raises(
        ValueError, match=r"auroc needs examples of each of the 4 classes; got none with label \[2, 3\]"
    ):
        auroc(p, labels % 2)
    with pytest.raises(ValueError, match=r"each of the 2 classes; got none with label \[0\]"):
        auroc(HALF, np.ones(3, int))
