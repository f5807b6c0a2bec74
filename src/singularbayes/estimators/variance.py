"""The variance of a row, corrected by the errors on held-out rows."""

import math

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from singularbayes.estimators.defaults import DEFAULTS

_LIMIT = 1e3  # between the factors of rows, on either side of their mean
_FLOOR = 0.05  # the quantile of predicted variances that they are raised to
_POWERS = (1.0, 0.75, 0.5, 0.25, 0.0)
_ONE_THREAD = 10_000  # rows; with fewer, the threads of a tree wait longer for each other than they compute


class VarianceModel:
    """A factor of the predicted variance v of every row and output.

    The corrected variance is c · v^b · t(row), with v at least what a twentieth of the rows are below. The power b in
    [0, 1] makes held-out errors most likely: 1 keeps the predicted variances, 0 is one variance for all rows. The trees
    t regress √z, z = error²/v^b, on features of the row with the Poisson loss, whose steps stay bounded and which
    errors far out move little. There are as many trees as predict errors of rows that they have not seen best, none
    unless they help by more than a standard error. At the end c makes squared errors as large as variances on average.
    Means stay as they are.
    """

    def __init__(self, features, squares, variances, weight, per_row: bool = True):
        """Args: features (rows, …); squared errors and variances (rows, outputs); weight (rows,); per_row: whether to
        correct more than c."""
        columns = zip(squares.T, variances.T, strict=True)
        with threadpool_limits(1 if len(weight) < _ONE_THREAD else None, "openmp"):
            self._outputs = [_Output(features, square, variance, weight, per_row) for square, variance in columns]
        # Of these rows themselves, from trees that did not see them.
        self.own = np.stack([output.own for output in self._outputs], axis=1)

    @property
    def per_row(self) -> bool:
        """Whether some output has a factor that depends on the row."""
        return any(output.power < 1 or output.trees is not None for output in self._outputs)

    def __call__(self, features: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """Returns the factors, (rows, outputs)."""
        columns = zip(self._outputs, variances.T, strict=True)
        return np.stack([output(features, variance) for output, variance in columns], axis=1)


class _Output:
    """The factors of one output: c · (v/centre)^(b − 1) · t, of a v that is raised to `floor`."""

    def __init__(self, features, squares, given, weight, per_row: bool):
        per_row = per_row and len(squares) >= DEFAULTS.variance_from
        # A network that is certain of a row, say because it saw the same features before, may be wrong all the same.
        self.floor = float(np.quantile(given, _FLOOR)) if per_row else 0.0
        variances = np.maximum(given, self.floor)
        self.centre = float(np.exp(np.average(np.log(variances), weights=weight)))
        self.trees: HistGradientBoostingRegressor | None = None
        powers = _POWERS if per_row else _POWERS[:1]
        found = []
        for self.power in powers:
            base = self._powered(variances)
            scale = _scale(squares / (variances * base), weight)
            found.append((np.average(_nll(squares, scale * variances * base), weights=weight), self.power, scale))
        _, self.power, self.scale = min(found)
        base = self._powered(variances)
        z = squares / (variances * self.scale * base)
        self.own = self.scale * base * variances / given
        if not per_row or z.max() == 0:
            return
        number, own = _best_number(features, z, weight)
        if number:
            own = np.clip(own, 1 / _LIMIT, _LIMIT)
            self.scale *= _scale(z / own, weight)  # the square of a mean of √z is less than the mean of z
            self.own = self.scale * base * own * variances / given
            self.trees = _boosting(number, len(z)).fit(features, np.sqrt(z), sample_weight=weight)

    def _powered(self, variances):
        return (variances / self.centre) ** (self.power - 1)

    def __call__(self, features, given):
        variances = np.maximum(given, self.floor)
        factor = self.scale * self._powered(variances) * variances / given
        if self.trees is None:
            return factor
        return factor * np.clip(self.trees.predict(features) ** 2, 1 / _LIMIT, _LIMIT)


def _scale(ratios, weight) -> float:
    # A few rows that are predicted exactly do not make predictions certain.
    return float(np.clip(np.average(ratios, weights=weight), 0.01, 100.0))


def _nll(squares, variances):
    return (np.log(variances) + squares / variances) / 2


def _boosting(trees: int, rows: int) -> HistGradientBoostingRegressor:
    return HistGradientBoostingRegressor(
        loss="poisson",
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
        model = _boosting(DEFAULTS.variance_trees, len(z))
        model.fit(features[train], np.sqrt(z[train]), sample_weight=weight[train])
        scales[0, test] = np.average(z[train], weights=weight[train])
        scales[1:, test] = np.square(list(model.staged_predict(features[test]))[step - 1 :: step])
    means = np.average(z / scales, axis=1, weights=weight)[:, None]
    nll = _nll(z, scales * means) * (weight / weight.mean())
    best = int(nll.mean(axis=1).argmin())
    gain = nll[0] - nll[best]
    helps = gain.mean() > gain.std(ddof=1) / math.sqrt(len(gain))
    return (step * best if helps else 0), scales[best]
