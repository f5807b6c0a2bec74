"""What the four estimators share: checks of arguments and data, standardisation, held-out rows, `partial_fit`."""

import math
from abc import abstractmethod
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from singularbayes.checks import require_at_least, require_choice, require_integer, require_positive, require_share
from singularbayes.estimators.calibration import folds, second_held_out, split
from singularbayes.estimators.defaults import DEFAULTS
from singularbayes.estimators.network import Network
from singularbayes.estimators.training import LOCK, Data, Recipe, draw, seeded, train


@dataclass(eq=False, repr=False, kw_only=True)
class BayesianEstimator(BaseEstimator):
    """An estimator that trains a Bayesian network on standardised data and averages draws of it."""

    beta: float = DEFAULTS.beta
    calibrate: str | None = DEFAULTS.calibrate
    draws: int = DEFAULTS.draws
    batch_size: int | str = "auto"
    learning_rate: str = DEFAULTS.learning_rate
    learning_rate_init: float = DEFAULTS.learning_rate_init
    max_iter: int | str = DEFAULTS.max_iter
    shuffle: bool = True
    random_state: Any = None
    tol: float = DEFAULTS.tol
    verbose: bool = False
    warm_start: bool = False
    early_stopping: bool = False
    validation_fraction: float = DEFAULTS.validation_fraction
    n_iter_no_change: int = DEFAULTS.n_iter_no_change

    _smallest_batch = DEFAULTS.smallest_batch
    _warm_up = 0.0  # share of the epochs in which the learning rate rises
    _pairs = 0.0  # share of the rows that two components of a cross-fit do not see

    # -- what the classifier and the regressor define, and the networks of each ----------------------------------------

    @abstractmethod
    def _new_network(self, data: Data) -> Network:
        """Returns a new network for the data."""

    @abstractmethod
    def _row_nll(self, p, y: np.ndarray) -> np.ndarray:
        """Returns −log p(y) of every row, before calibration."""

    def _strata(self, y: np.ndarray) -> np.ndarray | None:
        """Returns what is spread over folds evenly."""
        return None

    @abstractmethod
    def _calibrate(self, p, held_out: Data | None) -> None:
        """Fits the calibration to predictions of held-out rows; with None nothing is calibrated."""

    def _replace_failed(self, network: Network, data: Data, used: np.ndarray | None) -> np.ndarray | None:
        """Replaces components whose training failed by copies of others; returns which they are, (components,).

        Args:
            used: (rows, components), which rows trained which component; None is all.
        """
        return None

    def _untouched(self, rows: int) -> int:
        """Returns how many rows a cross-fit holds out from all components."""
        return 0

    def _calibrate_intervals(self, p, held_out: Data) -> None:
        """Takes the quantiles of intervals from rows that no component saw."""

    @abstractmethod
    def _calibrate_further(self, p, held_out: Data) -> None:
        """Fits the calibration to more held-out rows."""

    @abstractmethod
    def _joined(self, predictions: list):
        """Returns predictions of some rows after others as one."""

    @abstractmethod
    def _out_of_fold(self, x: np.ndarray, y: np.ndarray, held_out: np.ndarray):
        """Returns predictions of rows by the components that did not see them.

        Args:
            held_out: (rows, components), which components did not see a row.
        """

    # -- checks --------------------------------------------------------------------------------------------------------

    def _check_arguments(self) -> None:
        name = type(self).__name__
        require_integer(name, n_iter_no_change=self.n_iter_no_change, draws=self.draws)
        require_positive(name, learning_rate_init=self.learning_rate_init)
        require_at_least(name, 0, beta=self.beta, tol=self.tol)
        require_share(name, validation_fraction=self.validation_fraction)
        require_choice(name, ("cosine", "constant"), learning_rate=self.learning_rate)
        for key in ("batch_size", "max_iter"):
            if getattr(self, key) != "auto":
                require_integer(name, **{key: getattr(self, key)})
        if self.calibrate is not None:
            require_choice(name, ("auto", "split", "folds"), calibrate=self.calibrate)
        if self.calibrate == "folds" and self.warm_start:
            raise ValueError(
                f'{name} needs calibrate="split" with warm_start=True, because a network that resumes has seen the '
                'rows of all folds; got calibrate="folds".'
            )

    def _check_data(self, X, y, sample_weight, first: bool, minimum: int = 2):
        """Returns features, targets and weights, without the rows of weight 0."""
        numeric = is_regressor(self)
        options: dict[str, Any] = {"dtype": "float64", "multi_output": True, "y_numeric": numeric}
        try:
            X, y = validate_data(self, X, y, reset=first, ensure_min_samples=minimum, **options)
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise ValueError(
                f"{error}. {type(self).__name__} needs numbers; encode columns of text before it: make_pipeline("
                'make_column_transformer((OneHotEncoder(sparse_output=False), ["column"]), remainder="passthrough"), '
                f"{type(self).__name__}())."
            ) from error
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        used = weight > 0
        return (X, y, weight) if used.all() else (X[used], y[used], weight[used])

    def _check_features(self, X) -> np.ndarray:
        check_is_fitted(self)
        return self._scaled(self._features, validate_data(self, X, reset=False, dtype="float64"))

    def _scaled(self, scaler, values) -> np.ndarray:
        return scaler.transform(values).astype("float32")

    def _refuse_early_stopping(self) -> None:
        if self.early_stopping:
            raise ValueError("partial_fit does not support early_stopping=True; got early_stopping=True.")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_network")

    @property
    def model_(self):
        """The trained Keras model, which takes standardised features; a copy, unless it is of a function of yours."""
        check_is_fitted(self)
        with LOCK, seeded(self._seed):
            return self._network.copy_of_model()

    # -- training ------------------------------------------------------------------------------------------------------

    def _fit(self, data: Data, resumes: bool) -> None:
        """Trains on all that is not held out, and calibrates on what is."""
        if not resumes:
            self._begin()
        self.n_samples_seen_ += float(data.weight.sum())
        start = self._network if resumes else None
        rows, how = len(data), self._how_to_calibrate(len(data))
        rng = np.random.default_rng([self._seed, 1])
        if how is None:
            self._keep(self._trained(data, 0, start))
            self._calibrate(None, None)
        elif how == "split":
            held_out, others = split(rows, self.validation_fraction, rng)
            if not len(held_out) or not len(others):
                raise ValueError(
                    f'calibrate="split" needs rows to hold out and rows to train on; got {rows} rows and '
                    f"validation_fraction={self.validation_fraction}. Pass calibrate=None."
                )
            self._keep(self._trained(data.rows(others), 0, start))
            apart = data.rows(held_out)
            self._calibrate(self._draw(self._network, apart.x), apart)
        else:
            if rows < DEFAULTS.folds:
                raise ValueError(f'calibrate="folds" needs at least {DEFAULTS.folds} rows; got {rows} rows.')
            crosses = self._crosses
            count = min(self.components, DEFAULTS.most_folds, rows) if crosses else DEFAULTS.folds
            parts = folds(rows, count, self._strata(data.y), rng)
            (self._cross_fit if crosses else self._fit_folds)(data, parts)

    def _cross_fit(self, data: Data, parts: np.ndarray) -> None:
        """Trains every component without one of the parts, and calibrates with what it predicts for that part.

        Some rows are held out from a second component too: how far two components are apart on rows that neither saw
        is how far they are on new ones. Of many rows a few are held out from all components: their errors are exactly
        those of new rows.
        """
        order = np.random.default_rng([self._seed, 4]).permutation(len(data))
        untouched, order = np.split(order, [self._untouched(len(data))])
        data, apart = data.rows(np.sort(order)), data.rows(untouched)
        parts = parts[np.sort(order)]
        held_out = parts[:, None] == np.arange(self.components) % (parts.max() + 1)
        held_out |= second_held_out(held_out, self._pairs, np.random.default_rng([self._seed, 5]))
        network = self._trained(data, 0, used=~held_out)
        self._keep(network)
        if network.failed is not None:
            held_out &= ~network.failed  # a copy predicts what its original does
        shown = np.sort(np.argsort(np.argsort(order))[: DEFAULTS.calibrate_at_most])
        shown = shown[held_out[shown].any(axis=1)]
        p = self._out_of_fold(data.x[shown], data.y[shown], held_out[shown])
        self._calibrate(p, data.rows(shown))
        if len(apart):
            self._calibrate_intervals(self._draw(self._network, apart.x), apart)

    def _fit_folds(self, data: Data, parts: np.ndarray) -> None:
        """Trains a network without each of the parts to calibrate with, and one on all rows."""
        order, predictions = [], []
        start = self._started(data, 0)
        for fold in range(DEFAULTS.folds):
            network = self._trained(data.rows(parts != fold), fold + 1, copy(start))
            order.append(np.flatnonzero(parts == fold))
            predictions.append(self._draw(network, data.x[order[-1]]))
        self._keep(self._trained(data, 0, start))
        self._calibrate(self._joined(predictions), data.rows(np.concatenate(order)))

    def _begin(self) -> None:
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo("int32").max))
        self.n_iter_, self.n_samples_seen_ = 0, 0.0
        self.loss_curve_: list[float] = []

    def _how_to_calibrate(self, rows: int) -> str | None:
        if self.calibrate != "auto":
            return self.calibrate
        if rows < DEFAULTS.calibrate_from:
            return None
        return "folds" if (self._crosses or rows < DEFAULTS.folds_below) and not self.warm_start else "split"

    @property
    def _crosses(self) -> bool:
        """Whether the components of the network are enough that each can do without some rows."""
        return getattr(self, "components", 1) >= DEFAULTS.folds

    def _seed_of(self, index: int) -> int:
        return int(np.random.SeedSequence([self._seed, self.n_iter_, index]).generate_state(1)[0] >> 1)

    def _started(self, data: Data, index: int) -> Network:
        """Returns a new network; `index` tells the networks of one fit apart."""
        with LOCK, seeded(self._seed_of(index)):
            return self._new_network(data)

    def _trained(self, data: Data, index: int, network: Network | None = None, used=None) -> Network:
        """Returns a network trained on the data.

        Args:
            network: the one to train; None is a new one.
            used: (rows, components), which rows train which component; None is all.
        """
        network, watch, recipe = network or self._started(data, index), None, self._recipe(len(data))
        if self.early_stopping:
            held_out, others = split(len(data), self.validation_fraction, np.random.default_rng([self._seed, 3, index]))
            if not len(held_out) or not len(others):
                raise ValueError(f"early_stopping needs rows to watch and rows to train on; got {len(data)} rows.")
            watched, data = data.rows(held_out), data.rows(others)
            used = None if used is None else used[others]

            def watch(network: Network) -> float:
                p = draw(network, watched.x, DEFAULTS.stopping_draws, self._seed)
                return -float(np.average(self._row_nll(p, watched.y), weights=watched.weight))

        with LOCK:
            train(network, data, recipe, self._seed_of(index), watch, used)
            network.failed = self._replace_failed(network, data, used)
        return network

    def _recipe(self, rows: int) -> Recipe:
        size = DEFAULTS.batch_size(rows, self._smallest_batch) if self.batch_size == "auto" else int(self.batch_size)
        epochs = DEFAULTS.epochs(math.ceil(rows / size)) if self.max_iter == "auto" else int(self.max_iter)
        cosine = self.learning_rate == "cosine"
        return Recipe(
            epochs=epochs,
            batch_size=size,
            rate=float(self.learning_rate_init),
            cosine=cosine,
            warm_up=self._warm_up if cosine else 0.0,
            beta=float(self.beta),
            shuffle=bool(self.shuffle),
            tol=float(self.tol),
            patience=int(self.n_iter_no_change),
            verbose=bool(self.verbose),
        )

    def _keep(self, network: Network) -> None:
        """Makes a trained network that of the estimator."""
        self._network = network
        self.loss_curve_ = [*self.loss_curve_, *network.losses]
        self.n_iter_, self.loss_ = len(self.loss_curve_), self.loss_curve_[-1]
        if self.early_stopping:
            self.validation_scores_ = network.scores

    def _learn_more(self, data: Data, first: bool) -> None:
        """Trains one epoch on new rows, which are predicted first: so each calibrates before it is learned.

        Of the first rows, a share is predicted by a network that was trained on the others.
        """
        if first:
            self._begin()
            network = self._started(data, 0)
            if self.calibrate is not None:
                held_out, others = split(len(data), self.validation_fraction, np.random.default_rng([self._seed, 1]))
                if len(others):
                    self._one_epoch(data.rows(others), network)
                    data = data.rows(held_out)
        if hasattr(self, "_network") and self.calibrate is not None:
            self._calibrate_further(self._draw(self._network, data.x), data)
        self._one_epoch(data, self._network if hasattr(self, "_network") else network)

    def _one_epoch(self, data: Data, network: Network) -> None:
        self.n_samples_seen_ += float(data.weight.sum())
        recipe = replace(self._recipe(len(data)), epochs=1, cosine=False, warm_up=0.0, num_data=self.n_samples_seen_)
        with LOCK:
            self._keep(train(network, data, recipe, self._seed_of(0)))

    def _draw(self, network: Network, x: np.ndarray, **options):
        """Returns what draws of a network predict for standardised features; `options` are those of `draw`."""
        return draw(network, x, **{"draws": self.draws, "seed": self._seed} | options)
