"""The table of a sweep while it grows."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table

from singularbayes.metrics import Measure
from singularbayes.ranks.trials import Sweep, Trial, cells

_SHOWN = 30  # the last trials; a longer table would not fit a screen


@contextmanager
def table(measures: Sequence[Measure], console: Console | None = None) -> Iterator[Callable[[list[Trial]], None]]:
    """Yields what to call with all trials after each of them: on a terminal it draws their table, else nothing."""
    console = console or Console()
    if not console.is_terminal:
        yield lambda trials: None
        return
    with Live(console=console, auto_refresh=False) as shown:
        yield lambda trials: shown.update(_drawn(measures, trials), refresh=True)


def _drawn(measures: Sequence[Measure], trials: list[Trial]) -> Table:
    sweep = Sweep("", tuple(measures), tuple(trials))
    front = {trial.number for trial in sweep.pareto()} if sweep.finished else set()
    head, rows = cells(measures, trials, front)
    drawn = Table(title=f"{len(trials)} trials", title_justify="left")
    for i, name in enumerate(head):
        drawn.add_column(name, justify="left" if i == 0 else "right")
    for row in rows[-_SHOWN:]:
        drawn.add_row(*row, style="bold" if row[-1] else None)
    return drawn
