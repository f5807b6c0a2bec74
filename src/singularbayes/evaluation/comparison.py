"""Evaluations of several methods and seeds side by side: means, standard errors, who is best, paired differences."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from singularbayes.checks import require_package, require_share
from singularbayes.evaluation.evaluate import Evaluation
from singularbayes.metrics.catalogue import DEFAULT_OOD_SCORES, DEFAULT_SCORES, Measure, find_measure
from singularbayes.text_table import text_table

Runs = dict[str, dict[int, Evaluation]]  # by method and seed


@dataclass(frozen=True)
class Difference:
    """Method less reference, paired over the seeds that both have, with its t interval; NaN where pairs are too few."""

    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    pairs: int = 0


@dataclass(frozen=True)
class Cell:
    """One method's values of one measure.

    Attributes:
        error: standard error of the mean over seeds, NaN for fewer than two.
        defined, seeds: how many seeds have a value, and how many there are.
        best: whether it is better than every other method of the column, by paired intervals that exclude 0.
        difference: from the reference; None for that itself.
    """

    mean: float
    error: float
    defined: int
    seeds: int
    best: bool = False
    difference: Difference | None = None


@dataclass(frozen=True)
class Column:
    """One measure, with one cell per method."""

    measure: Measure
    decimals: int
    cells: tuple[Cell, ...]

    def number(self, value: float) -> str:
        """Returns a value of this measure as text.

        >>> Column(Measure("nll"), 2, ()).number(0.1234)
        '0.12'
        """
        if math.isnan(value):
            return "–"
        if math.isinf(value):
            return "∞" if value > 0 else "−∞"
        # A minus sign, and none before a value that is shown as 0.
        return f"{round(value / self.measure.scale, self.decimals) + 0.0:,.{self.decimals}f}".replace("-", "−")

    def text(self, cell: Cell) -> str:
        """Returns mean and ± standard error as text, with * for the best; one seed and a count have no error."""
        varies = cell.error > 0 if self.measure.whole else not math.isnan(cell.error)
        error = f"± {self.number(cell.error)}" if varies else ""
        share = f"({cell.defined} of {cell.seeds})" if 0 < cell.defined < cell.seeds else ""
        return " ".join(filter(None, [self.number(cell.mean), error, share])) + ("*" if cell.best else "")


@dataclass(frozen=True)
class Comparison:
    """A table: one row per method, one column per measure.

    >>> from singularbayes.evaluation import Evaluation, compare
    >>> runs = [Evaluation(name, "classification", 0, {"nll": nll}) for name, nll in (("a", 0.3), ("b", 0.4))]
    >>> table = compare(runs, ["nll"])
    >>> table.methods, table.values()
    (('a', 'b'), {'a': [0.3], 'b': [0.4]})
    """

    task: str
    methods: tuple[str, ...]
    columns: tuple[Column, ...]
    reference: str
    level: float
    caption: str

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Those of the columns."""
        return tuple(column.measure for column in self.columns)

    def values(self) -> dict[str, list[float]]:
        """Returns every method's means in the order of `measures`, as the table shows them but with all digits."""
        return {
            name: [column.cells[i].mean / column.measure.scale for column in self.columns]
            for i, name in enumerate(self.methods)
        }

    def to_frame(self):
        """Returns a pandas DataFrame: a row for each method and metric, with mean, error and the paired difference.

        pandas then has every format: `frame["mean"].unstack().to_latex()`, `to_markdown()`, `to_html()`.

        >>> runs = [Evaluation(name, "classification", 0, {"nll": nll}) for name, nll in (("a", 0.3), ("b", 0.4))]
        >>> frame = compare(runs, ["nll"]).to_frame()
        >>> frame.loc[("b", "nll"), ["mean", "difference"]].round(2).tolist()
        [0.4, 0.1]
        """
        pandas = require_package("pandas", "plots", "A comparison as a frame")
        rows = {}
        for i, method in enumerate(self.methods):
            for column in self.columns:
                cell = column.cells[i]
                gap = cell.difference or Difference()
                own = {"mean": cell.mean, "error": cell.error, "seeds": cell.defined, "best": cell.best}
                paired = {"difference": gap.mean, "low": gap.low, "high": gap.high, "pairs": gap.pairs}
                rows[method, column.measure.name] = own | paired
        return pandas.DataFrame.from_dict(rows, orient="index").rename_axis(["method", "metric"])

    def __repr__(self) -> str:
        head = ["", *(f"{c.measure.label} {c.measure.arrow}".strip() for c in self.columns)]
        rows = [[name, *(c.text(c.cells[i]) for c in self.columns)] for i, name in enumerate(self.methods)]
        best = f"better than all others, where paired {100 * self.level:g} % intervals exclude 0"
        return f"{text_table(head, rows, '<' * len(head))}\n* {best}. {self.caption}"


