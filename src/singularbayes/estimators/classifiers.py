"""Classifiers: probabilities averaged over draws, with a calibrated temperature, from a perceptron or a model."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from singularbayes.estimators.base import BayesianEstimator
from singularbayes.estimators.calibration import by_component, class_nll, mean_of_unseen_components, temper, temperature
from singularbayes.estimators.defaults import DEFAULTS
from singularbayes.estimators.network import Network, built_by_user, check_architecture, perceptron
from singularbayes.estimators.training import Data
from singularbayes.prediction import ClassPredictive

_ROWS = 4_096  # whose draws are kept at a time


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassifierMixin, BayesianEstimator):
    """A classifier without its network, which is of logits."""

    beta: float = DEFAULTS.class_beta
    class_weight: Any = None
    _smallest_batch = DEFAULTS.class_smallest_batch

    def fit(self, X, y, sample_weight=None):
        """Fits the network to features (rows, features) and labels (rows,), or (rows, labels) of zeros and ones.

        Args:
            sample_weight: a row of weight 2 counts as two rows.
        """
        self._check_arguments()
        resumes = self.warm_start and hasattr(self, "_network")
        X, y, weight = self._check_data(X, y, sample_weight, first=not resumes)
        if not resumes:
            self._find_classes(y)
        self._fit(self._data(X, y, weight, first=not resumes), resumes)
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Trains one epoch on new rows; the first call also decides how features are standardised.

        Args:
            classes: all labels that will come; needed in the first call.
        """
        self._check_arguments()
        self._refuse_early_stopping()
        if self.class_weight == "balanced":
            raise ValueError(
                "partial_fit needs class_weight=None or a dict, because it does not know the labels to come; got "
                'class_weight="balanced".'
            )
        first = not hasattr(self, "_network")
        X, y, weight = self._check_data(X, y, sample_weight, first, minimum=1)
        if classes is not None:
            advice = "Pass all labels that will come, partial_fit(X, y, classes=...)"
            _require_two_classes(type(self).__name__, np.unique(classes), advice)
        if _check_partial_fit_first_call(self, classes):
            self._multi_label = type_of_target(y).startswith("multilabel")
        data = self._data(X, y, weight, first)
        if first:
            self._calibrate(None, None)
        self._learn_more(data, first)
        return self

    def predict_proba(self, X):
        """Returns probabilities: (rows, classes) in the order of `classes_`, or (rows, labels)."""
        x = self._check_features(X)
        if not self._tempers_components:
            return temper(self._draw(self._network, x).mean, self._temperature, exclusive=not self._multi_label)
        # What calibrates was predicted by one component, so each is tempered before they are averaged.
        return np.concatenate([self._pooled(x[i : i + _ROWS]) for i in range(0, len(x), _ROWS)])

    def _pooled(self, x: np.ndarray) -> np.ndarray:
        each = self._by_component(x)
        return np.mean([temper(p, self._temperature, exclusive=not self._multi_label) for p in each], axis=0)

    def _by_component(self, x: np.ndarray) -> np.ndarray:
        """Returns the probabilities of every component, (components, rows, classes)."""
        p = self._draw(self._network, x, keep_draws=True)
        return by_component(p.draws, self.components).mean(axis=0)

    def predict_log_proba(self, X):
        """Returns the logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X):
        """Returns the most probable class of every row, or which labels are more probable than not."""
        p = self.predict_proba(X)
        return (p > 0.5).astype(int) if self._multi_label else self.classes_[p.argmax(axis=1)]

    # -- labels --------------------------------------------------------------------------------------------------------

    def _find_classes(self, y) -> None:
        check_classification_targets(y)
        kind = type_of_target(y)
        if kind == "multiclass-multioutput":
            raise ValueError(
                f"{type(self).__name__} needs labels (rows,), or zeros and ones (rows, labels); got a multiclass-"
                "multioutput target. Wrap it in sklearn.multioutput.MultiOutputClassifier."
            )
        self._multi_label = kind.startswith("multilabel")
        if self._multi_label:
            self.classes_ = np.arange(y.shape[1])
            return
        self.classes_ = np.unique(column_or_1d(y, warn=True))
        advice = "Rows of weight 0 do not count; train_test_split(X, y, stratify=y) keeps every class"
        _require_two_classes(type(self).__name__, self.classes_, advice)

    def _data(self, X, y, weight, first: bool) -> Data:
        if hasattr(y, "toarray"):
            y = y.toarray()
        if not self._multi_label:
            check_classification_targets(y)
            y = column_or_1d(y)
            unseen = np.setdiff1d(y, self.classes_)
            if len(unseen):
                raise ValueError(
                    f"`y` has classes not in `self.classes_`. `self.classes_` has {self.classes_}. 'y' has "
                    f"{np.unique(y)}."
                )
        elif y.ndim != 2 or y.shape[1] != len(self.classes_):
            raise ValueError(f"{type(self).__name__} needs y with {len(self.classes_)} labels; got shape {y.shape}.")
        if self.class_weight is not None:
            weight = weight * compute_sample_weight(self.class_weight, y)
        if first:
            self._features = StandardScaler().fit(X, sample_weight=weight)
        labels = y.astype(int) if self._multi_label else np.searchsorted(self.classes_, y)
        return Data(self._scaled(self._features, X), labels, weight)

    @property
    def _task(self) -> str:
        return "labels" if self._multi_label else "classes"

    @property
    def n_outputs_(self) -> int:
        """The number of classes, or of labels."""
        return len(self.classes_)

    def _strata(self, y):
        return y if y.ndim == 1 else None

    def _row_nll(self, p, y):
        return class_nll(p.mean, y)

    # -- calibration ---------------------------------------------------------------------------------------------------

    def _calibrate(self, p, held_out) -> None:
        self._held_out, self._temperature, self._tempers_components = None, 1.0, False
        if held_out is not None:
            self._temperature = temperature(p.mean, held_out.y, held_out.weight)
            self._held_out = _newest(p.mean, held_out.y, held_out.weight)

    def _calibrate_further(self, p, held_out) -> None:
        found = p.mean, held_out.y, held_out.weight
        before = self._held_out or tuple(array[:0] for array in found)
        self._held_out = _newest(*(np.concatenate(pair) for pair in zip(before, found, strict=True)))
        self._temperature, self._tempers_components = temperature(*self._held_out), False

    def _cross_fit(self, data, parts) -> None:
        super()._cross_fit(data, parts)
        self._tempers_components = True

    def _joined(self, predictions):
        mean = np.concatenate([p.mean for p in predictions])
        return ClassPredictive(mean, np.zeros_like(mean), self.draws)

    def _out_of_fold(self, x, y, held_out):
        mean = mean_of_unseen_components(self._by_component(x), held_out)
        return ClassPredictive(mean, np.zeros_like(mean), self.draws)


def _newest(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(array[-DEFAULTS.kept_rows :] for array in arrays)


def _require_two_classes(name: str, classes: np.ndarray, advice: str) -> None:
    if len(classes) < 2:
        raise ValueError(f"{name} needs rows of at least 2 classes in y; got one class, {classes.tolist()}. {advice}.")


@dataclass(eq=False, repr=False)
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

    hidden_layer_sizes: Any = DEFAULTS.class_hidden_layer_sizes
    activation: str = DEFAULTS.activation
    _: KW_ONLY
    rank: int | None = DEFAULTS.rank
    components: int = DEFAULTS.components
    prior: Any = DEFAULTS.prior
    eta: float = DEFAULTS.eta

    def _check_arguments(self):
        super()._check_arguments()
        check_architecture(self)

    def _new_network(self, data: Data) -> Network:
        return perceptron(self, data.x.shape[1], self.n_outputs_, self._task)


@dataclass(eq=False, repr=False)
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

    model: Callable
    model_kwargs: dict | None = None

    def _new_network(self, data: Data) -> Network:
        columns = data.y if self._multi_label else np.eye(self.n_outputs_)[data.y]
        return built_by_user(self, data.x, columns.astype("float32"), self._task)
