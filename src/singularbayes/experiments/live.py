"""Progress of one run on a terminal: epoch, loss and time left."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console


@contextmanager
def progress(console: Console, label: str, epochs: int) -> Iterator[Callable[[int, dict[str, float]], None]]:
    """Yields what to call after every epoch: a bar on a terminal, and everywhere one line at the end."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    start, state, done = time.perf_counter(), "compiling", 0
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TextColumn("epoch {task.completed:.0f}/{task.total:.0f}  {task.fields[state]}"),
        TimeRemainingColumn(),
    )
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(label, total=epochs, state=state)
    went_on = ""

    def watch(epoch: int, logs: dict[str, float]) -> None:
        nonlocal state, done, went_on
        state = f"loss {logs['loss']:.3f}"
        if epoch > done:  # trained before an interruption: no measure of the speed
            went_on = f", went on after epoch {epoch}" if done == 0 else went_on
            bar.reset(task, total=epochs, completed=epoch)
        done = epoch + 1
        bar.update(task, completed=done, state=state)
        if done == epochs and bar.live.is_started:
            bar.stop()  # the draws that follow have a bar of their own

    with bar if console.is_terminal else nullcontext():
        yield watch
    seconds = time.perf_counter() - start
    trained = f"{done} epochs, {state}" if done else "trained before"
    console.print(f"{label:<24} {trained}, {seconds:.0f} s{went_on}", highlight=False)