def compare(
    evaluations: Iterable[Evaluation] | Evaluation,
    metrics: Sequence[str | Measure] | None = None,
    *,
    reference: str | None = None,
    level: float = 0.95,
    caption: str | None = None,
) -> Comparison:
    """Returns the table of several evaluations: one row per method, mean ± standard error over its seeds.

    A method is marked as the best of a column only where the interval of its paired difference to every other method
    excludes 0; often no method is marked. Counts, such as parameters, are compared as they are.

    Time is shown but not ranked: it holds compilation and the rest of the process.

    Differences are method less reference, paired over the seeds that both have: what seeds share, such as the split of
    the data, cancels. Their interval is mean ∓ t · sd/√pairs. With one pair there is no interval, with none no
    difference. Nothing corrects for many comparisons.

    Args:
        metrics: names of metrics and of `num_trained`, `num_stored`, `seconds`, `train_seconds`, in the
            order of the columns, or a `Measure` for a metric of your own; None takes the usual ones of the task.
        reference: the method that differences are taken from; None takes the first.
        level: of the intervals of differences.

    >>> runs = [
    ...     Evaluation(m, "regression", s, {"rmse": v + s / 10}) for m, v in (("a", 1.0), ("b", 1.5)) for s in (0, 1)
    ... ]
    >>> print(compare(runs, ["rmse"], caption="Two seeds."))
       RMSE ↓
    ───────────────
    a  1.05 ± 0.05*
    b  1.55 ± 0.05
    * better than all others, where paired 95 % intervals exclude 0. Two seeds.
    """
    runs = _by_method([evaluations] if isinstance(evaluations, Evaluation) else list(evaluations))
    every = [run for seeds in runs.values() for run in seeds.values()]
    require_share("compare", level=level)
    reference = next(iter(runs)) if reference is None else reference
    if reference not in runs:
        raise ValueError(f"compare needs reference to be one of {list(runs)}; got reference={reference!r}.")
    measures = [
        find_measure(m) if isinstance(m, str) else m for m in (_usual(every[0]) if metrics is None else metrics)
    ]
    if not measures or len({measure.name for measure in measures}) < len(measures):
        raise ValueError(f"compare needs one or more different metrics; got {[m.name for m in measures]}.")
    return Comparison(
        task=every[0].task,
        methods=tuple(runs),
        columns=tuple(_column(measure, runs, reference, level) for measure in measures),
        reference=reference,
        level=level,
        caption=_caption(every, runs) if caption is None else caption,
    )


def _by_method(evaluations: list[Evaluation]) -> Runs:
    if not evaluations:
        raise ValueError("compare needs one or more evaluations; got none.")
    first, runs = evaluations[0], Runs()
    for run in evaluations:
        if not isinstance(run, Evaluation):
            raise TypeError(f"compare needs evaluations, as evaluate returns them; got {type(run).__name__}.")
        if run.task != first.task:
            raise ValueError(
                f"compare needs evaluations of one task; got {first.task} ({first.method!r}) and {run.task} "
                f"({run.method!r})."
            )
        if run.metrics.keys() != first.metrics.keys():
            differing = sorted(run.metrics.keys() ^ first.metrics.keys())
            raise ValueError(
                f"compare needs the same metrics in every evaluation; {first.method!r} and {run.method!r} differ in "
                f"{differing[:5]}. Evaluate them with the same sets in ood."
            )
        seeds = runs.setdefault(run.method, {})
        if run.seed in seeds:
            raise ValueError(
                f"compare needs one evaluation per method and seed; got two of {run.method!r}, {run.seed}."
            )
        seeds[run.seed] = run
    return runs


