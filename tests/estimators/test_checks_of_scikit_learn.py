"""scikit-learn's own checks of estimators: torch has those of regressors, for each fits a network of another shape."""

import pytest
from posterior_table import ON_TORCH
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks
from small_tables import MLP, SMALL, build

from singularbayes.estimators import BayesianClassifier, BayesianMLPClassifier, BayesianMLPRegressor, BayesianRegressor

OPTIONS = {"calibrate": None, "random_state": None}  # the checks set the random state
REGRESSOR, CLASSIFIER = BayesianMLPRegressor(**MLP | OPTIONS), BayesianMLPClassifier(**MLP | OPTIONS)
BUILT = [BayesianRegressor(build, **SMALL | OPTIONS), BayesianClassifier(build, **SMALL | OPTIONS)]


def _exceptions(estimator):
    # It needs equality to seven digits; scikit-learn runs it on MLPClassifier with L-BFGS and on MLPRegressor with SGD.
    # `test_a_weight_is_a_number_of_repetitions` checks it to single precision.
    return {"check_sample_weight_equivalence_on_dense_data": "Adam with minibatches in single precision"}


def _name(check):
    return getattr(check, "func", check).__name__


def _of_classifiers_only():
    general = {_name(check) for _, check in estimator_checks_generator(REGRESSOR)}
    return [
        pytest.param(check, id=_name(check))
        for _, check in estimator_checks_generator(CLASSIFIER)
        if _name(check) not in general
    ]


@ON_TORCH
@parametrize_with_checks([REGRESSOR], expected_failed_checks=_exceptions)
def test_a_multilayer_perceptron_passes(estimator, check):
    check(estimator)


@pytest.mark.parametrize("check", _of_classifiers_only())  # they train for long, where JAX is faster
def test_a_classifier_passes_what_regressors_are_not_asked(check):
    check(clone(CLASSIFIER))


# On every other backend: parameters, pickling, refits and the order of rows.
EVERYWHERE = {
    "check_parameters_default_constructible",
    "check_dont_overwrite_attributes",
    "check_fit2d_1sample",
    "check_estimators_nan_inf",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_n_features_in",
}


@pytest.mark.parametrize(
    "check", [pytest.param(c, id=_name(c)) for _, c in estimator_checks_generator(REGRESSOR) if _name(c) in EVERYWHERE]
)
def test_it_passes_some_on_every_backend(check):
    check(clone(REGRESSOR))


@pytest.mark.exhaustive
@parametrize_with_checks([CLASSIFIER, *BUILT], expected_failed_checks=_exceptions)
def test_the_others_pass(estimator, check):
    check(estimator)
