"""Scores of deterministic networks for detection: their formulas, and what they must not depend on."""

import numpy as np
import pytest
from scipy.spatial import distance

from singularbayes import metrics

RNG = np.random.default_rng(0)


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
        (lambda: metrics.energy_score(np.zeros((2, 2)), 0), "temperature > 0; got 0"),
        (lambda: metrics.least_confidence(np.array([[0.9, 0.3]])), "least_confidence needs probabilities"),
        (lambda: metrics.MahalanobisDistance(np.zeros((4, 2)), np.zeros(3)), r"one label per example, \(4,\)"),
        (lambda: metrics.MahalanobisDistance(np.eye(3), np.zeros(3))(np.zeros((1, 2))), "needs 3 features"),
    ],
)
def test_wrong_arrays_are_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
