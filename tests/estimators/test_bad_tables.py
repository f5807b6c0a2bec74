"""What estimators refuse, with errors of scikit-learn's kind."""

import keras
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from small_tables import MLP, SMALL, build, table

from singularbayes.estimators import BayesianClassifier, BayesianMLPClassifier, BayesianMLPRegressor, BayesianRegressor

pytestmark = pytest.mark.on_torch

X, Y = table(30)
LABELS = (Y > 0).astype(int)
QUICK = MLP | {"max_iter": 1, "calibrate": None}


@pytest.mark.parametrize(
    ("x", "y", "error"),
    [
        (X, np.full(30, "a"), "could not convert string to float"),
        (np.full((30, 3), "a"), Y, r"could not convert string to float.*make_column_transformer"),
    ],
)
def test_text_is_no_number(x, y, error):
    with pytest.raises((ValueError, TypeError), match=error):
        BayesianMLPRegressor(**QUICK).fit(x, y)


@pytest.mark.parametrize(
    ("y", "error"),
    [
        (
            np.full(30, "ill"),
            r"needs rows of at least 2 classes in y; got one class, \['ill'\]. Rows of weight 0 do not count; "
            r"train_test_split\(X, y, stratify=y\) keeps every class",
        ),
        (Y, "Unknown label type: continuous"),
        (np.stack([LABELS, 2 * LABELS], axis=1), "multiclass-multioutput"),
    ],
)
def test_bad_labels(y, error):
    with pytest.raises(ValueError, match=error):
        BayesianMLPClassifier(**QUICK).fit(X, y)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"hidden_layer_sizes": (8, 0)}, "hidden_layer_sizes to be an integer >= 1"),
        ({"activation": "swish"}, "activation to be one of"),
        ({"rank": 0}, "rank to be an integer >= 1"),
        ({"components": 1.5}, "components to be an integer >= 1"),
        ({"beta": -1}, "beta >= 0"),
        ({"noise": "none"}, "noise to be one of"),
        ({"calibrate": "yes"}, "calibrate to be one of"),
        ({"calibrate": "folds", "warm_start": True}, 'calibrate="split" with warm_start=True'),
        ({"learning_rate": "adaptive"}, "learning_rate to be one of"),
        ({"learning_rate_init": 0}, "learning_rate_init > 0"),
        ({"max_iter": 0}, "max_iter to be an integer >= 1"),
        ({"validation_fraction": 1.0}, "0 < validation_fraction < 1"),
    ],
)
def test_bad_arguments(options, error):
    with pytest.raises(ValueError, match=error):
        BayesianMLPRegressor(**QUICK | options).fit(X, Y)


def test_too_few_rows_to_hold_out():
    with pytest.raises(ValueError, match="needs at least 5 rows; got 4"):
        BayesianMLPRegressor(**QUICK | {"calibrate": "folds"}).fit(X[:4], Y[:4])
    with pytest.raises(ValueError, match="rows to hold out and rows to train on; got 2 rows"):
        BayesianMLPRegressor(**QUICK | {"calibrate": "split", "validation_fraction": 0.9}).fit(X[:2], Y[:2])


def test_intervals_need_held_out_rows():
    model = BayesianMLPRegressor(**QUICK)
    with pytest.raises(NotFittedError):
        model.predict_interval(X)
    model.fit(X, Y)
    with pytest.raises(ValueError, match="predict_interval needs held-out rows"):
        model.predict_interval(X)
    with pytest.raises(ValueError, match="0 < coverage < 1"):
        model.predict_interval(X, coverage=90)
    model.set_params(calibrate="split").fit(X, Y)
    with pytest.raises(ValueError, match=r"needs at least 9 held-out examples for level=0.9.*got 3"):
        model.predict_interval(X)
    with pytest.raises(ValueError, match="n_samples to be an integer >= 1"):
        model.sample_y(X, n_samples=0)


def test_more_outputs_than_those_of_the_fit():
    model = BayesianMLPRegressor(**QUICK).fit(X, Y)
    with pytest.raises(ValueError, match="needs y with 1 outputs"):
        model.partial_fit(X, np.stack([Y, Y], axis=1))


