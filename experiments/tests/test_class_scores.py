"""Scores of classifiers: what two classes add, and that the arrays of a record are enough to score again."""

import numpy as np
import pytest
from singularbayes_experiments.methods import class_scores

import singularbayes as sb


def test_the_area_under_precision_and_recall_is_the_mean_precision_at_the_positives():
    # In descending order the positives are 1st, 3rd and 4th: precisions 1/1, 2/3 and 3/4.
    certain = np.array([0.9, 0.7, 0.6, 0.5, 0.2])
    p = sb.ClassPredictive(np.stack([1 - certain, certain], axis=1), np.zeros((5, 2)), 1)
    found = class_scores.of_test(p, np.array([1, 0, 1, 1, 0]), {})
    assert found["auprc"] == pytest.approx((1 + 2 / 3 + 3 / 4) / 3)
    blind = sb.ClassPredictive(np.full((5, 2), 0.5), np.zeros((5, 2)), 1)
    assert class_scores.of_test(blind, np.array([1, 0, 1, 1, 0]), {})["auprc"] == pytest.approx(3 / 5)
    assert "auprc" not in class_scores.of_test(blind, np.zeros(5, int), {})  # there is no positive


def test_three_classes_have_no_positive_one():
    p = sb.ClassPredictive.of_draws(np.random.default_rng(0).dirichlet(np.ones(3), (4, 60)))
    assert "auprc" not in class_scores.of_test(p, np.arange(60) % 3, {})


def test_stored_arrays_of_two_classes_give_every_score_again():
    rng = np.random.default_rng(1)
    p, strange = (sb.ClassPredictive.of_draws(rng.dirichlet(np.ones(2), (8, n))) for n in (90, 40))
    labels = rng.integers(0, 2, 90)
    arrays = class_scores.stored("test", p, labels) | class_scores.stored("other", strange)
    again = class_scores.of_test(
        class_scores.read_back("test", arrays, 8),
        arrays["test_labels"],
        {"other": class_scores.read_back("other", arrays, 8)},
    )
    found = class_scores.of_test(p, labels, {"other": strange})
    assert found.keys() == again.keys()
    for name, value in found.items():
        assert again[name] == pytest.approx(value, rel=1e-4, abs=1e-5), name
