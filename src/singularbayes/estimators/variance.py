"""The variance of a row, corrected by the errors on held-out rows."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from singularbayes.estimators.defaults import DEFAULTS

_LIMIT = 1e3  # between the factors of rows, on either side of their mean
_FLOOR = 0.05  # the quantile of predicted variances that they are raised to
_FREEDOMS = (3.0, 4.0, 6.0, 10.0, 20.0, 50.0, math.inf)
_STEPS = 30  # of EM
_POWERS = (1.0, 0.75, 0.5, 0.25, 0.0)
_ONE_THREAD = 10_000  # rows; with fewer, the threads of a tree wait longer for each other than they compute


class VarianceModel:
    """A factor of the predicted variance v of every row and output, and how heavy the tails of errors are.

    The corrected variance is c · v^b · t(row), with v at least what a twentieth of the rows are below. Errors over
    their standard deviation are Student-t with ν degrees of freedom, normal where ν is infinite. The power b in [0, 1],
    c and ν make held-out errors most likely: b = 1 keeps the predicted variances, 0 is one variance for all rows. With
    heavy tails a few rows that are far off cost little, so they do not decide about all others. The trees t regress √z,
    z = error²/v^b, on features of the row with the Poisson loss, whose steps stay bounded. There are as many trees as
    make errors of rows that they have not seen most likely, none unless they help by more than a standard error. Means
    stay as they are.
    """

    def __init__(self, features, squares, variances, weight, per_row: bool = True):
        """Args: features (rows, …); squared errors and variances (rows, outputs); weight (rows,); per_row: whether to
        find more than c, which then makes squared errors as large as variances on average."""
        columns = zip(squares.T, variances.T, strict=True)
        with threadpool_limits(1 if len(weight) < _ONE_THREAD else None, "openmp"):
            self._outputs = [_Output(features, square, variance, weight, per_row) for square, variance in columns]
        # Of these rows themselves, from trees that did not see them.
        self.own = np.stack([output.own for output in self._outputs], axis=1)
        self.freedom = np.array([output.tail.freedom for output in self._outputs])

    @property
    def per_row(self) -> bool:
        """Whether some output has a factor that depends on the row."""
        return any(output.power < 1 or output.trees is not None for output in self._outputs)

    def __call__(self, features: np.ndarray, variances: np.ndarray) -> np.ndarray:
        """Returns the factors, (rows, outputs)."""
        columns = zip(self._outputs, variances.T, strict=True)
        return np.stack([output(features, variance) for output, variance in columns], axis=1)


@dataclass(frozen=True)
class Tail:
    """A Student-t distribution with mean 0, as squared errors z have it: its scale squared, and its freedom ν."""

    square: float
    freedom: float

    @classmethod
    def of(cls, z: np.ndarray, weight: np.ndarray, freedoms: tuple[float, ...] = _FREEDOMS) -> "Tail":
        """Returns the most likely one."""
        fits = [cls(_limited(_square(z, weight, freedom)), freedom) for freedom in freedoms]
        return min(fits, key=lambda fit: np.average(fit.nll(z), weights=weight))

    @property
    def variance(self) -> float:
        """The variance: ν/(ν − 2) of the squared scale."""
        return self.square * variance_over_square(self.freedom)

    def nll(self, z: np.ndarray) -> np.ndarray:
        """Returns −log p of errors whose squares are z."""
        return -log_density(np.sqrt(z), self.variance, self.freedom)


def variance_over_square(freedom):
    """Returns the variance of Student-t over its squared scale, ν/(ν − 2); 1 of the normal distribution, ν = ∞."""
    return 1 / (1 - 2 / np.asarray(freedom))


def log_density(error, variance, freedom) -> np.ndarray:
    """Returns log p(error) of Student-t with mean 0, a given variance and ν > 2 degrees of freedom."""
    freedom = np.broadcast_to(freedom, np.broadcast(error, variance).shape)
    scale = np.sqrt(variance / variance_over_square(freedom))
    return np.where(np.isinf(freedom), stats.norm.logpdf(error, 0, scale), stats.t.logpdf(error, freedom, 0, scale))


def _square(z: np.ndarray, weight: np.ndarray, freedom: float) -> float:
    """Returns the most likely squared scale: a mean of z that weighs rows far out less (EM)."""
    square = np.average(z, weights=weight)
    if math.isinf(freedom) or square == 0:
        return float(square)
    for _ in range(_STEPS):
        square = np.average(z * (freedom + 1) / (freedom + z / square), weights=weight)
    return float(square)


def _limited(scale: float) -> float:
    # A few rows that are predicted exactly do not make predictions certain.
    return float(np.clip(scale, 0.01, 100.0))


class _Output:
    """The factors of one output: c · (v/centre)^(b − 1) · t, of a v that is raised to `floor`."""

    def __init__(self, features, squares, given, weight, per_row: bool):
        per_row = per_row and len(squares) >= DEFAULTS.variance_from
        # A network that is certain of a row, say because it saw the same features before, may be wrong all the same.
        self.floor = float(np.quantile(given, _FLOOR)) if per_row else 0.0
        variances = np.maximum(given, self.floor)
        self.centre = float(np.exp(np.average(np.log(variances), weights=weight)))
        self.trees: HistGradientBoostingRegressor | None = None
        freedoms = _FREEDOMS if per_row else _FREEDOMS[-1:]
        found = []
        for self.power in _POWERS if per_row else _POWERS[:1]:
            powered = variances * self._powered(variances)
            tail = Tail.of(squares / powered, weight, freedoms)
            nll = tail.nll(squares / powered) + np.log(powered) / 2
            found.append((float(np.average(nll, weights=weight)), self.power, tail))
        _, self.power, self.tail = min(found, key=lambda each: each[0])
        powered = variances * self._powered(variances)
        z = squares / powered
        self.own = self.tail.variance * powered / given
        if not per_row or z.max() == 0:
            return
        number, own, tail = _best_number(features, z, weight)
        if number:
            self.tail = tail
            self.own = tail.variance * own * powered / given
            self.trees = _boosting(number, len(z))
            self.trees.fit(features, np.sqrt(z), sample_weight=_unless_equal(weight))

    def _powered(self, variances):
        return (variances / self.centre) ** (self.power - 1)

    def __call__(self, features, given):
        variances = np.maximum(given, self.floor)
        factor = self.tail.variance * self._powered(variances) * variances / given
        if self.trees is None:
            return factor
        return factor * np.clip(self.trees.predict(features) ** 2, 1 / _LIMIT, _LIMIT)


def _unless_equal(weight: np.ndarray) -> np.ndarray | None:
    # With weights scikit-learn finds every edge of a bin by a sort of its own, which takes longer than the trees.
    return None if np.ptp(weight) == 0 else weight


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


def _best_number(features, z, weight) -> tuple[int, np.ndarray, Tail]:
    """Returns how many trees make held-out rows most likely, 0 where that is no better than one scale for all; and what
    they predict for rows that they did not see, with the tail that goes with it."""
    step = DEFAULTS.variance_trees // 10
    scales = np.ones((11, len(z)))
    for train, test in KFold(5, shuffle=True, random_state=0).split(z):
        model = _boosting(DEFAULTS.variance_trees, len(z))
        model.fit(features[train], np.sqrt(z[train]), sample_weight=_unless_equal(weight[train]))
        scales[1:, test] = np.square(list(model.staged_predict(features[test]))[step - 1 :: step])
    scales = np.clip(scales, 1 / _LIMIT, _LIMIT)
    tails = [Tail.of(z / scale, weight) for scale in scales]
    nll = np.stack([tail.nll(z / scale) + np.log(scale) / 2 for tail, scale in zip(tails, scales, strict=True)])
    nll *= weight / weight.mean()
    best = int(nll.mean(axis=1).argmin())
    gain = nll[0] - nll[best]
    helps = gain.mean() > gain.std(ddof=1) / math.sqrt(len(gain))
    return (step * best if helps else 0), scales[best], tails[best]
