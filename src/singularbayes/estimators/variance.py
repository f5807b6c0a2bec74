"""The noise of a row, learned from the errors on held-out rows."""

import math

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold

from singularbayes.estimators.defaults import DEFAULTS

_LIMIT = 1e4  # between the scales of rows, on either side of their mean


class VarianceModel:
    """A factor of the predicted variance for every row and output: squared errors over predicted variances, as a
    function of the features, the predicted mean and the predicted variance.

    −log N(y; mean, s v) is ½ (log s + z/s) with z = (y − mean)²/v, up to a constant: the deviance of a gamma variable z
    with mean s. So the factor is a gamma regression, by boosted trees. There are as many trees as predict errors of
    rows that they have not seen best, none unless they help by more than a standard error. Means stay as they are.
    """

    def __init__(self, features: np.ndarray, ratios: np.ndarray, weight: np.ndarray, per_row: bool = True):
        """Args: features (rows, …); ratios z (rows, outputs); weight (rows,); per_row: whether rows may differ."""
        self._models = [_Output(features, z, weight, per_row) for z in ratios.T]
        # Of these rows themselves, from trees that did not see them.
        self.own = np.stack([model.own for model in self._models], axis=1)

    @property
    def per_row(self) -> bool:
        """Whether rows of some output have variances of their own."""
        return any(model.trees is not None for model in self._models)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Returns the factors, (rows, outputs)."""
        return np.stack([model(features) for model in self._models], axis=1)


class _Output:
    """The factors of one output: `factor`, times what trees say where they help."""

    def __init__(self, features, z, weight, per_row: bool):
        # A few rows that are predicted exactly do not make predictions certain.
        self.mean = self.factor = float(np.clip(np.average(z, weights=weight), 0.01, 100.0))
        self.trees: HistGradientBoostingRegressor | None = None
        self.own = np.full(len(z), self.factor)
        if not per_row or len(z) < DEFAULTS.variance_from:
            return
        z = np.maximum(z, 1e-6 * self.mean)  # a gamma variable is positive
        number, own = _best_number(features, z, weight)
        if number:
            own = self._limited(own)
            self.factor = float(np.average(z / own, weights=weight))
            self.own = self.factor * own
            self.trees = _boosting(number, len(z)).fit(features, z, sample_weight=weight)

    def __call__(self, features):
        if self.trees is None:
            return np.full(len(features), self.factor)
        return self.factor * self._limited(self.trees.predict(features))

    def _limited(self, scales):
        return np.clip(scales, self.mean / _LIMIT, self.mean * _LIMIT)


def _boosting(trees: int, rows: int) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(
        loss="gamma",
        max_iter=trees,
        learning_rate=0.1,
        max_leaf_nodes=8,
        min_samples_leaf=max(20, rows // 200),
        early_stopping=False,
        random_state=0,
    )


def _best_number(features, z, weight) -> tuple[int, np.ndarray]:
    """Returns how many trees predict held-out rows best, 0 where that is no better than one scale for all; and the
    scales that they predict for rows that they did not see."""
    step = DEFAULTS.variance_trees // 10
    scales = np.zeros((11, len(z)))
    for train, test in KFold(5, shuffle=True, random_state=0).split(z):
        model = _boosting(DEFAULTS.variance_trees, len(z)).fit(features[train], z[train], sample_weight=weight[train])
        scales[0, test] = np.average(z[train], weights=weight[train])
        scales[1:, test] = list(model.staged_predict(features[test]))[step - 1 :: step]
    nll = (np.log(scales) + z / scales) / 2 * (weight / weight.mean())
    best = int(nll.mean(axis=1).argmin())
    gain = nll[0] - nll[best]
    helps = gain.mean() > gain.std(ddof=1) / math.sqrt(len(gain))
    return (step * best if helps else 0), scales[best]
