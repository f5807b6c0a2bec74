"""Distillation: one plain network with valid outputs that follows its teacher, through files and ONNX-ready graphs."""

import keras
import numpy as np
import pytest
from keras import ops
from table import stir

import singularbayes as sb
from singularbayes import FullRank, LowRank, layers

pytestmark = pytest.mark.backend
X = np.random.default_rng(2).normal(size=(256, 3)).astype("float32")


def _teacher(units, loss):
    hidden = layers.Dense(12, "tanh", posterior=LowRank(2, eta=0.5))
    model = stir(keras.Sequential([keras.Input((3,)), hidden, layers.Dense(units, posterior=FullRank(eta=0.5))]))
    model.compile("adam", loss)
    return model


def test_a_student_of_classes_follows_its_teacher_and_its_outputs_are_valid(tmp_path):
    teacher = _teacher(3, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    student = sb.distill(teacher, X[:200], unlabelled=X[200:], draws=40, epochs=80, learning_rate=0.02)
    assert not sb.find_posteriors(student)
    p, t = sb.predict(student, X), sb.predict(teacher, X, draws=40)
    assert type(p) is type(t) and p.num_draws == t.num_draws
    np.testing.assert_allclose(p.mean.sum(axis=-1), 1, rtol=1e-12)
    assert (p.mutual_information >= 0).all() and (p.mutual_information <= p.entropy).all()
    before = sb.predict(sb.collapse(teacher), X, likelihood="categorical_logits")
    assert np.abs(p.mean - t.mean).mean() < 0.5 * np.abs(before.mean - t.mean).mean()
    # The head of the mutual information is linear in features of the means; it explains at least half of the variance.
    assert np.mean((p.mutual_information - t.mutual_information) ** 2) < 0.5 * np.var(t.mutual_information)
    assert p.mutual_information.mean() == pytest.approx(t.mutual_information.mean(), rel=0.1)
    far = sb.predict(student, 1e6 * X)
    assert np.isfinite(far.mean).all() and (far.mutual_information >= 0).all()
    student.save(tmp_path / "student.keras")
    again = sb.predict(keras.saving.load_model(tmp_path / "student.keras"), X)
    np.testing.assert_allclose(again.mutual_information, p.mutual_information, rtol=1e-5, atol=1e-7)
    frozen = sb.freeze_draws(student)(X)  # the graph to export
    for name, value in frozen.items():
        np.testing.assert_allclose(ops.convert_to_numpy(value), getattr(p, name), rtol=1e-4, atol=1e-6)


def test_a_student_of_a_regression_has_the_teachers_noise_and_epistemic_spread():
    teacher = _teacher(1, sb.GaussianNLL(0.3))
    own = keras.Sequential([keras.Input((3,)), keras.layers.Dense(24, "tanh"), keras.layers.Dense(1)])
    student = sb.distill(teacher, X, student=own, draws=40, epochs=80, learning_rate=0.02)
    p, t = sb.predict(student, X), sb.predict(teacher, X, draws=40)
    assert p.noise == 0.3 and p.mean.shape == t.mean.shape == (256,)
    assert (p.std > 0).all()
    assert np.corrcoef(p.mean, t.mean)[0, 1] > 0.95 and np.corrcoef(p.std, t.std)[0, 1] > 0.7
    assert np.sqrt((p.std**2).mean()) == pytest.approx(np.sqrt((t.std**2).mean()), rel=0.25)


def test_what_cannot_be_distilled_is_refused():
    with pytest.raises(ValueError, match="classes that exclude each other, or a regression with Gaussian noise"):
        sb.distill(_teacher(2, sb.MeanScaleNLL()), X[:8], draws=2, epochs=1)
