"""Every test starts from the same seed; every law can ask for every posterior."""

import gc
import json
from pathlib import Path

import hypothesis
import keras
import pytest
from table import POSTERIORS, RANDOM, stirred

# The same examples in every run: a failure can be had again.
hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.load_profile("same")


def pytest_collection_finish():
    """Whatever was imported stays: the garbage collector need not walk through it again and again, nor so often."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def pytest_sessionfinish():
    gc.unfreeze()


@pytest.fixture(autouse=True)
def seed():
    keras.utils.set_random_seed(20250)


@pytest.fixture(params=POSTERIORS)
def posterior(request):
    """Every posterior, built for a 5 × 4 weight, with means and scales that differ in every entry."""
    return stirred(POSTERIORS[request.param]())


@pytest.fixture(params=RANDOM)
def random_posterior(request):
    """Every posterior that has noise, built as `posterior`."""
    return stirred(RANDOM[request.param]())


@pytest.fixture(scope="session")
def vectors():
    """The paper's numbers: name → formula, inputs, expected."""
    return json.loads((Path(__file__).parent / "vectors.json").read_text())
