"""A table on a terminal."""

import rich.box
import rich.table
from rich.console import Console

from singularbayes_experiments.report.tables import Table


def show(console: Console, title: str, table: Table) -> None:
    """Prints a table without the paper's numbers, so narrow that 80 columns are enough where they can be."""
    shown = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for i, head in enumerate(("method", *table.heads)):
        # One word a line in the heads.
        shown.add_column(head.replace(" ", "\n"), justify="right" if i else "left", vertical="bottom")
    for row in table.rows:
        shown.add_row(row.name, *(f"{cell.ours} {cell.error}".strip() for cell in row.cells))
    console.print(f"\n[bold]{title}[/bold]\n")
    console.print(shown)
    console.print(f"\n{table.note}", style="dim", highlight=False)
