"""Progress of runs on a terminal: epoch, loss and time left."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from singularbayes_experiments.runs import progress_files

if TYPE_CHECKING:
    from singularbayes_experiments.runs.runner import Job, Member


@contextmanager
def progress(console: Console, label: str, epochs: int) -> Iterator[Callable[[int, dict[str, float]], None]]:
    """Yields what to call after every epoch: a bar on a terminal, and everywhere one line at the end."""
    start, state, done = time.perf_counter(), "compiling", 0
    bar = _bar(console)
    task = bar.add_task(label, total=epochs, state=state)
    went_on = ""

    def watch(epoch: int, logs: dict[str, float]) -> None:
        nonlocal state, done, went_on
        state = f"loss {logs['loss']:.3f}"
        if epoch > done:  # trained before an interruption: no measure of the speed
            went_on = f", resumed after epoch {epoch}" if done == 0 else went_on
            bar.reset(task, total=epochs, completed=epoch)
        done = epoch + 1
        bar.update(task, completed=done, state=state)
        if done == epochs and bar.live.is_started:
            bar.stop()  # the draws that follow have a bar of their own

    with bar if console.is_terminal else nullcontext():
        yield watch
    seconds = time.perf_counter() - start
    trained = f"{done} epoch{'s' if done > 1 else ''}, {state}" if done else "trained before"
    console.print(f"{label:<24} {trained}, {seconds:.0f} s{went_on}", highlight=False)


class Bars:
    """A bar for every run or member that is under way on other machines, by their lines in the shared folder."""

    def __init__(self, console: Console, folder: Path, jobs: Sequence["Job | Member"], labels: Sequence[str]):
        self.folder, self.jobs, self.labels = folder, jobs, labels
        self.bar, self.tasks = _bar(console), dict.fromkeys(range(len(jobs)))
        self._shown = console.is_terminal

    def __enter__(self) -> "Bars":
        if self._shown:
            self.bar.start()
        return self

    def __exit__(self, *error) -> None:
        if self._shown:
            self.bar.stop()

    def tick(self) -> None:
        """Shows how far the runs are now."""
        for position, task in self.tasks.items() if self._shown else ():
            found = progress_files.read(self.folder, self.jobs[position].name)
            if found is None:
                continue
            epoch, loss = found
            if task is None:
                total = self.jobs[position].epochs
                self.tasks[position] = task = self.bar.add_task(self.labels[position], total=total, state="")
            self.bar.update(task, completed=epoch, state=f"loss {loss:.3f}")

    def over(self, position: int) -> None:
        """Takes the bar of a run away that has ended."""
        task = self.tasks.pop(position)
        if task is not None:
            self.bar.remove_task(task)


def _bar(console: Console) -> Any:
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TextColumn("epoch {task.completed:.0f}/{task.total:.0f}  {task.fields[state]}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True)
