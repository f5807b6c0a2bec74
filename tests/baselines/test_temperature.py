"""The temperature of a deterministic network minimises the held-out loss, and changes no label."""

import keras
import numpy as np
import pytest
from posterior_table import TORCH_FIRST
from scipy import special

import singularbayes as sb
from singularbayes import LowRank, TemperatureScaled, layers

pytestmark = pytest.mark.on_torch

RNG = np.random.default_rng(10)
LOGITS = (4 * RNG.normal(size=(400, 3))).astype("float32")
LABELS = np.array([RNG.choice(3, p=special.softmax(row / 2.5)) for row in LOGITS])  # true temperature 2.5


def _identity(from_logits=True):
    last = keras.layers.Dense(3, None if from_logits else "softmax", kernel_initializer="identity")
    model = keras.Sequential([keras.Input((3,)), last])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits))
    return model


def _loss(temperature):
    return -special.log_softmax(LOGITS / temperature, axis=-1)[np.arange(400), LABELS].mean()


@TORCH_FIRST
@pytest.mark.parametrize("from_logits", [True, False])
def test_it_minimises_the_held_out_loss(from_logits):
    scaled = TemperatureScaled(_identity(from_logits)).fit(LOGITS, LABELS)
    best = _loss(scaled.temperature)
    assert all(best <= _loss(scaled.temperature * factor) for factor in (0.98, 0.999, 1.001, 1.02))
    assert scaled.temperature == pytest.approx(2.5, rel=0.25)


def test_probabilities_are_those_of_scaled_logits_and_labels_stay():
    scaled = TemperatureScaled(_identity()).fit(LOGITS, LABELS)
    p, plain = scaled.predict(LOGITS, keep_draws=True), sb.predict(_identity(), LOGITS)
    np.testing.assert_allclose(p.mean, special.softmax(LOGITS / scaled.temperature, axis=-1), rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(p.predicted_labels, plain.predicted_labels)
    assert not p.mutual_information.any() and not p.std.any() and p.draws.shape == (1, 400, 3)


def test_a_saved_one_predicts_the_same(tmp_path):
    scaled = TemperatureScaled(_identity()).fit(LOGITS, LABELS)
    scaled.save(tmp_path / "scaled")
    np.testing.assert_array_equal(
        TemperatureScaled.load(tmp_path / "scaled").predict(LOGITS).mean, scaled.predict(LOGITS).mean
    )
    assert scaled.num_trained == 12 + 1


@pytest.mark.parametrize("labels", [LABELS[:-1], LABELS + 1, LABELS - 0.5])
def test_labels_that_do_not_fit_are_refused(labels):
    with pytest.raises(ValueError, match="recalibrate needs"):
        TemperatureScaled(_identity()).fit(LOGITS, labels)


def test_what_is_no_point_classifier_is_refused():
    random = keras.Sequential([keras.Input((3,)), layers.Dense(3, posterior=LowRank(2))])
    for model, likelihood in ((random, "categorical_logits"), (_identity(), "gaussian")):
        with pytest.raises(ValueError, match="needs a deterministic network that gives one class per example; got"):
            TemperatureScaled(model).fit(LOGITS, LABELS, likelihood=likelihood)
