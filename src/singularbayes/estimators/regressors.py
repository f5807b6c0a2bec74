"""Regressors: predictions with a standard deviation, calibrated intervals and samples, from a perceptron or a model."""

import warnings
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d

from singularbayes.checks import require_choice, require_integer, require_share
from singularbayes.estimators.base import BayesianEstimator
from singularbayes.estimators.calibration import (
    between_components,
    by_component,
    mean_of_unseen_components,
    pooled_error,
)
from singularbayes.estimators.defaults import DEFAULTS
from singularbayes.estimators.network import Network, built_by_user, check_architecture, perceptron
from singularbayes.estimators.training import Data, draw_outputs
from singularbayes.estimators.variance import VarianceModel, log_density, variance_over_square
from singularbayes.metrics.regression import gaussian_nll_of_each
from singularbayes.prediction import ValuePredictive, conformal_intervals


class Regressor(RegressorMixin, BayesianEstimator):
    """A regressor without its network, which is of standardised targets."""

    _smallest_batch, _warm_up, _pairs = DEFAULTS.smallest_batch, DEFAULTS.warm_up, DEFAULTS.pairs

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

        They are mean ∓ q · standard deviation, q a quantile over held-out rows (split conformal). With five components
        or more and 10,000 rows or more the promise is exact on average over data: a twentieth of the rows trains no
        component and fits no noise model. With `calibrate="split"` it is not quite, because the noise model is fitted
        on the rows that the quantile is of. With fewer rows and "folds" the rows were held out from networks with fewer
        rows, an eighth fewer by default, which makes intervals slightly wide. Of several outputs each has its own
        intervals.
        """
        require_share("predict_interval", coverage=coverage)
        p = self._predictive(X)
        if self._held_out is None:
            raise ValueError(
                "predict_interval needs held-out rows, and this fit has none: calibrate=None, or fewer than "
                f"{DEFAULTS.calibrate_from} rows. Fit with calibrate='folds' or 'split', or use predict(X, "
                "return_std=True)."
            )
        assert self._variance is not None
        held_out, data = self._held_out if self._untouched_rows is None else self._untouched_rows
        known = self._in_units(held_out, data.x, self._variance.own if self._untouched_rows is None else None)
        low, high = conformal_intervals(known, self._values.inverse_transform(data.y), level=coverage)(p)
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
        targets = np.asarray(y, "float64")
        if targets.shape not in (p.mean.shape, self._shaped(p.mean).shape):
            raise ValueError(
                f"log_likelihood needs targets in the shape of the predictions, {self._shaped(p.mean).shape}; got "
                f"{targets.shape}."
            )
        error = targets.reshape(p.mean.shape) - p.mean
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
        draws = max(int(n_samples), self.draws)  # their mean and variance are those of `predict`
        p = self._in_units(self._draw(self._network, x, keep_draws=True, draws=draws, seed=seed), x)
        assert p.draws is not None
        functions = p.draws[rng.permutation(len(p.draws))[:n_samples]]  # else few samples are of the first components
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
            self._features = StandardScaler().fit(X, sample_weight=weight)
            self._values = StandardScaler().fit(values, sample_weight=weight)
            self._one_output, self.n_outputs_ = y.ndim == 1, values.shape[1]
        elif values.shape[1] != self.n_outputs_:
            raise ValueError(
                f"{type(self).__name__} needs y with {self.n_outputs_} outputs, as it was fitted before; got "
                f"{values.shape[1]}."
            )
        return Data(self._scaled(self._features, X), self._scaled(self._values, values), weight)

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if self._one_output else values

    def _row_nll(self, p, y):
        return gaussian_nll_of_each(p.mean, np.sqrt(p.variance("total")), y).sum(axis=1)

    # -- calibration ---------------------------------------------------------------------------------------------------

    def _calibrate(self, p, held_out, per_row: bool = True) -> None:
        self._held_out, self._variance = None, None
        self._untouched_rows: tuple[ValuePredictive, Data] | None = None  # that no component saw
        if held_out is not None:
            self._held_out = p, held_out
            per_row = per_row and getattr(self, "noise", "auto") == "auto"
            squares, features = (held_out.y - p.mean) ** 2, _features_of_noise(p, held_out.x)
            self._variance = VarianceModel(features, squares, p.variance("total"), held_out.weight, per_row)

    def _untouched(self, rows):
        few = rows < DEFAULTS.untouched_from
        return 0 if few else min(DEFAULTS.untouched_at_most, round(DEFAULTS.untouched * rows))

    def _replace_failed(self, network, data, used):
        """Replaces a component that learned nothing, or diverged, by a copy of one of the best.

        It is one whose median error on rows that it was trained on is many times that of the others.
        """
        components = getattr(self, "components", 1)
        if components < 3:  # of two, one cannot be far from the median
            return None
        some = np.random.default_rng([self._seed, 6]).permutation(len(data))[: DEFAULTS.judged_rows]
        values, _ = self._by_component(network, data.x[some])
        squares = (values.mean(axis=0) - data.y[some]) ** 2
        if used is not None:
            squares[~used[some].T] = np.nan
        error = np.nan_to_num(np.nanmedian(squares, axis=1).mean(axis=1), nan=np.inf)
        failed = error > DEFAULTS.failed * np.median(error)
        for target, source in zip(np.flatnonzero(failed), np.argsort(error), strict=False):
            network.copy_component(int(source), int(target))
        return failed

    def _keep(self, network):
        super()._keep(network)
        self.n_replaced_components_ = 0 if network.failed is None else int(network.failed.sum())
        if self.n_replaced_components_:
            warnings.warn(
                f"{self.n_replaced_components_} of {len(network.failed)} components did not train and were replaced by "
                f"copies of others; lower learning_rate_init={self.learning_rate_init}.",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _by_component(self, network, x):
        """Returns what draws predict and their noise variances, (draws of a component, components, rows, outputs)."""
        found = network.likelihood.statistics(draw_outputs(network, x, self.draws, self._seed))
        return [by_component(found[name], self.components) for name in ("prediction", "noise_variance")]

    def _calibrate_intervals(self, p, held_out):
        self._untouched_rows = p, held_out

    def _calibrate_further(self, p, held_out) -> None:
        if self._held_out is not None:
            before, rows = self._held_out
            p, held_out = self._joined([before, p]), rows.followed_by(held_out)
        newest = slice(-DEFAULTS.kept_rows, None)
        p = replace(p, mean=p.mean[newest], std=p.std[newest], noise=p.noise[newest])
        self._calibrate(p, held_out.rows(newest), per_row=False)

    def _joined(self, predictions):
        mean, std, noise = (
            np.concatenate([getattr(p, name) for p in predictions]) for name in ("mean", "std", "noise")
        )
        return ValuePredictive(mean, std, predictions[0].num_draws, noise=noise)

    def _out_of_fold(self, x, y, held_out):
        values, noise = self._by_component(self._network, x)
        components = held_out.shape[1]
        means = values.mean(axis=0)
        mean = mean_of_unseen_components(means, held_out)
        within, noise = (mean_of_unseen_components(each, held_out) for each in (values.var(axis=0), noise.mean(axis=0)))
        # In a row the variance between components is large where the error is, since most of them know the target, and
        # a variance must not know its error: all rows get the mean.
        between = between_components(means, held_out)
        error = (y - mean) * pooled_error((y - means) ** 2, between, held_out)
        apart = between * (1 - 1 / components)
        return ValuePredictive(y - error, np.sqrt(within + apart), self.draws, noise=np.sqrt(noise))

    def _in_units(self, p: ValuePredictive, x: np.ndarray, factor: np.ndarray | None = None) -> ValuePredictive:
        """Returns predictions for standardised features with a calibrated variance, in the units of the targets.

        Args:
            factor: of the variances of rows; None is that of the calibration.
        """
        if factor is None:
            features, variance = _features_of_noise(p, x), p.variance("total")
            factor = np.ones(1) if self._variance is None else self._variance(features, variance)
        spread = np.sqrt(factor) * self._values.scale_
        mean, draws = self._values.inverse_transform(p.mean), p.draws
        if draws is not None:
            draws = mean + spread * (draws - p.mean)
        return replace(p, mean=mean, std=spread * p.std, noise=spread * p.noise, draws=draws)

    def _predictive(self, X) -> ValuePredictive:
        x = self._check_features(X)
        return self._in_units(self._draw(self._network, x), x)


def _features_of_noise(p: ValuePredictive, x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, p.mean, np.log(p.variance("total"))], axis=1)


@dataclass(eq=False, repr=False)
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

    hidden_layer_sizes: Any = DEFAULTS.hidden_layer_sizes
    activation: str = DEFAULTS.activation
    _: KW_ONLY
    rank: int | None = DEFAULTS.rank
    components: int = DEFAULTS.components
    prior: Any = DEFAULTS.prior
    eta: float = DEFAULTS.eta
    noise: str = DEFAULTS.noise

    def _check_arguments(self):
        super()._check_arguments()
        require_choice(type(self).__name__, ("auto", "constant", "head"), noise=self.noise)
        check_architecture(self)

    def _new_network(self, data: Data) -> Network:
        return perceptron(self, data.x.shape[1], self.n_outputs_, "regression", self.noise != "constant")


@dataclass(eq=False, repr=False)
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

    model: Callable
    model_kwargs: dict | None = None

    def _new_network(self, data: Data) -> Network:
        return built_by_user(self, data.x, data.y, "regression")
