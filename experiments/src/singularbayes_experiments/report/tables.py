"""The table of a group of runs beside the paper's: means, standard errors, seeds, the paper's numbers, differences.

A table is text already; the page, Markdown and LaTeX only lay it out.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from singularbayes.evaluation import NONE, Column, Evaluation, compare
from singularbayes.evaluation import Cell as Summary
from singularbayes.metrics import Measure
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.literature import Other
from singularbayes_experiments.report.published import Number
from singularbayes_experiments.report.rows import Row, listed
from singularbayes_experiments.report.section import Columns

_MARKS = "†‡§¶‖"
COSTS = ("num_trained", "num_stored", "seconds", "train_seconds", "peak_bytes")  # of an evaluation, not its metrics
_OF_A_MACHINE = ("seconds", "train_seconds", "peak_bytes")  # a difference between two machines means nothing


@dataclass(frozen=True)
class Cell:
    """One number of ours, and the paper's where it has one.

    Args:
        ours: the mean over seeds; error: its standard error with ±, and how many seeds have a value if not all.
        value: what the cell is sorted by, NaN for none.
        best: whether it is better than all others, by paired intervals.
        paper: the paper's number; spread: its standard deviation with ±; difference: ours less the paper's number.
        mark: of the footnote on the paper's number.
    """

    ours: str
    error: str = ""
    value: float = math.nan
    best: bool = False
    paper: str = ""
    spread: str = ""
    difference: str = ""
    mark: str = ""

    @property
    def printed(self) -> str:
        """The paper's number with its spread and mark."""
        return f"{self.paper} {self.spread}".strip() + self.mark


@dataclass(frozen=True)
class TableRow:
    """A method with its number of seeds."""

    name: str
    seeds: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Table:
    """Rows in the order they are shown at first.

    Args:
        sort: the place of the column that they are sorted by, None for none.
        note: what the numbers are; reading: what ±, bold and second lines mean; footnotes: by their marks.
    """

    title: str
    measures: tuple[Measure, ...]
    rows: tuple[TableRow, ...]
    sort: int | None
    note: str
    reading: str
    footnotes: Mapping[str, str]

    @property
    def heads(self) -> tuple[str, ...]:
        """Label and direction of every column of numbers; no direction where the best is not marked, but of costs."""
        arrows = [each.arrow if each.ranked or each.name in COSTS else "" for each in self.measures]
        return tuple(f"{each.label} {arrow}".strip() for each, arrow in zip(self.measures, arrows, strict=True))

    @property
    def caption(self) -> str:
        """What the numbers are and how to read them."""
        return f"{self.note} {self.reading}".strip()


def make(
    rows: Sequence[Row],
    columns: Columns,
    published: Mapping[tuple[str, str], Number],
    comparable: Callable[[Row], bool] = lambda row: True,
    ranked: bool = True,
    survivors: Mapping[str, int] = MappingProxyType({}),
) -> Table | None:
    """Returns the table of these rows, or None where no record has any of the columns.

    Args:
        published: the paper's numbers by method and measure, which stand below those of comparable rows.
        ranked: whether the best of a column is marked.
        survivors: by method, how many seeds were run where some diverged and left no record.
    """
    beside = [row.method if comparable(row) and not columns.median else None for row in rows]
    made = [_column(column, beside, published) for column in _compared(rows, columns)]
    elsewhere = {name for other in columns.others for name in other.numbers}
    shown = [
        (measure, cells, wrong)
        for measure, cells, wrong in made
        if any(cell.ours != NONE for cell in cells) or measure.name in elsewhere
    ]
    if not shown:
        return None
    if all(cell.ours == NONE for _, cells, _ in shown for cell in cells):  # others alone have numbers
        rows, shown = (), [(measure, [], []) for measure, _, _ in shown]
    measures = tuple(measure for measure, _, _ in shown)
    footnotes = _footnotes([reason for _, _, wrong in shown for reason in wrong])
    names = [measure.name for measure in measures]
    sort = names.index(columns.sort) if columns.sort in names else None
    table_rows = [
        TableRow(
            _name(row, survivors),
            len(row.records),
            tuple(_marked(_placed(cells[i], ranked), wrong[i], footnotes) for _, cells, wrong in shown),
        )
        for i, row in enumerate(rows)
    ]
    reading = _reading(rows, published, table_rows, measures, columns.median, ranked, bool(columns.others))
    ordered = table_rows if sort is None else sorted(table_rows, key=lambda row: _loss(measures[sort], row.cells[sort]))
    marks = {mark: reason for reason, mark in footnotes.items()}
    ordered = [*ordered, *(_published(other, measures) for other in columns.others)]
    return Table(columns.title, measures, tuple(ordered), sort, columns.note, reading, marks)


def _name(row: Row, survivors: Mapping[str, int]) -> str:
    run = survivors.get(row.method, 0)
    return f"{row.name} ({len(row.records)} of {run} seeds, the others diverged)" if run else row.name


def _placed(cell: Cell, ranked: bool) -> Cell:
    return cell if ranked else replace(cell, best=False)


def _published(other: Other, measures: Sequence[Measure]) -> TableRow:
    """Returns a row of another paper, as it is printed there."""
    cells = []
    for measure in measures:
        mean, _, spread = other.numbers.get(measure.name, "").partition("±")
        value = float(mean) if mean else math.nan
        cells.append(Cell(mean.replace("-", "−") or NONE, f"± {spread}" if spread else "", value))
    return TableRow(other.name, other.splits, tuple(cells))


