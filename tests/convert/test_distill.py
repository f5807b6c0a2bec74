"""Distillation: one plain network with valid outputs that follows its teacher, through files and exportable graphs."""

import keras
import numpy as np
import pytest
from keras import ops
from table import ON_TORCH, stir

import singularbayes as sb
from singularbayes import FullRank, LowRank, layers

pytestmark = pytest.mark.on_torch
X = np.random.default_rng(2).normal(size=(512, 3)).astype("float32")
SHOWN, NEW = X[:384], X[384:]


def _teacher(units, loss):
    keras.utils.set_random_seed(3)
    hidden = layers.Dense(12, "tanh", posterior=LowRank(2, eta=0.5))
    model = stir(keras.Sequential([keras.Input((3,)), hidden, layers.Dense(units, posterior=FullRank(eta=0.5))]))
    model.compile("adam", loss)
    return model


@pytest.fixture(scope="module")
def classes():
    """A teacher of classes and its student."""
    teacher = _teacher(3, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    options = {"draws": 40, "epochs": 80, "batch_size": 128, "learning_rate": 0.03}
    return teacher, sb.distill(teacher, SHOWN[:300], unlabelled=SHOWN[300:], **options)


def test_a_student_of_classes_follows_its_teacher_on_new_inputs(classes):
    teacher, student = classes
    assert not sb.find_posteriors(student)
    p, t = sb.predict(student, NEW), sb.predict(teacher, NEW, draws=40)
    assert type(p) is type(t) and p.num_draws == t.num_draws
    means = sb.predict(sb.collapse(teacher), NEW, likelihood="categorical_logits")
    assert np.abs(p.mean - t.mean).mean() < 0.3 * np.abs(means.mean - t.mean).mean()
    assert np.corrcoef(p.mutual_information, t.mutual_information)[0, 1] > 0.9
    assert p.mutual_information.mean() == pytest.approx(t.mutual_information.mean(), rel=0.1)


@ON_TORCH
def test_its_outputs_are_valid_everywhere_and_the_same_from_a_file_and_as_a_graph(classes, tmp_path):
    _, student = classes
    x = np.concatenate([NEW, 1e6 * NEW])
    p = sb.predict(student, x)
    np.testing.assert_allclose(p.mean.sum(axis=-1), 1, rtol=1e-12)
    assert np.isfinite(p.mutual_information).all()
    assert (p.mutual_information >= 0).all() and (p.mutual_information <= p.entropy).all()
    student.save(tmp_path / "student.keras")
    again = sb.predict(keras.saving.load_model(tmp_path / "student.keras"), x)
    np.testing.assert_allclose(again.mutual_information, p.mutual_information, rtol=1e-5, atol=1e-7)
    for name, value in sb.freeze_draws(student)(x).items():  # the graph to export
        np.testing.assert_allclose(ops.convert_to_numpy(value), getattr(p, name), rtol=1e-4, atol=1e-6)


@pytest.mark.backend
def test_outputs_of_a_student_are_valid_before_it_has_learned_anything():
    teacher = _teacher(3, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    p = sb.predict(sb.distill(teacher, X[:16], draws=2, epochs=1, batch_size=16), 100 * X[:16])
    np.testing.assert_allclose(p.mean.sum(axis=-1), 1, rtol=1e-12)
    assert (p.mean >= 0).all() and np.isfinite(p.entropy).all()
    assert (p.mutual_information >= 0).all() and (p.mutual_information <= p.entropy).all()


@ON_TORCH
def test_a_student_of_a_regression_has_the_teachers_noise_and_epistemic_spread():
    teacher = _teacher(1, sb.GaussianNLL(0.3))
    own = keras.Sequential([keras.Input((3,)), keras.layers.Dense(24, "tanh"), keras.layers.Dense(1)])
    student = sb.distill(teacher, SHOWN, student=own, draws=40, epochs=20, learning_rate=0.03)
    p, t = sb.predict(student, NEW), sb.predict(teacher, NEW, draws=40)
    assert p.noise == 0.3 and p.mean.shape == t.mean.shape == (128,)
    assert (p.std > 0).all()
    assert np.corrcoef(p.mean, t.mean)[0, 1] > 0.98 and np.corrcoef(p.std, t.std)[0, 1] > 0.95
    assert p.std.mean() == pytest.approx(t.std.mean(), rel=0.1)


def test_what_cannot_be_distilled_is_refused():
    with pytest.raises(ValueError, match="classes that exclude each other, or a regression with Gaussian noise"):
        sb.distill(_teacher(2, sb.MeanScaleNLL()), X[:8], draws=2, epochs=1)


@pytest.mark.parametrize(
    ("units", "activation", "message"),
    [(4, None, "a student with 3 outputs, as many as its teacher predicts; got 4"), (3, "softmax", "that are logits")],
)
def test_a_student_unlike_its_teacher_is_refused(classes, units, activation, message):
    own = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units, activation)])
    with pytest.raises(ValueError, match=message):
        sb.distill(classes[0], X[:8], student=own, draws=2, epochs=1)