def test_a_constant_column_is_left_out_of_predictions():
    constant = np.full((30, 1), 0.1)  # its mean is not 0.1 exactly
    with_it = BayesianMLPRegressor(**QUICK).fit(np.hstack([X, constant]), Y)
    mean, std = with_it.predict(np.hstack([X, constant]), return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    assert np.isfinite(with_it.predict(np.hstack([X, constant + 1]))).all()
    np.testing.assert_allclose(
        with_it._features.transform(np.hstack([X, constant])).astype("float32")[:, 3], 0, atol=1e-12
    )


def test_huge_targets_keep_their_digits():
    model = BayesianMLPRegressor(**QUICK).fit(X, 1e9 + Y)
    small = BayesianMLPRegressor(**QUICK).fit(X, Y)
    np.testing.assert_allclose(model.predict(X) - 1e9, small.predict(X), atol=1e-5)


def test_partial_fit_needs_all_classes_at_first():
    model = BayesianMLPClassifier(**QUICK)
    with pytest.raises(
        ValueError, match=r"got one class, \[0\]. Pass all labels that will come, partial_fit\(X, y, cl"
    ):
        model.partial_fit(X, np.zeros(30, int), classes=[0])
    assert list(model.partial_fit(X, np.zeros(30, int), classes=[0, 1]).classes_) == [0, 1]  # as the error says
    with pytest.raises(ValueError, match=r"`y` has classes not in `self.classes_`"):
        BayesianMLPClassifier(**QUICK).partial_fit(X, LABELS + 1, classes=[0, 1])
    with pytest.raises(ValueError, match="classes must be passed on the first call to partial_fit"):
        BayesianMLPClassifier(**QUICK).partial_fit(X, LABELS)
    with pytest.raises(ValueError, match='class_weight="balanced"'):
        BayesianMLPClassifier(**QUICK, class_weight="balanced").partial_fit(X, LABELS, classes=[0, 1])
    with pytest.raises(ValueError, match="does not support early_stopping=True"):
        BayesianMLPRegressor(**QUICK, early_stopping=True).partial_fit(X, Y)


def test_bad_weights():
    with pytest.raises(ValueError, match="Negative values in data passed to `sample_weight`"):
        BayesianMLPRegressor(**QUICK).fit(X, Y, sample_weight=-np.ones(30))
    with pytest.raises(ValueError, match="at least one non-zero number"):
        BayesianMLPRegressor(**QUICK).fit(X, Y, sample_weight=np.zeros(30))


def test_training_that_ends_in_nan_is_an_error():
    with pytest.raises(ValueError, match=r"not finite by epoch .* Lower learning_rate_init=1e\+30"):
        BayesianMLPRegressor(**MLP | {"learning_rate_init": 1e30, "calibrate": None}).fit(X, Y)


def _no_posterior(X, y):
    return keras.Sequential([keras.Input(X.shape[1:]), keras.layers.Dense(y.shape[1])])


def _too_wide(X, y):
    return build(X, np.repeat(y, 3, axis=1))


def _without_noise(X, y):
    model = build(X, y)
    model.compile("adam", "mse")
    return model


@pytest.mark.parametrize(
    ("estimator", "model", "error"),
    [
        (BayesianRegressor, "mlp", "needs model to be a function that makes a Keras model"),
        (BayesianRegressor, lambda X, y: None, "to return a Keras model; got NoneType"),
        (BayesianRegressor, _no_posterior, "needs a model with a posterior"),
        (BayesianRegressor, _too_wide, "needs a model with 1 outputs, y.shape.1., or 2"),
        (BayesianClassifier, _too_wide, "needs a model with 2 outputs, y.shape.1.; got 6"),
        (BayesianRegressor, _without_noise, "needs a model compiled with Gaussian"),
        (BayesianClassifier, _without_noise, "needs a model compiled with a cross-entropy"),
    ],
)
def test_bad_networks(estimator, model, error):
    with pytest.raises((TypeError, ValueError), match=error):
        estimator(model, **SMALL).fit(X, LABELS)