def _loss(measure: Measure, cell: Cell) -> float:
    loss = measure.loss(cell.value)
    return math.inf if math.isnan(cell.value) else cell.value if loss is None else loss


def _compared(rows: Sequence[Row], columns: Columns) -> tuple[Column, ...]:
    # Rows go by their places: two may have the same name.
    runs = [(row.medians(),) if columns.median else row.records for row in rows]
    every = [_evaluation(str(i), record, columns.measures) for i, records in enumerate(runs) for record in records]
    return compare(every, columns.measures).columns


def _evaluation(name: str, record: Record, measures: Sequence[Measure]) -> Evaluation:
    metrics = {m.name: _number(record.metrics.get(m.name)) for m in measures if m.name not in COSTS}
    return Evaluation(
        name,
        "experiment",
        record.seed,
        metrics,
        num_trained=record.parameters,
        num_stored=record.stored,
        train_seconds=record.seconds,
        peak_bytes=record.peak_memory,
    )


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else math.nan


def _column(
    column: Column, beside: Sequence[str | None], published: Mapping[tuple[str, str], Number]
) -> tuple[Measure, list[Cell], list[str]]:
    """Returns the measure, its cells, and what is wrong with the paper's number in each.

    Args:
        beside: the method of each row, None where no number of the paper stands below.
    """
    numbers = [None if method is None else published.get((method, column.measure.name)) for method in beside]
    cells = [_cell(column, summary, number) for summary, number in zip(column.cells, numbers, strict=True)]
    wrong = [number.wrong if number and cell.paper else "" for number, cell in zip(numbers, cells, strict=True)]
    return column.measure, cells, wrong


def _cell(column: Column, summary: Summary, number: Number | None) -> Cell:
    ours, error = column.number(summary.mean), _error(column, summary)
    if number is None or ours == NONE:
        return Cell(ours, error, summary.mean, summary.best)
    paper = number.printed if column.measure.whole else column.number(number.value)
    spread = ""
    if number.deviation is not None and not column.measure.whole:
        spread = f"± {column.number(number.deviation)}"
    alike = not number.wrong and column.measure.name not in _OF_A_MACHINE
    difference = _difference(column, summary.mean, number) if alike else ""
    return Cell(ours, error, summary.mean, summary.best, paper, spread, difference)


def _error(column: Column, summary: Summary) -> str:
    varies = summary.error > 0 if column.measure.whole else not math.isnan(summary.error)
    parts = f"± {column.number(summary.error)}" if varies else ""
    share = f"({summary.defined} of {summary.seeds})" if 0 < summary.defined < summary.seeds else ""
    return f"{parts} {share}".strip()


def _difference(column: Column, mean: float, number: Number) -> str:
    """Returns ours less the paper's with its sign; a count that rounds to the printed one does not differ."""
    gap = mean - number.value
    if column.measure.whole and abs(gap) <= number.rounding:
        return "0"
    text = column.number(gap)
    return f"+{text}" if gap > 0 and text.strip("0.,") else text


def _footnotes(reasons: Sequence[str]) -> dict[str, str]:
    """Returns the mark of every reason why a number cannot be right."""
    different = list(dict.fromkeys(reason for reason in reasons if reason))
    return {reason: _MARKS[i % len(_MARKS)] * (1 + i // len(_MARKS)) for i, reason in enumerate(different)}


def _marked(cell: Cell, wrong: str, footnotes: Mapping[str, str]) -> Cell:
    return replace(cell, mark=footnotes[wrong]) if wrong else cell


def _reading(
    rows: Sequence[Row],
    published: Mapping[tuple[str, str], Number],
    made: Sequence[TableRow],
    measures: Sequence[Measure],
    median: bool,
    ranked: bool,
    others: bool,
) -> str:
    """Returns how to read the numbers: what ± is, and which tables the paper's numbers are from."""
    shown = {
        (row.method, measure.name): cell
        for row, line in zip(rows, made, strict=True)
        for measure, cell in zip(measures, line.cells, strict=True)
        if cell.paper
    }
    parts = []
    if not median and any(len(row.records) > 1 for row in rows):
        parts.append("± is the standard error over seeds.")
    if any(cell.spread for cell in shown.values()):
        parts.append("The paper's ± is the standard deviation over its seeds.")
    if len(rows) > 1:
        parts.append(
            f"Bold: better than all other {'methods run here' if others else 'rows'}, by paired 95 % intervals over "
            "seeds."
            if ranked and any(len(row.records) > 1 for row in rows)
            else "One seed each, so none is marked best."
            if ranked
            else "None is marked best: the rows are of different data, or of too few examples."
        )
    numbers = [number for key, number in published.items() if key in shown]
    if numbers:
        tables = listed(list(dict.fromkeys(number.table for number in numbers)))
        less = " and, in brackets, ours minus the paper's" if any(cell.difference for cell in shown.values()) else ""
        parts.append(f"Second line of a cell: the paper's value ({tables}){less}.")
    if any(measure in _OF_A_MACHINE for _, measure in shown):
        parts.append(
            "Times cannot be compared: the paper's are of another machine, and several of our runs may have shared one."
        )
    return " ".join(parts)