def _usual(run: Evaluation) -> list[str]:
    """Returns the columns of a task: the usual ones, and how well each out-of-distribution set is detected."""
    places = dict.fromkeys(name.rpartition("/")[0] for name in run.metrics if "auroc_ood" in name)
    detection = [f"{place}/{name}".lstrip("/") for place in places for name in DEFAULT_OOD_SCORES[run.task]]
    return [
        name
        for name in (*DEFAULT_SCORES[run.task], *detection)
        if name in run.metrics or not math.isnan(run.value(name))
    ]


def _column(measure: Measure, runs: Runs, reference: str, level: float) -> Column:
    values = {m: {seed: run.value(measure.name) for seed, run in seeds.items()} for m, seeds in runs.items()}
    cells = [_cell(np.array(list(own.values()))) for own in values.values()]
    decimals = measure.decimals
    if decimals is None:
        decimals = 0 if measure.whole else _decimals([cell.mean / measure.scale for cell in cells])
    best = _best(measure, values, level)
    gaps = [None if m == reference else _difference(own, values[reference], level) for m, own in values.items()]
    rows = zip(cells, values, gaps, strict=True)
    cells = [replace(cell, best=method == best, difference=gap) for cell, method, gap in rows]
    return Column(measure, decimals, tuple(cells))


def _cell(values: np.ndarray) -> Cell:
    defined = values[~np.isnan(values)]
    finite = bool(np.isfinite(defined).all())
    mean = float(defined.mean()) if len(defined) else math.nan
    error = float(defined.std(ddof=1)) / math.sqrt(len(defined)) if len(defined) > 1 and finite else math.nan
    return Cell(mean, error, len(defined), len(values))


def _decimals(means: list[float]) -> int:
    """Returns how many decimals show three digits of the largest: 3 of 0.98, 2 of 5.63, 0 of 12345."""
    largest = max((abs(mean) for mean in means if math.isfinite(mean)), default=0.0)
    return 3 if largest == 0 else max(0, 3 - math.ceil(math.log10(largest)))


def _best(measure: Measure, values: dict[str, dict[int, float]], level: float) -> str | None:
    """Returns the method that beats every other one with a value; None where an interval reaches 0."""
    if not measure.ranked:
        return None
    losses = {method: {s: measure.loss(v) for s, v in own.items()} for method, own in values.items()}
    known = {m: {s: v for s, v in own.items() if v is not None and not math.isnan(v)} for m, own in losses.items()}
    known = {method: own for method, own in known.items() if own}
    if len(known) < 2:
        return None  # nobody to be better than
    first = min(known, key=lambda method: float(np.mean(list(known[method].values()))))
    if measure.whole:
        others = [min(own.values()) for method, own in known.items() if method != first]
        return first if max(known[first].values()) < min(others) else None
    gaps = [_difference(known[first], own, level) for method, own in known.items() if method != first]
    return first if all(gap.high < 0 for gap in gaps) else None  # no interval is NaN, and NaN < 0 is false


def _difference(own: dict[int, float], other: dict[int, float], level: float) -> Difference:
    pairs = [(own[seed], other[seed]) for seed in own if seed in other]
    gaps = np.array([a - b for a, b in pairs if math.isfinite(a) and math.isfinite(b)])
    if not len(gaps):
        return Difference()
    mean = float(gaps.mean())
    if len(gaps) == 1:
        return Difference(mean, pairs=1)
    half = float(stats.t.ppf((1 + level) / 2, len(gaps) - 1) * gaps.std(ddof=1) / math.sqrt(len(gaps)))
    return Difference(mean, mean - half, mean + half, len(gaps))


def _caption(every: list[Evaluation], runs: Runs) -> str:
    counts = sorted({len(seeds) for seeds in runs.values()})
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    summary = "one seed" if counts == [1] else f"mean ± standard error over {number} seeds"
    return f"{every[0].task.capitalize()}: {summary}."
