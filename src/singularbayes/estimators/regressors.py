"""The regressors: a multilayer perceptron, and any Keras model."""

from singularbayes.checks import require_choice
from singularbayes.estimators.defaults import DEFAULTS
from singularbayes.estimators.fitting import Data
from singularbayes.estimators.network import Network, check_architecture, perceptron
from singularbayes.estimators.regressor_base import Regressor
from singularbayes.estimators.user_network import built_by_user


class BayesianMLPRegressor(Regressor):
    """A Bayesian multilayer perceptron with low-rank weights for regression; a scikit-learn estimator.

    Arguments are those of `sklearn.neural_network.MLPRegressor` where they mean the same. Features and targets are
    standardised inside.

    Args:
        hidden_layer_sizes, activation: the hidden layers.
        rank: of the weight matrices, lowered where a matrix is smaller.
        components: how many networks the posterior mixes.
        prior: a prior or its name; None is `Anchored(0.3)`.
        beta: weight of the KL; 1 is the ELBO, and less fits small tables better.
        noise: "head" makes the noise of a row an output of the network; "auto" corrects it by the errors on held-out
            rows, down to one noise level for all where these do not depend on the row; "constant" learns one level.
        calibrate: what standard deviations and intervals are calibrated on: "split" holds out `validation_fraction` of
            the rows; "folds" predicts every row by components that were trained without it, or, with fewer than five
            components, by networks of their own, and then trains on all rows. "auto" is folds with five components or
            more, and below 1,000 rows; else, and with `warm_start`, split. Below 20 rows it is None, no calibration.
        draws: how many networks from the posterior a prediction averages.
        learning_rate: "cosine", which rises for a tenth of the steps and falls to 0 at `max_iter`, or "constant".
        max_iter: epochs; "auto" is as many as make a few thousand steps, from 50 to 1,500.
        early_stopping: stop when `validation_fraction` of the training rows is not predicted better for
            `n_iter_no_change` epochs, and keep the best epoch.
        warm_start: the next `fit` resumes from this one, with calibrate="split".

    Attributes:
        model_: the trained Keras model of standardised features.
        degrees_of_freedom_: of the predicted Student-t distributions; infinite where they are normal.
        loss_curve_, n_iter_, validation_scores_: how training went.
        n_replaced_components_: how many components did not train and were replaced by copies of others; a warning too.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> model = BayesianMLPRegressor((8,), rank=2, random_state=0).fit(X, 3 * X[:, 0])
    >>> mean, std = model.predict(X, return_std=True)
    >>> low, high = model.predict_interval(X, coverage=0.9)
    >>> mean.shape, bool((std > 0).all()), bool((low < high).all()), model.sample_y(X, n_samples=5).shape
    ((60,), True, True, (60, 5))
    """

    def __init__(
        self,
        hidden_layer_sizes=DEFAULTS.hidden_layer_sizes,
        activation=DEFAULTS.activation,
        *,
        rank=DEFAULTS.rank,
        components=DEFAULTS.components,
        prior=DEFAULTS.prior,
        eta=DEFAULTS.eta,
        beta=DEFAULTS.beta,
        noise=DEFAULTS.noise,
        calibrate=DEFAULTS.calibrate,
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
        self.noise = noise
        self.calibrate = calibrate
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
        require_choice(type(self).__name__, ("auto", "constant", "head"), noise=self.noise)
        check_architecture(self)

    def _new_network(self, data: Data) -> Network:
        return perceptron(self, data.x.shape[1], self.n_outputs_, "regression", self.noise != "constant")


class BayesianRegressor(Regressor):
    """Any Keras model with posteriors as a scikit-learn regressor, as `keras.wrappers.SKLearnRegressor` does it.

    Args:
        model: a function `model(X, y, **model_kwargs)` that returns a new Keras model with layers of `singularbayes`.
            X and y are the standardised data, y (rows, outputs). A model that is not compiled is trained with Adam: it
            gets one learned noise level for y.shape[1] outputs, and predicts the noise with twice as many. A compiled
            one is trained with its loss, `Gaussian(scale)` or `MeanScale()`, and its optimizer.
        model_kwargs: arguments of the function.
        beta, calibrate, draws, batch_size, …: as in `BayesianMLPRegressor`.

    >>> import keras, numpy as np, singularbayes as sb
    >>> def build(X, y):
    ...     hidden = sb.layers.Dense(8, "tanh", posterior=sb.LowRank(1))
    ...     return keras.Sequential([keras.Input(X.shape[1:]), hidden, keras.layers.Dense(y.shape[1])])
    >>> X = np.linspace(-1, 1, 60)[:, None]
    >>> BayesianRegressor(build, max_iter=5, calibrate=None, random_state=0).fit(X, X[:, 0]).predict(X).shape
    (60,)
    """

    def __init__(
        self,
        model,
        model_kwargs=None,
        *,
        beta=DEFAULTS.beta,
        calibrate=DEFAULTS.calibrate,
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
        return built_by_user(self, data.x, data.y, "regression")
