"""What a page shows of an experiment: one file per experiment in `sections/` describes it, and the page knows none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from singularbayes.metrics import Measure
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.literature import Other
from singularbayes_experiments.report.names import measure
from singularbayes_experiments.report.picture import Picture
from singularbayes_experiments.report.rows import Row

PARAMETERS = measure("num_trained")
STORED = measure("num_stored")
TRAINING = measure("train_seconds", 0)


@dataclass(frozen=True)
class Columns:
    """The columns of a table.

    Args:
        title: of the table; sort: the name of the measure that its rows are sorted by at first, best on top; empty
            keeps their order.
        note: what the numbers are.
        others: rows of other papers, below ours.
        headline: whether the page states which of its measures are better than the paper's; not of a table that has in
            other ways what a headline table has.
        median: cells are medians over seeds, which have no standard error and stand beside no number of the paper.
    """

    title: str
    measures: tuple[Measure, ...]
    sort: str = ""
    note: str = ""
    others: tuple[Other, ...] = ()
    headline: bool = True
    median: bool = False


@dataclass(frozen=True)
class Drawing:
    """A figure.

    Args:
        title: what it is called where it has to be left out.
        draw: makes it from the rows that have what it needs.
        arrays: the arrays of a record that it needs; metrics: the metrics that a mean over seeds needs to have.
        methods: those that it shows, none for all; rows: how many it needs at least.
    """

    title: str
    draw: Callable[[Sequence[Row]], Picture]
    arrays: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    rows: int = 1

    def usable(self, rows: Sequence[Row]) -> list[Row]:
        """Returns the rows that have what it needs, or none where they are too few."""
        shown = [row for row in rows if not self.methods or row.method in self.methods]
        found = [row for row in shown if row.has_arrays(self.arrays) and row.has_metrics(self.metrics)]
        return found if len(found) >= self.rows else []


@dataclass(frozen=True)
class Section:
    """The description of an experiment.

    Args:
        experiment: its name in records.
        description: the question and the data, in a few sentences.
        tables: the columns of each table.
        methods: what readers call the methods, in the order of the rows.
        finding: makes a sentence from the rows; None has none.
        notes: what else a reader has to know to judge the numbers.
        ranked: what the figures of a rank ablation show; none for what the first table ranks.
        ranks: which methods those figures compare, and the rank of each; none for what names and settings say.
        rank_note: what else is noted below them.
        in_paper: whether the default settings are the paper's.
        gather: makes the records that rows are made of, where several runs are one row; None takes them as they are.
        spectra: whether its runs leave the singular values of their weights, so that a page notes their absence.
        data: names of settings that choose the data: no row is marked best among rows that differ in one.
        survivors: by preset and method, how many seeds were run where some diverged and left no record.
        alike: whether a run is of data that can be held against the paper's numbers at all; None is all runs.
    """

    experiment: str
    title: str
    description: str
    tables: tuple[Columns, ...]
    methods: Mapping[str, str] = field(default_factory=dict)
    drawings: tuple[Drawing, ...] = ()
    finding: Callable[[Sequence[Row]], str] | None = None
    notes: tuple[str, ...] = ()
    ranked: tuple[Measure, ...] = ()
    ranks: Mapping[str, int] = field(default_factory=dict)
    rank_note: str = ""
    in_paper: bool = True
    gather: Callable[[Sequence[Record]], list[Record]] | None = None
    spectra: bool = True
    data: tuple[str, ...] = ()
    survivors: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    alike: Callable[[Record], bool] | None = None

    def comparable(self, row: Row) -> bool:
        """Returns whether the paper's numbers may stand below those of a row."""
        return self.alike is None or self.alike(row.first)

    def same_data(self, rows: Sequence[Row]) -> bool:
        """Returns whether rows are of the same data, and of data that show something, so that one may be the best."""
        return all(map(self.comparable, rows)) and all(
            len({str(row.first.settings.get(name)) for row in rows}) == 1 for name in self.data
        )
