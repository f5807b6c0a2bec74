"""Classifiers: probabilities, labels of every kind, weights."""

import keras
import numpy as np
import pytest
from posterior_table import TORCH_FIRST
from small_tables import MLP, SMALL, build, table

import singularbayes as sb
from singularbayes.estimators import BayesianClassifier, BayesianMLPClassifier, BayesianMLPRegressor
from singularbayes.estimators.calibration import class_nll, temper, temperature
from singularbayes.estimators.network import MultiLabel

X, VALUES = table(120)
NEW, NEW_VALUES = table(500, seed=1)
NAMES = np.array(["high", "low", "middle"])  # sorted, as `classes_` is


def labels(values):
    return np.select([values > 0.5, values < -0.5], ["high", "low"], "middle")


@pytest.fixture(scope="module")
def fitted():
    return BayesianMLPClassifier(**MLP).fit(X, labels(VALUES))


@TORCH_FIRST
def test_probabilities_are_those_of_the_model():
    model = BayesianMLPClassifier(**MLP | {"max_iter": 2}, calibrate=None).fit(X, labels(VALUES))
    p = sb.predict(
        model.model_, model._features.transform(NEW).astype("float32"), 20, model._seed, likelihood="categorical_logits"
    )
    np.testing.assert_allclose(model.predict_proba(NEW), p.mean, atol=1e-6)


def test_probabilities_are_tempered_and_predictions_are_their_largest(fitted):
    p = sb.predict(
        fitted.model_,
        fitted._features.transform(NEW).astype("float32"),
        20,
        fitted._seed,
        likelihood="categorical_logits",
    )
    probabilities = fitted.predict_proba(NEW)
    powers = p.mean ** (1 / fitted._temperature)
    np.testing.assert_allclose(probabilities, powers / powers.sum(axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_array_equal(fitted.predict_log_proba(NEW), np.log(probabilities))
    np.testing.assert_array_equal(fitted.classes_, NAMES)
    np.testing.assert_array_equal(fitted.predict(NEW), NAMES[probabilities.argmax(axis=1)])
    assert fitted.score(NEW, labels(NEW_VALUES)) > 0.65


def test_the_temperature_has_the_least_likelihood_loss():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4_000, 3))
    p = np.exp(2 * logits) / np.exp(2 * logits).sum(axis=1, keepdims=True)
    y = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)  # labels drawn from softmax(logits)
    assert temperature(p, y) == pytest.approx(2, rel=0.1)
    yes = 1 / (1 + np.exp(-3 * logits))
    several = (rng.uniform(size=yes.shape) < 1 / (1 + np.exp(-logits))).astype(int)
    assert temperature(yes, several) == pytest.approx(3, rel=0.1)
    best = temperature(p, y)
    losses = [class_nll(temper(p, best * factor), y).mean() for factor in (0.95, 1, 1.05)]
    assert losses[1] == min(losses)


def test_the_temperature_counts_rows_by_their_weights():
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    y, count = np.array([0, 1, 1]), np.array([5, 2, 3])
    repeated = temperature(np.repeat(p, count, axis=0), np.repeat(y, count))
    assert temperature(p, y, count) == pytest.approx(repeated, rel=1e-4)
    assert temperature(p, y) != pytest.approx(repeated, rel=0.01)
    options = MLP | {"max_iter": 2, "calibrate": "split"}
    weight = np.where(VALUES > 0, 5.0, 1.0)
    model = BayesianMLPClassifier(**options).fit(X, labels(VALUES), sample_weight=weight)
    found, own, counted = model._held_out
    assert set(counted) == {1.0, 5.0}
    assert model._temperature == temperature(found, own, counted) != temperature(found, own)
    model.partial_fit(X, labels(VALUES), sample_weight=weight)
    assert model._temperature == temperature(*model._held_out) != temperature(*model._held_out[:2])


@TORCH_FIRST
def test_several_labels_per_row():
    y = np.stack([VALUES > 0, X[:, 2] > 0, VALUES > -1], axis=1).astype(int)
    model = BayesianMLPClassifier(**MLP | {"calibrate": "split"}).fit(X, y)
    p = model.predict_proba(NEW)
    assert p.shape == (500, 3) and p.sum(axis=1).std() > 0.1
    np.testing.assert_array_equal(model.predict(NEW), (p > 0.5).astype(int))
    assert np.mean(model.predict(NEW)[:, 1] == (NEW[:, 2] > 0)) > 0.85
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


