"""A column of a comparison: its cells, its differences, and how its numbers are written."""

import math
from dataclasses import dataclass

from singularbayes.metrics import Measure

NONE = "–"


@dataclass(frozen=True)
class Cell:
    """One method's values of one measure.

    Attributes:
        error: standard error of the mean over seeds, NaN for fewer than two.
        defined, seeds: how many seeds have a value, and how many there are.
        best: whether it is better than every other method of the column, by paired intervals that exclude 0.
    """

    mean: float
    error: float
    defined: int
    seeds: int
    best: bool = False


@dataclass(frozen=True)
class Difference:
    """Method less reference, paired over the seeds that both have, with its t interval; NaN where pairs are too few.

    Attributes:
        pairs: how many seeds have a value of both.
        seeds: how many either has, the larger; with fewer pairs, the difference need not be that of the means.
    """

    mean: float
    low: float
    high: float
    pairs: int
    seeds: int


@dataclass(frozen=True)
class Column:
    """One measure: one cell per method, and each method's difference from the reference (None for that itself)."""

    measure: Measure
    decimals: int
    cells: tuple[Cell, ...]
    differences: tuple[Difference | None, ...]

    def number(self, value: float) -> str:
        """Returns a value of this measure as text.

        >>> Column(Measure("nll"), 2, (), ()).number(0.1234)
        '0.12'
        """
        if math.isnan(value):
            return NONE
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        # A minus sign, and none before a value that is shown as 0.
        return f"{round(value / self.measure.scale, self.decimals) + 0.0:,.{self.decimals}f}".replace("-", "−")

    def text(self, cell: Cell) -> tuple[str, str]:
        """Returns mean and ± standard error as text; the second is empty for one seed and counts that do not vary."""
        mean = self.number(cell.mean)
        if mean == NONE:
            return mean, ""
        varies = cell.error > 0 if self.measure.whole else not math.isnan(cell.error)
        error = f"± {self.number(cell.error)}" if varies else ""
        share = "" if cell.defined == cell.seeds else f"({cell.defined} of {cell.seeds})"
        return mean, f"{error} {share}".strip()
