"""Regression: predictions with a standard deviation, calibrated intervals and samples."""

from dataclasses import replace

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from singularbayes.checks import require_choice, require_integer, require_share
from singularbayes.estimators.base import BayesianEstimator, Scaler
from singularbayes.estimators.calibration import by_component, gaussian_nll, of_unseen, pooled_error
from singularbayes.estimators.defaults import DEFAULTS
from singularbayes.estimators.fitting import Data, draw_outputs
from singularbayes.estimators.network import Network, built_by_user, check_architecture, perceptron
from singularbayes.estimators.trainer import LOCK
from singularbayes.estimators.variance import VarianceModel, log_density, variance_over_square
from singularbayes.prediction import ValuePredictive, conformal_intervals

_KEPT = 200  # held-out rows of `partial_fit`: the newest, because the network changes


class Regressor(RegressorMixin, BayesianEstimator):
    """What both regressors do with a network of standardised targets."""

    _steps, _smallest_batch = DEFAULTS.steps, DEFAULTS.smallest_batch
    _features: Scaler
    _values: Scaler
    _variance: VarianceModel | None
    _held_out: tuple[ValuePredictive, Data] | None

    def fit(self, X, y, sample_weight=None):
        """Fits the network to features (rows, features) and targets (rows,) or (rows, outputs).

        Args:
            sample_weight: a row of weight 2 counts as two rows.
        """
        self._check_arguments()
        resumes = self.warm_start and hasattr(self, "_network")
        X, y, weight = self._check_data(X, y, sample_weight, first=not resumes)
        data = self._data(X, y, weight, first=not resumes)
        self._fit(data, resumes)
        return self

    def partial_fit(self, X, y, sample_weight=None):
        """Trains one epoch on new rows; the first call also decides how features and targets are standardised.

        Rows are predicted before they are learned, and these predictions calibrate `predict_interval`.
        """
        self._check_arguments()
        self._refuse_early_stopping()
        first = not hasattr(self, "_network")
        X, y, weight = self._check_data(X, y, sample_weight, first, minimum=1)
        data = self._data(X, y, weight, first)
        if first:
            self._calibrate(None, None)
        self._learn_more(data, first)
        return self

    def predict(self, X, return_std=False):
        """Returns the mean prediction, and with `return_std=True` also its standard deviation.

        The variance is the total one: that of the draws and the noise, calibrated on held-out rows.
        """
        p = self._predictive(X)
        return (
            (self._shaped(p.mean), self._shaped(np.sqrt(p.variance("total")))) if return_std else self._shaped(p.mean)
        )

    def predict_interval(self, X, coverage=0.9):
        """Returns the lower and upper ends of intervals that contain a new target with probability `coverage`.

        They are mean ∓ q · standard deviation, q a quantile over held-out rows (split conformal). With
        `calibrate="split"` the promise is exact on average over data; with "folds" the rows were held out from networks
        with fewer rows, an eighth fewer by default, which makes intervals slightly wide. Of several outputs each has
        its own intervals.
        """
        require_share("predict_interval", coverage=coverage)
        p = self._predictive(X)
        if self._held_out is None:
            raise ValueError(
                "predict_interval needs held-out rows, and this fit has none: calibrate=None, or fewer than "
                f"{DEFAULTS.calibrate_from} rows. Fit with calibrate='folds' or 'split', or use predict(X, "
                "return_std=True)."
            )
        held_out, data = self._held_out
        assert self._variance is not None
        known = self._in_units(held_out, data.x, self._variance.own)
        low, high = conformal_intervals(known, self._values.back(data.y), level=coverage)(p)
        return self._shaped(low), self._shaped(high)

    @property
    def degrees_of_freedom_(self) -> np.ndarray:
        """ν of the predicted Student-t distribution of every output; infinite where it is normal."""
        check_is_fitted(self)
        return np.full(self.n_outputs_, np.inf) if self._variance is None else self._variance.freedom

    def log_likelihood(self, X, y):
        """Returns log p(y) of every row, summed over outputs: of Student-t distributions with what `predict` returns as
        mean and standard deviation, and `degrees_of_freedom_`."""
        p = self._predictive(X)
        error = np.asarray(y, "float64").reshape(p.mean.shape) - p.mean
        return log_density(error, p.variance("total"), self.degrees_of_freedom_).sum(axis=1)

    def sample_y(self, X, n_samples=1, random_state=0):
        """Returns samples of the predictive distribution, (rows, samples) or (rows, outputs, samples).

        A sample is one function from the posterior, the same for all rows, and independent noise. The noise alone is
        Student-t with `degrees_of_freedom_`. In `log_likelihood` the total error is, so samples have its mean and
        variance but somewhat lighter tails.
        """
        require_integer("sample_y", n_samples=n_samples)
        rng = check_random_state(random_state)
        x = self._check_features(X)
        seed = int(rng.randint(np.iinfo("int32").max))
        p = self._in_units(self._draw(self._network, x, keep_draws=True, draws=int(n_samples), seed=seed), x)
        assert p.draws is not None
        functions = p.draws[:n_samples]  # a mixture rounds the number up
        freedom = self.degrees_of_freedom_
        noise = rng.standard_normal(functions.shape)
        if np.isfinite(freedom).any():  # normal over the root of χ²/ν; the variance stays 1
            mixing = np.where(np.isinf(freedom), 1.0, rng.chisquare(np.minimum(freedom, 1e6), noise.shape) / freedom)
            noise /= np.sqrt(mixing * variance_over_square(freedom))
        samples = np.moveaxis(functions + p.noise * noise, 0, -1)
        return samples[:, 0] if self._one_output else samples

    # -- targets -------------------------------------------------------------------------------------------------------

    def _data(self, X, y, weight, first: bool) -> Data:
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        values = np.asarray(y, "float64").reshape(len(y), -1)
        if first:
            self._features, self._values = Scaler.of(X, weight), Scaler.of(values, weight)
            self._one_output, self.n_outputs_ = y.ndim == 1, values.shape[1]
        elif values.shape[1] != self.n_outputs_:
            raise ValueError(
                f"{type(self).__name__} needs y with {self.n_outputs_} outputs, as it was fitted before; got "
                f"{values.shape[1]}."
            )
        return Data(self._features(X), self._values(values), weight)

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if self._one_output else values

    def _row_nll(self, p, y):
        return gaussian_nll(p, y)

    # -- calibration ---------------------------------------------------------------------------------------------------

    def _calibrate(self, p, held_out, per_row: bool = True) -> None:
        self._held_out, self._variance = None, None
        if held_out is not None:
            self._held_out = p, held_out
            per_row = per_row and getattr(self, "noise", "auto") == "auto"
            squares, features = (held_out.y - p.mean) ** 2, _features_of_noise(p, held_out.x)
            self._variance = VarianceModel(features, squares, p.variance("total"), held_out.weight, per_row)

    def _calibrate_further(self, p, held_out) -> None:
        if self._held_out is not None:
            before, rows = self._held_out
            p, held_out = self._joined([before, p]), rows.followed_by(held_out)
        newest = slice(-_KEPT, None)
        p = replace(p, mean=p.mean[newest], std=p.std[newest], noise=p.noise[newest])
        self._calibrate(p, held_out.rows(newest), per_row=False)

    def _joined(self, predictions):
        mean, std, noise = (
            np.concatenate([getattr(p, name) for p in predictions]) for name in ("mean", "std", "noise")
        )
        return ValuePredictive(mean, std, predictions[0].num_draws, noise=noise)

    def _out_of_fold(self, x, y, held_out):
        with LOCK:
            outputs = draw_outputs(self._network, x, self.draws, self._seed)
        found = self._network.likelihood.statistics(outputs)
        components = held_out.shape[1]
        values, noise = (by_component(found[name], components) for name in ("prediction", "noise_variance"))
        means = values.mean(axis=0)
        mean, seen = of_unseen(means, held_out), of_unseen(means, held_out == 0)
        within, noise = (of_unseen(each, held_out) for each in (values.var(axis=0), noise.mean(axis=0)))
        between = means.var(axis=0, ddof=1)
        error = (y - mean) * pooled_error((y - mean) ** 2, between, held_out.sum(axis=1), components)
        # Half the squared difference of two networks estimates their variance. In a row it is large where the error is,
        # since the other components know the target, and a variance must not know its error: all rows get the mean.
        apart = ((mean - seen) ** 2).mean(axis=0) / 2
        return ValuePredictive(y - error, np.sqrt(within + apart), self.draws, noise=np.sqrt(noise))

    def _in_units(self, p: ValuePredictive, x: np.ndarray, factor: np.ndarray | None = None) -> ValuePredictive:
        """Returns predictions for standardised features with a calibrated variance, in the units of the targets.

        Args:
            factor: of the variances of rows; None is that of the calibration.
        """
        if factor is None:
            features, variance = _features_of_noise(p, x), p.variance("total")
            factor = np.ones(1) if self._variance is None else self._variance(features, variance)
        spread = np.sqrt(factor) * self._values.scale
        mean, draws = self._values.back(p.mean), p.draws
        if draws is not None:
            draws = mean + spread * (draws - p.mean)
        return replace(p, mean=mean, std=spread * p.std, noise=spread * p.noise, draws=draws)

    def _predictive(self, X) -> ValuePredictive:
        x = self._check_features(X)
        return self._in_units(self._draw(self._network, x), x)


