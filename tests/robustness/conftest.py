"""One model of each task, shared by all cases, and what it gives for plain arrays."""

import keras
import pytest
from robustness_cases import DRAWS, X, small_model

import singularbayes as sb


@pytest.fixture(scope="session")
def classifier():
    return small_model(3, keras.losses.SparseCategoricalCrossentropy(from_logits=True))


@pytest.fixture(scope="session")
def regressor():
    return small_model(1, sb.Gaussian(0.5))


@pytest.fixture(scope="session")
def plain(classifier):
    """What the classifier predicts for the array."""
    return sb.predict(classifier, X, DRAWS)


@pytest.fixture(scope="session")
def plain_values(regressor):
    return sb.predict(regressor, X, DRAWS)
