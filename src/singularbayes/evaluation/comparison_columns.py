"""A column of a comparison: its cells, its differences, and how its numbers are written."""

import math
from dataclasses import dataclass

from singularbayes.metrics import Measure

NONE = "–"


@dataclass(frozen=True)
class Cell:
    """One method's values of one measure.

    Attributes:
        std: sample standard deviation over seeds, NaN for fewer than two.
        defined, seeds: how many seeds have a value, and how many there are.
        place: 1 for the best and 2 for the second of the column, else None. Means that are shown alike share a place.
    """

    mean: float
    std: float
    defined: int
    seeds: int
    place: int | None = None


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
        """Returns mean and ± deviation as text; the second is empty for one seed and for counts that do not vary."""
        mean = self.number(cell.mean)
        if mean == NONE:
            return mean, ""
        varies = cell.std > 0 if self.measure.whole else not math.isnan(cell.std)
        deviation = f"± {self.number(cell.std)}" if varies else ""
        share = "" if cell.defined == cell.seeds else f"({cell.defined} of {cell.seeds})"
        return mean, f"{deviation} {share}".strip()
