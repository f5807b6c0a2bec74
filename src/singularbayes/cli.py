"""The command line. Keras is imported by the commands that train, not by `--help`."""

import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter
from cyclopts.validators import Number
from rich.console import Console

import singularbayes
from singularbayes.report import require_extra

if TYPE_CHECKING:
    from singularbayes.report.tables import Table

INTERRUPTED = 130  # what shells say for Ctrl-C

app = App(
    name="singularbayes",
    help="Low-rank variational Bayesian neural networks for Keras 3.",
    version=singularbayes.__version__,
    suppress_keyboard_interrupt=False,
)


@app.command
def demo(
    *,
    out: Path = Path("runs/demo"),
    seed: Annotated[int, Parameter(validator=Number(gte=0, lt=2**32))] = 0,
    quick: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Train the toy regression and the digit classifiers, and leave one page with what they show.

    Needs no download and about a minute on two cores.

    Parameters
    ----------
    out
        Folder for report.html, records.jsonl and the arrays of the figures.
    seed
        Seed of data, initial weights and draws; the same seed gives the same numbers.
    quick
        Train for fewer epochs; the page says so.
    """
    require_extra()
    _require_writable(out)
    from singularbayes.experiments import digits, record, toy
    from singularbayes.report import page, tables

    console = Console()
    jobs: list[tuple[str, Any, str]] = [("toy", toy, method) for method in toy.METHODS]
    jobs += [("digits", digits, method) for method in digits.METHODS]
    records = []
    for done, (name, experiment, method) in enumerate(jobs, start=1):
        settings = experiment.QUICK if quick else experiment.Settings()
        label = f"{done}/{len(jobs)} {name} {method.replace('_', '-')}"
        with _progress(console, label, settings.epochs) as watch:
            records.append(experiment.run(method, seed, settings, watch))
    record.write(records, out)
    path = page.write(out, _command(out, seed, quick))
    for make, name in ((tables.toy, "toy"), (tables.digits, "digits")):
        _print_table(console, make(page.of(records, name)))
    console.print(f"\nThe page: {path}", soft_wrap=True, highlight=False)
    return 0


def _require_writable(folder: Path) -> None:
    """Ends with one line unless files can be made in `folder`: better now than after training."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        sys.exit(f"singularbayes: --out needs a folder that can be written to; got {str(folder)!r}: {error.strerror}.")


def _command(out: Path, seed: int, quick: bool) -> str:
    """Returns what to type to get the same page."""
    where = [] if out == Path("runs/demo") else ["--out", str(out)]
    return shlex.join(["singularbayes", "demo", *where, "--seed", str(seed), *(["--quick"] if quick else [])])


@contextmanager
def _progress(console: Console, label: str, epochs: int) -> Iterator[Callable[[int, dict[str, float]], None]]:
    """Yields what to call after every epoch: a bar on a terminal, and everywhere one line at the end."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    start, state = time.perf_counter(), "compiling"
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TextColumn("epoch {task.completed:.0f}/{task.total:.0f}  {task.fields[state]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(label, total=epochs, state=state)

    def watch(epoch: int, logs: dict[str, float]) -> None:
        nonlocal state
        state = f"loss {logs['loss']:.3f}"
        bar.update(task, completed=epoch + 1, state=state)
        if epoch + 1 == epochs and bar.live.is_started:
            bar.stop()  # the draws that follow have a bar of their own

    with bar if console.is_terminal else nullcontext():
        yield watch
    seconds = time.perf_counter() - start
    console.print(f"{label:<24} {epochs} epochs, {state}, {seconds:.0f} s", highlight=False)


def _print_table(console: Console, table: "Table") -> None:
    import rich.box
    import rich.table

    shown = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for i, column in enumerate(table.columns):
        # One word a line in the heads, so that 80 columns are enough.
        shown.add_column(column.replace(" ", "\n"), justify="right" if i else "left", vertical="bottom")
    for row in table.rows:
        shown.add_row(*row)
    console.print(f"\n[bold]{table.title}[/bold]\n")
    console.print(shown)
    console.print(f"\n{table.note}", style="dim", highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status; what a user can mend ends in one line."""
    try:
        return app(arguments, result_action="return_value") or 0
    except KeyboardInterrupt:
        print("singularbayes: stopped.", file=sys.stderr)
        return INTERRUPTED
    except (ImportError, OSError) as error:
        sys.exit(f"singularbayes: {error}")


if __name__ == "__main__":
    sys.exit(main())
