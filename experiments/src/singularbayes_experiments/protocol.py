"""The rules by which settings are tuned and results are reported; `docs/protocol.md` is the same in words.

Scores here are of validation data alone. A lower NLL and a higher OOD score are better.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

LEAST_TUNING_SEEDS = 2


@dataclass(frozen=True)
class Tried:
    """One configuration and its scores, one per tuning seed and in the same order as those of the others.

    Args:
        without_inputs: the NLL of a prediction that ignores the inputs (class frequencies, or one Gaussian).
    """

    name: str
    nll: tuple[float, ...]
    ood: tuple[float, ...] = ()
    without_inputs: float = math.inf

    @property
    def diverged(self) -> bool:
        """Whether a seed ended in numbers that are not finite, or worse than a prediction without inputs."""
        return not all(math.isfinite(nll) and nll <= self.without_inputs for nll in self.nll)

    @property
    def mean(self) -> float:
        return statistics.fmean(self.nll)  # NumPy takes several times as long for two numbers


def choose(tried: Sequence[Tried]) -> str:
    """Returns the configuration that has the best proxy OOD score within one standard error of the least mean NLL.

    The standard error is that of a paired difference to the best: its variance over seeds, pooled over the better half
    of the configurations, because two seeds alone say little about one of them. Where OOD scores are equal, or there
    are none, the lower NLL wins.

    >>> tried = [Tried("a", (0.30, 0.32), (0.6, 0.6)), Tried("b", (0.31, 0.32), (0.9, 0.9)), Tried("c", (0.5, 0.5))]
    >>> choose(tried)
    'b'
    """
    seeds = {len(one.nll) for one in tried}
    if len(seeds) != 1 or min(seeds) < LEAST_TUNING_SEEDS:
        got = {one.name: len(one.nll) for one in tried}
        raise ValueError(f"Tuning needs {LEAST_TUNING_SEEDS} or more seeds, the same for all; got {got}.")
    sound = sorted((one for one in tried if not one.diverged), key=lambda one: one.mean)
    if not sound:
        raise ValueError(f"Tuning needs a configuration that did not diverge; got {[one.name for one in tried]}.")
    best, error = sound[0], _standard_error(sound)
    ties = [one for one in sound if one.mean <= best.mean + error]
    return max(ties, key=lambda one: (float(np.mean(one.ood)) if one.ood else -math.inf, -one.mean)).name


def _standard_error(by_mean: Sequence[Tried]) -> float:
    half = by_mean[: max(2, math.ceil(len(by_mean) / 2))]
    differences = [np.subtract(one.nll, half[0].nll) for one in half[1:]]
    variances = [difference.var(ddof=1) for difference in differences]
    return math.sqrt(float(np.mean(variances)) / len(half[0].nll)) if variances else 0.0


def perturbed(x: np.ndarray, seed: int = 0) -> np.ndarray:
    """Returns training inputs that no longer are in distribution: the proxy for OOD inputs.

    Half of the rows get every feature from another row (the marginals stay, what belongs together does not); the other
    half move three times as far from the mean of all rows. A proxy OOD score is the `auroc_ood` by which uncertainty
    (predictive entropy, or the total standard deviation) tells them from validation inputs.
    """
    rng = np.random.default_rng(seed)
    flat = np.asarray(x, "float64").reshape(len(x), -1)
    mixed = rng.permuted(flat, axis=0)[: len(x) // 2]
    far = flat.mean(axis=0) + 3.0 * (flat[len(x) // 2 :] - flat.mean(axis=0))
    return np.concatenate([mixed, far]).reshape(x.shape).astype("float32")


def standard_error(values: Sequence[float] | np.ndarray) -> float:
    """Returns the standard error of a mean over seeds or splits, NaN for fewer than two.

    >>> standard_error([1.0, 3.0]), standard_error([1.0])
    (1.0, nan)
    """
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class Paired:
    """The mean of paired differences over seeds and its 95 % t interval."""

    mean: float
    low: float
    high: float

    def side(self, higher_is_better: bool = False) -> Literal["better", "worse", "level"]:
        """Returns better or worse where the interval excludes 0, else level.

        >>> above = Paired(0.2, 0.1, 0.3)
        >>> above.side(), above.side(higher_is_better=True), Paired(0.1, -0.1, 0.3).side()
        ('worse', 'better', 'level')
        """
        if self.high < 0:
            return "worse" if higher_is_better else "better"
        if self.low > 0:
            return "better" if higher_is_better else "worse"
        return "level"


def paired(ours: Sequence[float], theirs: Sequence[float]) -> Paired:
    """Returns how `ours` differ from `theirs`, seed by seed.

    >>> found = paired([1.0, 2.0, 3.0], [1.5, 2.0, 2.5])
    >>> found.mean, round(found.low, 6), round(found.high, 6)
    (0.0, -1.242069, 1.242069)
    """
    difference = np.subtract(ours, theirs)
    mean = float(difference.mean())
    half = float(stats.t.ppf(0.975, len(difference) - 1) * difference.std(ddof=1) / math.sqrt(len(difference)))
    return Paired(mean, mean - half, mean + half)
