"""scikit-learn's own checks of estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks
from small_tables import MLP, SMALL, build

from singularbayes.estimators import BayesianClassifier, BayesianMLPClassifier, BayesianMLPRegressor, BayesianRegressor

OPTIONS = {"calibrate": None, "random_state": None}  # the checks set the random state
MLPS = [BayesianMLPRegressor(**MLP | OPTIONS), BayesianMLPClassifier(**MLP | OPTIONS)]
BUILT = [BayesianRegressor(build, **SMALL | OPTIONS), BayesianClassifier(build, **SMALL | OPTIONS)]


def _exceptions(estimator):
    # It needs equality to seven digits; scikit-learn runs it on MLPClassifier with L-BFGS and on MLPRegressor with SGD.
    # test_weights.py checks it to single precision.
    return {"check_sample_weight_equivalence_on_dense_data": "Adam with minibatches in single precision"}


@parametrize_with_checks(MLPS, expected_failed_checks=_exceptions)
def test_a_multilayer_perceptron_passes(estimator, check):
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(BUILT, expected_failed_checks=_exceptions)
def test_a_network_of_the_user_passes(estimator, check):
    check(estimator)
