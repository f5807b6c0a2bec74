"""Estimators for scikit-learn: Bayesian networks on tables.

>>> from sklearn.datasets import load_iris
>>> from singularbayes.estimators import BayesianMLPClassifier
>>> X, y = load_iris(return_X_y=True)
>>> model = BayesianMLPClassifier((16,), max_iter=40, random_state=0).fit(X, y)
>>> model.score(X, y) > 0.9
True
"""

from singularbayes.estimators.classifiers import BayesianClassifier, BayesianMLPClassifier
from singularbayes.estimators.defaults import DEFAULTS
from singularbayes.estimators.regressors import BayesianMLPRegressor, BayesianRegressor

__all__ = ["DEFAULTS", "BayesianClassifier", "BayesianMLPClassifier", "BayesianMLPRegressor", "BayesianRegressor"]
