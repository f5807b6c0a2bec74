"""Which of our numbers are better than the paper's, which are worse, and which differ by no more than seeds do."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from singularbayes.evaluation import NONE
from singularbayes.metrics import Measure
from singularbayes_experiments.report.published import Number
from singularbayes_experiments.report.rows import Row
from singularbayes_experiments.report.section import Section
from singularbayes_experiments.report.tables import COSTS

TITLE = "Against the paper"
HEADS = ("better", "no clear difference", "worse")
RULE = (
    "A difference is clear if it is larger than two standard errors, ours and the paper's together, plus the rounding "
    "of the printed number."
)
HOW = (
    "The paper's ± is a standard deviation; divided by √4, because it has 4 or 5 seeds, it is taken as its standard "
    "error. A number without ± is taken as that of a single run which varies as ours do. Measures of which we have one "
    "seed, costs, and numbers that cannot be right are not counted."
)
APART = ("quick", "hand", "trial")  # presets that nobody sets against the paper
_SEEDS = 4
_ERRORS = 2


@dataclass(frozen=True)
class Found:
    """The label of a measure, and the title of its table where another measure has the same label."""

    label: str
    table: str = ""


@dataclass(frozen=True)
class Line:
    """A method, and its measures that are better than the paper's, those without a clear difference, those worse."""

    name: str
    better: tuple[Found, ...]
    even: tuple[Found, ...]
    worse: tuple[Found, ...]

    @property
    def sides(self) -> tuple[tuple[Found, ...], ...]:
        """The measures in the order of the heads."""
        return self.better, self.even, self.worse

    @property
    def cells(self) -> tuple[str, ...]:
        """The sides as text.

        >>> Line("low-rank", (Found("MAE"), Found("ECE", "Total"), Found("PICP", "Total")), (), ()).cells
        ('MAE; ECE, PICP (Total)', '–', '–')
        """
        return tuple(_cell(side) for side in self.sides)


def _cell(side: Sequence[Found]) -> str:
    groups = [(table, [each.label for each in of]) for table, of in groupby(side, lambda each: each.table)]
    return "; ".join(", ".join(labels) + (f" ({table})" if table else "") for table, labels in groups) or NONE


def lines(section: Section, rows: Sequence[Row], published: Mapping[tuple[str, str], Number]) -> tuple[Line, ...]:
    """Returns a line a row that has numbers of the paper, over the measures of the section's headline tables."""
    measures = _measures(section)
    made = []
    for row in filter(section.comparable, rows):
        sides: dict[int, list[Found]] = {1: [], 0: [], -1: []}
        for measure, found in measures.items():
            number = published.get((row.method, measure.name))
            side = None if number is None else verdict(measure, row.values(measure.name), number)
            if side is not None:
                sides[side].append(found)
        if any(sides.values()):
            made.append(Line(row.name, tuple(sides[1]), tuple(sides[0]), tuple(sides[-1])))
    return tuple(made)


def counts(made: Sequence[Line]) -> tuple[int, ...]:
    """Returns how many numbers are better, without a clear difference, and worse.

    >>> counts([Line("a", (Found("NLL"), Found("ECE")), (), (Found("MAE"),)), Line("b", (Found("NLL"),), (), ())])
    (3, 0, 1)
    """
    return tuple(sum(map(len, side)) for side in zip(*(line.sides for line in made), strict=True))


def verdict(measure: Measure, values: Sequence[float], number: Number) -> int | None:
    """Returns 1 where the values of our seeds are clearly better than the paper's, −1 where worse, 0 where neither.

    None where that cannot be decided: no end of the measure is the better one, the paper's number cannot be right,
    or there are not two seeds of ours.

    >>> verdict(Measure("nll", "lower"), [0.40, 0.42, 0.44], Number(".490", 0.02, "tab:sst2"))
    1
    >>> verdict(Measure("nll", "lower"), [0.40, 0.42, 0.44], Number(".490", 0.08, "tab:sst2"))
    0
    """
    paper = measure.loss(number.value / measure.scale)
    if paper is None or number.wrong or len(values) < 2:
        return None
    with np.errstate(invalid="ignore"):  # a run that diverged has no deviation, and a clear difference
        spread = float(np.std(values, ddof=1))
    ours = measure.loss(float(np.mean(values)) / measure.scale)
    assert ours is not None
    theirs = spread if number.deviation is None else number.deviation / math.sqrt(_SEEDS)
    error = math.hypot(spread / math.sqrt(len(values)), theirs)
    gain = (paper - ours) * measure.scale
    if abs(gain) <= _ERRORS * error + number.rounding:
        return 0
    return 1 if gain > 0 else -1


def _measures(section: Section) -> dict[Measure, Found]:
    """Returns the measures of the headline tables but costs; one that stands in two tables is that of the first."""
    every: dict[str, tuple[Measure, str]] = {}
    for columns in section.tables:
        for measure in columns.measures if columns.headline else ():
            if measure.name not in COSTS:
                every.setdefault(measure.name, (measure, columns.title))
    labels = [measure.label for measure, _ in every.values()]
    return {
        measure: Found(measure.label, title if labels.count(measure.label) > 1 else "")
        for measure, title in every.values()
    }
