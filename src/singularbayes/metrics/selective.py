"""What is gained by answering only when certain. Risk is the mean loss of what is kept: lower is better.

An example is kept when its uncertainty is at most the threshold. `losses` are one number per example: 0 or 1 for right
or wrong, or an absolute error. Examples of equal uncertainty are kept or dropped together.
"""

from dataclasses import dataclass

import numpy as np

from singularbayes.checks import one_per_example, weights_of


@dataclass(frozen=True)
class OperatingPoint:
    """Keep what has uncertainty <= `threshold`: `coverage` is the share kept, `risk` the mean loss on it.

    >>> OperatingPoint(threshold=0.3, coverage=0.75, risk=0.1)
    OperatingPoint(keep uncertainty <= 0.3: 75.0 % kept, risk 0.1)
    """

    threshold: float
    coverage: float
    risk: float

    def __repr__(self) -> str:
        return (
            f"OperatingPoint(keep uncertainty <= {self.threshold:.6g}: {100 * self.coverage:.1f} % kept, "
            f"risk {self.risk:.4g})"
        )


@dataclass(frozen=True, repr=False)
class SelectiveCurve:
    """Risk against coverage, the most certain examples first.

    Attributes:
        thresholds: the uncertainties that occur, in ascending order.
        kept: how many examples each of them keeps.
        risk: the mean loss of the kept ones.

    >>> curve = selective_curve(np.array([0.1, 0.2, 0.9]), np.array([0, 0, 1]))
    >>> curve.thresholds, curve.risk
    (array([0.1, 0.2, 0.9]), array([0.        , 0.        , 0.33333333]))
    >>> curve.for_coverage(0.6)
    OperatingPoint(keep uncertainty <= 0.2: 66.7 % kept, risk 0)
    """

    thresholds: np.ndarray
    kept: np.ndarray
    risk: np.ndarray

    @property
    def coverage(self) -> np.ndarray:
        return self.kept / self.kept[-1]

    @property
    def area(self) -> float:
        """The area under the risk-coverage curve: the mean risk over keeping 1, 2, …, all examples.

        An uninformative uncertainty gets the risk at full coverage.
        """
        return float(self._risk_of(np.arange(1, round(self.kept[-1]) + 1)).mean())

    def at(self, retention) -> np.ndarray:
        """Returns the risk of keeping these shares of the examples, each rounded to whole examples, at least one.

        Of examples that are equally uncertain and not all kept, the mean over which of them are.
        """
        share = np.asarray(retention, "float64")
        if not share.size or not ((share > 0) & (share <= 1)).all():
            raise ValueError(f"at needs 0 < retention <= 1; got retention={retention!r}.")
        return self._risk_of(np.maximum(1, np.round(share * self.kept[-1])))

    def for_coverage(self, coverage: float) -> OperatingPoint:
        """Returns the lowest threshold that keeps at least this share."""
        if not 0 < coverage <= 1:
            raise ValueError(f"for_coverage needs 0 < coverage <= 1; got coverage={coverage!r}.")
        return self._point(int(np.argmax(self.coverage >= coverage)))

    def for_error(self, error: float) -> OperatingPoint:
        """Returns the threshold that keeps most with a risk of at most `error` on these examples.

        It is the luckiest of many thresholds, so new examples fare somewhat worse; the fewer are kept, the more so.
        """
        enough = np.flatnonzero(self.risk <= error)
        if not enough.size:
            best = self._point(int(self.risk.argmin()))
            raise ValueError(f"No threshold has a risk of at most {error!r}; the least risky is {best!r}.")
        return self._point(int(enough[-1]))

    def _risk_of(self, kept: np.ndarray) -> np.ndarray:
        total = np.interp(kept, np.concatenate([[0], self.kept]), np.concatenate([[0.0], self.kept * self.risk]))
        return total / kept

    def _point(self, i: int) -> OperatingPoint:
        return OperatingPoint(float(self.thresholds[i]), float(self.coverage[i]), float(self.risk[i]))

    def __repr__(self) -> str:
        return (
            f"SelectiveCurve({round(self.kept[-1])} examples: risk {self.risk[-1]:.4g} with all kept, "
            f"{self.at(0.8):.4g} with 80 %; area {self.area:.4g})"
        )


def selective_curve(
    uncertainty: np.ndarray, losses: np.ndarray, sample_weight: np.ndarray | None = None
) -> SelectiveCurve:
    """Returns the risk of keeping only the most certain examples, at every threshold.

    Args:
        sample_weight: how many examples each counts for, up to one factor for all.

    >>> curve = selective_curve(np.array([0.1, 0.2, 0.3, 0.9]), np.array([0, 0, 1, 1]))
    >>> curve.at([1.0, 0.5]), curve.area
    (array([0.5, 0. ]), 0.208333)
    >>> curve.for_error(0.4)
    OperatingPoint(keep uncertainty <= 0.3: 75.0 % kept, risk 0.3333)
    """
    u, loss = one_per_example("selective_curve", uncertainty=uncertainty, losses=losses)
    weights = weights_of("selective_curve", sample_weight, len(u))
    if weights is not None:
        u, loss, weights = (array[weights > 0] for array in (u, loss, weights))
        weights = weights / weights.mean()
    thresholds, group, size = np.unique(u, return_inverse=True, return_counts=True)
    kept = (size if weights is None else np.bincount(group, weights)).cumsum()
    total = np.bincount(group, loss if weights is None else weights * loss).cumsum()
    return SelectiveCurve(thresholds, kept, total / kept)