def test_class_weights_are_sample_weights():
    y = (VALUES > 0.8).astype(int)
    options = MLP | {"calibrate": None}
    by_class = BayesianMLPClassifier(**options, class_weight={0: 1, 1: 4}).fit(X, y)
    by_row = BayesianMLPClassifier(**options).fit(X, y, sample_weight=np.where(y == 1, 4.0, 1.0))
    plain = BayesianMLPClassifier(**options).fit(X, y)
    np.testing.assert_array_equal(by_class.predict_proba(NEW), by_row.predict_proba(NEW))
    assert by_class.predict_proba(NEW)[:, 1].mean() > plain.predict_proba(NEW)[:, 1].mean() + 0.02
    balanced = BayesianMLPClassifier(**options, class_weight="balanced").fit(X, y)
    assert balanced.predict(NEW).mean() > plain.predict(NEW).mean()


@pytest.mark.parametrize(
    ("estimator", "targets"),
    [(BayesianMLPRegressor, VALUES), (BayesianMLPClassifier, (VALUES > 0).astype(int))],
    ids=["regressor", "classifier"],
)
def test_a_weight_is_a_number_of_repetitions(estimator, targets):
    """With whole batches a step sees the same mean loss; the order of sums differs in single precision."""
    count = np.random.default_rng(1).integers(0, 4, len(X))
    options = MLP | {"batch_size": 256, "calibrate": None, "max_iter": 5, "learning_rate_init": 0.01}
    weighted = estimator(**options).fit(X, targets, sample_weight=count)
    repeated = estimator(**options).fit(np.repeat(X, count, axis=0), np.repeat(targets, count))
    ask = "predict_proba" if estimator is BayesianMLPClassifier else "predict"
    np.testing.assert_allclose(getattr(weighted, ask)(NEW), getattr(repeated, ask)(NEW), rtol=1e-3, atol=1e-3)


def test_labels_come_in_parts():
    model = BayesianMLPClassifier(**MLP | {"learning_rate_init": 0.01})
    x, values = table(1_200, seed=4)
    for start in range(0, 1_200, 100):
        part = slice(start, start + 100)
        model.partial_fit(x[part], labels(values[part]), classes=NAMES)
    assert model.score(NEW, labels(NEW_VALUES)) > 0.65
    with pytest.raises(ValueError, match=r"`y` has classes not in `self.classes_`"):
        model.partial_fit(x[:2], ["high", "huge"])


@pytest.mark.parametrize("loss", ["sparse", "one_hot", "binary", "logits"])
def test_networks_of_the_user_may_end_in_any_cross_entropy(loss):
    losses = {
        "sparse": keras.losses.SparseCategoricalCrossentropy(from_logits=False),
        "one_hot": keras.losses.CategoricalCrossentropy(from_logits=True),
        "binary": keras.losses.BinaryCrossentropy(from_logits=True),
    }

    def compiled(X, y):
        if loss == "logits":
            return build(X, y)
        body = build(X, y[:, :1] if loss == "binary" else y)
        model = keras.Sequential([body, keras.layers.Softmax()]) if loss == "sparse" else body
        model.compile(keras.optimizers.Adam(0.03), losses[loss])
        return model

    model = BayesianClassifier(compiled, **SMALL | {"calibrate": None}).fit(X, VALUES > 0)
    p = model.predict_proba(NEW)
    assert p.shape == (500, 2) and np.allclose(p.sum(axis=1), 1)
    assert model.score(NEW, NEW_VALUES > 0) > 0.75


@pytest.mark.parametrize("several", [False, True], ids=["classes", "labels"])
def test_components_are_tempered_before_they_are_averaged(several):
    y = np.stack([VALUES > 0, X[:, 2] > 0], axis=1).astype(int) if several else labels(VALUES)
    model = BayesianMLPClassifier(**MLP | {"components": 5, "max_iter": 8}).fit(X, y)
    likelihood = MultiLabel() if several else "categorical_logits"
    options = {"likelihood": likelihood, "keep_draws": True}
    draws = sb.predict(model.model_, model._features.transform(NEW).astype("float32"), 20, model._seed, **options).draws
    each = [temper(draws[k::5].mean(axis=0), model._temperature, exclusive=not several) for k in range(5)]
    np.testing.assert_allclose(model.predict_proba(NEW), np.mean(each, axis=0), atol=1e-6)
    assert model._temperature != 1
