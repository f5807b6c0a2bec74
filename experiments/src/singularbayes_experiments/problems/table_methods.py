"""The methods of the comparison on tables: each with its own defaults, and eight configurations to tune.

The first configuration of a method is its defaults. Networks other than ours see features and targets standardised by
the training rows, as ours do inside. `fit` returns a function of new features: mean, standard deviation, and ends of
90 % intervals in regression, and degrees of freedom where predictions are Student-t; probabilities in classification.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np

Values = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # of normal predictions
Z = NormalDist().inv_cdf(0.95)


@dataclass(frozen=True)
class TableMethod:
    """A method, the values of its settings that are tuned, and the largest number of training rows it is run with."""

    fit: Callable[..., Callable]
    grid: Mapping[str, tuple]
    most_rows: int = 10**9

    @property
    def configurations(self) -> list[dict[str, Any]]:
        """The defaults, and every combination of the grid."""
        return [{}, *(dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values()))]


def _normal(mean: np.ndarray, std: np.ndarray) -> Values:
    return mean, std, mean - Z * std, mean + Z * std


def _from_ends(mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> Values:
    """Returns a normal prediction whose 90 % interval is as wide as the one given."""
    low, high = np.minimum(low, high), np.maximum(low, high)
    return mean, np.maximum((high - low) / (2 * Z), 1e-6 * max(1e-30, float(np.std(mean)))), low, high


# -- ours ------------------------------------------------------------------------------------------------------------


def _ours(x, y, seed, **settings):
    from singularbayes.estimators import BayesianMLPRegressor

    model = BayesianMLPRegressor(random_state=seed, **settings).fit(x, y)
    return lambda new: (
        *model.predict(new, return_std=True),
        *model.predict_interval(new, coverage=0.9),
        float(model.degrees_of_freedom_[0]),
    )


def _ours_classes(x, y, seed, **settings):
    from singularbayes.estimators import BayesianMLPClassifier

    return BayesianMLPClassifier(random_state=seed, **settings).fit(x, y).predict_proba


def _full_rank(fit: Callable) -> Callable:
    return lambda x, y, seed, **settings: fit(x, y, seed, **(settings | {"rank": None}))


# -- trees -----------------------------------------------------------------------------------------------------------


def _ngboost(x, y, seed, max_depth=3, **settings):
    from ngboost import NGBRegressor
    from ngboost.learners import default_tree_learner
    from sklearn.base import clone

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
    from sklearn.base import clone

    base = clone(default_tree_learner).set_params(max_depth=max_depth)
    dist = k_categorical(int(y.max()) + 1)
    return NGBClassifier(Dist=dist, Base=base, random_state=seed, verbose=False, **settings).fit(x, y).predict_proba


def _catboost(x, y, seed, **settings):
    from catboost import CatBoostRegressor

    options = {"random_seed": seed, "verbose": False, "thread_count": 1, "allow_writing_files": False}
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **options, **settings).fit(x, y)

    def predict(new):
        mean, variance = model.predict(new).T
        return _normal(mean, np.sqrt(variance))

    return predict


def _catboost_classes(x, y, seed, **settings):
    from catboost import CatBoostClassifier

    options = {"random_seed": seed, "verbose": False, "thread_count": 1, "allow_writing_files": False}
    return CatBoostClassifier(loss_function="MultiClass", **options, **settings).fit(x, y).predict_proba


def _quantiles(x, y, seed, **settings):
    from sklearn.ensemble import HistGradientBoostingRegressor

    mean = HistGradientBoostingRegressor(random_state=seed, **settings).fit(x, y)
    ends = [
        HistGradientBoostingRegressor(loss="quantile", quantile=q, random_state=seed, **settings).fit(x, y)
        for q in (0.05, 0.95)
    ]
    return lambda new: _from_ends(mean.predict(new), *(model.predict(new) for model in ends))


def _boosted_classes(x, y, seed, **settings):
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=seed, **settings).fit(x, y).predict_proba


# -- Gaussian processes ----------------------------------------------------------------------------------------------


def _kernel(kernel: str, scales: np.ndarray):
    from sklearn.gaussian_process import kernels

    shape = {
        "rbf": lambda: kernels.RBF(scales, (1e-2, 1e3)),
        "matern 3/2": lambda: kernels.Matern(scales, (1e-2, 1e3), nu=1.5),
        "matern 5/2": lambda: kernels.Matern(scales, (1e-2, 1e3), nu=2.5),
        "rbf + linear": lambda: kernels.RBF(scales, (1e-2, 1e3)) + kernels.DotProduct(),
    }[kernel]
    return kernels.ConstantKernel() * shape()


def _process(x, y, seed, kernel="rbf", per_feature=False):
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scales = np.ones(x.shape[1]) if per_feature else np.ones(1)
    process = GaussianProcessRegressor(_kernel(kernel, scales) + WhiteKernel(), normalize_y=True, random_state=seed)
    model = make_pipeline(StandardScaler(), process).fit(x, y)
    return lambda new: _normal(*model.predict(new, return_std=True))


def _process_classes(x, y, seed, kernel="rbf", per_feature=False):
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scales = np.ones(x.shape[1]) if per_feature else np.ones(1)
    process = GaussianProcessClassifier(_kernel(kernel, scales), random_state=seed)
    return make_pipeline(StandardScaler(), process).fit(x, y).predict_proba


# -- other networks --------------------------------------------------------------------------------------------------


def _mlp_mapie(x, y, seed, **settings):
    from mapie.regression import CrossConformalRegressor
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.neural_network import MLPRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = make_pipeline(StandardScaler(), MLPRegressor(random_state=seed, **settings))
    model = TransformedTargetRegressor(network, transformer=StandardScaler())
    wrapped = CrossConformalRegressor(model, confidence_level=0.9, cv=5, random_state=seed).fit_conformalize(x, y)

    def predict(new):
        mean, ends = wrapped.predict_interval(new)
        return _from_ends(mean, ends[:, 0, 0], ends[:, 1, 0])

    return predict


def _mlp_classes(x, y, seed, **settings):
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), MLPClassifier(random_state=seed, **settings)).fit(x, y).predict_proba


def _network(inputs: int, outputs: int, loss, steps: int, rate: float, decay: float, dropout: float) -> Callable:
    import keras

    def build():
        layers: list = [keras.Input((inputs,))]
        for _ in range(2):
            layers.append(keras.layers.Dense(64, "relu"))
            if dropout:
                layers.append(keras.layers.Dropout(dropout))
        model = keras.Sequential([*layers, keras.layers.Dense(outputs)])
        schedule = keras.optimizers.schedules.CosineDecay(rate, steps)
        model.compile(keras.optimizers.AdamW(schedule, weight_decay=decay, global_clipnorm=5.0), loss)
        return model

    return build


def _trained(x, targets, *, outputs, loss, seed, members, rate=1e-3, decay=1e-4, dropout=0.0, steps=10_000):
    """Returns a deep ensemble, or one network with dropout, trained for at least 40 epochs and this many steps."""
    from singularbayes.baselines import DeepEnsemble, MCDropout

    batch = 32 if len(x) < 5_000 else 256
    per_epoch = math.ceil(len(x) / batch)
    epochs = max(40, math.ceil(steps / per_epoch))
    build = _network(x.shape[1], outputs, loss, epochs * per_epoch, rate, decay, dropout)
    baseline: Any = MCDropout(build()) if dropout else DeepEnsemble(build, members, seed)
    return baseline.fit(x, targets, epochs, batch, **({"seed": seed} if dropout else {}))


def _scaled(x: np.ndarray, y: np.ndarray):
    centre, scale = x.mean(axis=0), np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0)
    return (lambda new: ((new - centre) / scale).astype("float32")), float(y.mean()), float(y.std())


def _networks(x, y, seed, **settings):
    import singularbayes as sb

    scaled, centre, scale = _scaled(x, y)
    targets = ((y - centre) / scale).astype("float32")[:, None]
    trained = _trained(scaled(x), targets, outputs=2, loss=sb.MeanScaleNLL(), seed=seed, members=5, **settings)

    def predict(new):
        p = trained.predict(scaled(new), draws=100, likelihood="mean_scale")
        return _normal(centre + scale * p.mean.reshape(-1), scale * np.sqrt(p.variance("total").reshape(-1)))

    return predict


def _networks_classes(x, y, seed, **settings):
    import keras

    scaled, _, _ = _scaled(x, y)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    trained = _trained(
        scaled(x), y.astype("int32"), outputs=int(y.max()) + 1, loss=loss, seed=seed, members=5, **settings
    )
    return lambda new: trained.predict(scaled(new), draws=100, likelihood="categorical_logits").mean


def _dropping(fit: Callable) -> Callable:
    return lambda x, y, seed, dropout=0.1, **settings: fit(x, y, seed, dropout=dropout, **settings)


_OURS = {"beta": (0.1, 0.01), "hidden_layer_sizes": ((64, 64), (128, 128)), "learning_rate_init": (0.003, 0.01)}
_TREES = {"n_estimators": (300, 1000), "learning_rate": (0.01, 0.03), "max_depth": (3, 4)}
_CATBOOST = {"depth": (4, 8), "learning_rate": (0.03, 0.1), "l2_leaf_reg": (1, 10)}
_BOOSTING = {"max_iter": (100, 400), "learning_rate": (0.03, 0.1), "max_leaf_nodes": (8, 31)}
_PROCESS = {"kernel": ("rbf", "matern 3/2", "matern 5/2", "rbf + linear"), "per_feature": (False, True)}
_MLP = {"hidden_layer_sizes": ((100,), (64, 64)), "alpha": (1e-4, 1e-1), "learning_rate_init": (1e-3, 1e-2)}
_ENSEMBLE = {"rate": (1e-3, 5e-3), "decay": (1e-4, 1e-2), "steps": (3_000, 10_000)}
_DROPOUT = {"rate": (1e-3, 5e-3), "dropout": (0.02, 0.2), "steps": (3_000, 10_000)}

OURS = ("ours", "ours, full rank")
REGRESSION: dict[str, TableMethod] = {
    "ours": TableMethod(_ours, _OURS),
    "ours, full rank": TableMethod(_full_rank(_ours), _OURS),
    "NGBoost": TableMethod(_ngboost, _TREES),
    "CatBoost": TableMethod(_catboost, _CATBOOST),
    "boosted quantiles": TableMethod(_quantiles, _BOOSTING),
    "Gaussian process": TableMethod(_process, _PROCESS, most_rows=1_500),
    "MLP + MAPIE": TableMethod(_mlp_mapie, _MLP),
    "deep ensemble": TableMethod(_networks, _ENSEMBLE),
    "MC dropout": TableMethod(_dropping(_networks), _DROPOUT),
}
CLASSIFICATION: dict[str, TableMethod] = {
    "ours": TableMethod(_ours_classes, _OURS),
    "ours, full rank": TableMethod(_full_rank(_ours_classes), _OURS),
    "NGBoost": TableMethod(_ngboost_classes, _TREES),
    "CatBoost": TableMethod(_catboost_classes, _CATBOOST),
    "boosted trees": TableMethod(_boosted_classes, _BOOSTING),
    "Gaussian process": TableMethod(_process_classes, _PROCESS, most_rows=1_000),
    "MLP": TableMethod(_mlp_classes, _MLP),
    "deep ensemble": TableMethod(_networks_classes, _ENSEMBLE),
    "MC dropout": TableMethod(_dropping(_networks_classes), _DROPOUT),
}


def quietly(function: Callable, *arguments, **settings):
    """Calls a function without warnings of scikit-learn about iterations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **settings)
