"""The table of a comparison for a terminal, a README and a page: in bold what is better than all others.

Below the methods stand their differences from the reference, where there are two methods or more.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from singularbayes.checks import require_package
from singularbayes.evaluation.comparison import Comparison, meaning_of_best
from singularbayes.evaluation.comparison_columns import Cell, Column, Difference

Shown = TypeVar("Shown")
Rows = list[tuple[str, list[Shown]]]  # the name of a row, and its cells


def show(comparison: Comparison, console: Console | None = None) -> None:
    """Prints the table on a terminal, in several of fewer columns where it is too wide for one."""
    console = console or Console()
    heads = [f"{column.measure.label} {column.measure.arrow}".strip() for column in comparison.columns]
    for rows in (method_rows(comparison, _styled), difference_rows(comparison, _plain)):
        if rows:
            for table in _tables(heads, rows, console):
                console.print(table)
                console.print()
    console.print(Text(caption(comparison), style="dim"))


def markdown(comparison: Comparison) -> str:
    """Returns the table as Markdown that GitHub renders."""
    heads = [_in_cell(f"{column.measure.label} {column.measure.arrow}".strip()) for column in comparison.columns]
    lines = []
    for rows in (method_rows(comparison, _marked), difference_rows(comparison, difference_text)):
        if rows:
            lines += [f"| | {' | '.join(heads)} |", f"|---|{'---:|' * len(heads)}"]
            lines += [f"| {_in_cell(name)} | {' | '.join(cells)} |" for name, cells in rows] + [""]
    return "\n".join([*lines, caption(comparison), ""])


def html(comparison: Comparison) -> str:
    """Returns the table as a piece of HTML without styles of its own."""
    require_package("jinja2", "plots", "A comparison as HTML")
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("singularbayes", "evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("comparison.html.j2").render(
        caption=caption(comparison),
        measures=[column.measure for column in comparison.columns],
        rows=method_rows(comparison, lambda column, cell: (*column.text(cell), cell.best)),
        differences=difference_rows(comparison, difference_text),
    )


def caption(comparison: Comparison) -> str:
    """Returns the caption, with how to read the marks and the differences."""
    if len(comparison.methods) < 2:
        return comparison.caption
    found = [d for column in comparison.columns for d in column.differences if d is not None and d.pairs > 0]
    text = (
        f"{comparison.caption} Bold: {meaning_of_best(comparison.level)}. Below: differences from "
        f"{comparison.reference}, paired over seeds"
    )
    if any(d.pairs > 1 for d in found):
        text += f", with their {100 * comparison.level:g} % intervals"
    if any(d.pairs == 1 for d in found):
        text += "; one pair has no interval"
    if any(d.pairs < d.seeds for d in found):
        text += ". Where not all seeds make pairs, their number is given; the difference is then not that of the means"
    return f"{text}."


def method_rows(comparison: Comparison, render: Callable[[Column, Cell], Shown]) -> "Rows[Shown]":
    """Returns one row per method."""
    return [
        (name, [render(column, column.cells[i]) for column in comparison.columns])
        for i, name in enumerate(comparison.methods)
    ]


def difference_rows(comparison: Comparison, render: Callable[[Column, Difference], Shown]) -> "Rows[Shown]":
    """Returns a row for every method but the reference."""
    rows = []
    for i, name in enumerate(comparison.methods):
        found = [(column, column.differences[i]) for column in comparison.columns]
        if name != comparison.reference:
            rows.append((f"{name} − {comparison.reference}", [render(c, d) for c, d in found if d is not None]))
    return rows


def difference_text(column: Column, difference: Difference) -> str:
    """Returns the difference, its interval, and the number of pairs where seeds are left out.

    There is none (–) without a pair, and no interval of one pair or of a count that does not vary.
    """
    mean, pairs = _signed(column, difference.mean), difference.pairs
    if not pairs:
        return mean
    left_out = f" ({pairs} pair{'s' if pairs > 1 else ''})" if pairs < difference.seeds else ""
    if pairs < 2 or (column.measure.whole and difference.low == difference.high):
        return f"{mean}{left_out}"
    return f"{mean} [{_signed(column, difference.low)}, {_signed(column, difference.high)}]{left_out}"


def _tables(heads: list[str], rows: Rows[Text], console: Console) -> Iterator[Table]:
    """Yields tables of as many columns as the console is wide for; one column at least."""
    start = 0
    while start < len(heads):
        end = start + 1
        while end < len(heads) and _width(_table(heads, rows, slice(start, end + 1)), console) <= console.width:
            end += 1
        yield _table(heads, rows, slice(start, end))
        start = end


def _table(heads: list[str], rows: Rows[Text], part: slice) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column(overflow="fold")  # a long name may break; a number may not
    for head in heads[part]:
        table.add_column(Text(head), justify="right", no_wrap=True)
    for name, cells in rows:
        table.add_row(Text(name), *cells[part])
    return table


def _width(table: Table, console: Console) -> int:
    return console.measure(table, options=console.options.update(max_width=10_000)).maximum


def _signed(column: Column, value: float) -> str:
    text = column.number(value)
    return f"+{text}" if value > 0 and text.strip("0.,") else text


def _styled(column: Column, cell: Cell) -> Text:
    mean, error = column.text(cell)
    return Text.assemble((mean, "bold" if cell.best else ""), f" {error}".rstrip())


def _plain(column: Column, difference: Difference) -> Text:
    return Text(difference_text(column, difference).replace(" [", "\n["))


def _marked(column: Column, cell: Cell) -> str:
    mean, error = column.text(cell)
    return f"{f'**{mean}**' if cell.best else mean} {error}".rstrip()


def _in_cell(text: str) -> str:
    return text.replace("|", "\\|")
