"""The classifiers: a multilayer perceptron, and any Keras model."""

import numpy as np

from singularbayes.estimators.classifier_base import Classifier
from singularbayes.estimators.defaults import DEFAULTS
from singularbayes.estimators.fitting import Data
from singularbayes.estimators.network import Network, check_architecture, perceptron
from singularbayes.estimators.user_network import built_by_user


class BayesianMLPClassifier(Classifier):
    """A Bayesian multilayer perceptron with low-rank weights for classification; a scikit-learn estimator.

    Arguments are those of `sklearn.neural_network.MLPClassifier` where they mean the same. Two or more classes, or
    several labels per row (zeros and ones). Features are standardised inside.

    Args:
        class_weight: weights of classes, {label: weight} or "balanced"; they multiply `sample_weight`.
        calibrate: what the temperature of the probabilities is fitted on: "split" holds out `validation_fraction` of
            the rows; "folds" predicts every row by components that were trained without it, or, with fewer than five
            components, by networks of their own, and then trains on all rows. "auto" is folds with five components or
            more, and below 1,000 rows; else, and with `warm_start`, split. Below 20 rows it is None, no calibration.
        hidden_layer_sizes, rank, components, prior, beta, draws, …: as in `BayesianMLPRegressor`.

    Attributes:
        classes_: the labels, in the order of the columns of `predict_proba`.
        model_: the trained Keras model of standardised features.
        loss_curve_, n_iter_, validation_scores_: how training went.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> y = np.where(X[:, 0] > 0, "high", "low")
    >>> model = BayesianMLPClassifier((8,), rank=2, random_state=0).fit(X, y)
    >>> model.predict([[-0.9], [0.9]]), model.predict_proba(X).shape
    (array(['low', 'high'], dtype='<U4'), (60, 2))
    """

    def __init__(
        self,
        hidden_layer_sizes=DEFAULTS.class_hidden_layer_sizes,
        activation=DEFAULTS.activation,
        *,
        rank=DEFAULTS.rank,
        components=DEFAULTS.components,
        prior=DEFAULTS.prior,
        eta=DEFAULTS.eta,
        beta=DEFAULTS.class_beta,
        calibrate=DEFAULTS.calibrate,
        class_weight=None,
        draws=DEFAULTS.draws,
        batch_size="auto",
        learning_rate=DEFAULTS.learning_rate,
        learning_rate_init=DEFAULTS.learning_rate_init,
        max_iter=DEFAULTS.max_iter,
        shuffle=True,
        random_state=None,
        tol=DEFAULTS.tol,
        verbose=False,
        warm_start=False,
        early_stopping=False,
        validation_fraction=DEFAULTS.validation_fraction,
        n_iter_no_change=DEFAULTS.n_iter_no_change,
    ):
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.rank = rank
        self.components = components
        self.prior = prior
        self.eta = eta
        self.beta = beta
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.draws = draws
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.tol = tol
        self.verbose = verbose
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change

    def _check_arguments(self):
        super()._check_arguments()
        check_architecture(self)

    def _new_network(self, data: Data) -> Network:
        return perceptron(self, data.x.shape[1], self.n_outputs_, self._task)


class BayesianClassifier(Classifier):
    """Any Keras model with posteriors as a scikit-learn classifier, as `keras.wrappers.SKLearnClassifier` does it.

    Args:
        model: a function `model(X, y, **model_kwargs)` that returns a new Keras model with layers of `singularbayes`.
            X are the standardised features, y (rows, classes) the labels as zeros and ones. A model that is not
            compiled has y.shape[1] logits and is trained with Adam; a compiled one is trained with its loss, a
            cross-entropy, and its optimizer.
        model_kwargs: arguments of the function.
        beta, calibrate, class_weight, draws, …: as in `BayesianMLPClassifier`.

    >>> import keras, numpy as np, singularbayes as sb
    >>> def build(X, y):
    ...     hidden = sb.layers.Dense(8, "tanh", posterior=sb.LowRank(1))
    ...     return keras.Sequential([keras.Input(X.shape[1:]), hidden, keras.layers.Dense(y.shape[1])])
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> model = BayesianClassifier(build, max_iter=5, calibrate=None, random_state=0).fit(X, X[:, 0] > 0)
    >>> model.predict_proba(X).shape
    (60, 2)
    """

    def __init__(
        self,
        model,
        model_kwargs=None,
        *,
        beta=DEFAULTS.class_beta,
        calibrate=DEFAULTS.calibrate,
        class_weight=None,
        draws=DEFAULTS.draws,
        batch_size="auto",
        learning_rate=DEFAULTS.learning_rate,
        learning_rate_init=DEFAULTS.learning_rate_init,
        max_iter=DEFAULTS.max_iter,
        shuffle=True,
        random_state=None,
        tol=DEFAULTS.tol,
        verbose=False,
        warm_start=False,
        early_stopping=False,
        validation_fraction=DEFAULTS.validation_fraction,
        n_iter_no_change=DEFAULTS.n_iter_no_change,
    ):
        self.model = model
        self.model_kwargs = model_kwargs
        self.beta = beta
        self.calibrate = calibrate
        self.class_weight = class_weight
        self.draws = draws
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_init = learning_rate_init
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.tol = tol
        self.verbose = verbose
        self.warm_start = warm_start
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change

    def _new_network(self, data: Data) -> Network:
        columns = data.y if self._multi_label else np.eye(self.n_outputs_)[data.y]
        return built_by_user(self, data.x, columns.astype("float32"), self._task)
