"""A bar for downloads that pooch can drive: it sets `total`, and calls `update`, `reset` and `close`."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn


class Bar:
    """On a terminal a bar on standard error; elsewhere one line."""

    def __init__(self, label: str, url: str):
        console = Console(stderr=True)
        if not console.is_terminal:
            console.print(f"{label}: downloading from {url}", soft_wrap=True, highlight=False, markup=False)
        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self.task = self.progress.add_task(label, total=None)

    @property
    def total(self) -> int:
        return int(self.progress.tasks[0].total or 0)

    @total.setter
    def total(self, size: int) -> None:
        self.progress.reset(self.task, total=size or None)  # a retry starts at nothing

    def update(self, size: int) -> None:
        self.progress.advance(self.task, size)

    def reset(self) -> None:
        self.progress.reset(self.task)

    def close(self) -> None:
        self.progress.stop()

    def __enter__(self) -> "Bar":
        self.progress.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, where: TracebackType | None) -> None:
        self.progress.stop()