def _features_of_noise(p: ValuePredictive, x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, p.mean, np.log(p.variance("total"))], axis=1)


class BayesianMLPRegressor(Regressor):
    """A Bayesian multilayer perceptron with low-rank weights for regression; a scikit-learn estimator.

    Arguments are those of `sklearn.neural_network.MLPRegressor` where they mean the same. Features and targets are
    standardised inside.

    Args:
        hidden_layer_sizes, activation: the hidden layers.
        rank: of the weight matrices, lowered where a matrix is smaller.
        components: how many networks the posterior mixes.
        prior: a prior or its name; None is the default of `LowRank`.
        beta: weight of the KL; 1 is the ELBO, and less fits small tables better.
        noise: "head" makes the noise of a row an output of the network; "auto" corrects it by the errors on held-out
            rows, down to one noise level for all where these do not depend on the row; "constant" learns one level.
        calibrate: what standard deviations and intervals are calibrated on: "split" holds out `validation_fraction` of
            the rows; "folds" predicts every row by components that were trained without it, or, with fewer than five
            components, by networks of their own, and then trains on all rows. "auto" is folds with five components or
            more, and below 1,000 rows; else, and with `warm_start`, split. Below 20 rows it is None, no calibration.
        draws: how many networks from the posterior a prediction averages.
        learning_rate: "cosine", which falls to 0 at `max_iter`, or "constant".
        max_iter: epochs; "auto" is as many as make a few thousand steps, from 50 to 1,500.
        early_stopping: stop when `validation_fraction` of the training rows is not predicted better for
            `n_iter_no_change` epochs, and keep the best epoch.
        warm_start: the next `fit` resumes from this one, with calibrate="split".

    Attributes:
        model_: the trained Keras model of standardised features.
        degrees_of_freedom_: of the predicted Student-t distributions; infinite where they are normal.
        loss_curve_, n_iter_, validation_scores_: how training went.

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
            one is trained with its loss, `GaussianNLL(scale)` or `MeanScaleNLL()`, and its optimizer.
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
