"""A progress bar for work that turns out long."""

import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
PATIENCE_S = 2.0  # nobody needs a bar for less

_QUIET = ContextVar("quiet", default=False)


@contextmanager
def quiet() -> Iterator[None]:
    """Shows no bars inside a `with` block, for a caller that has one of its own."""
    token = _QUIET.set(True)
    try:
        yield
    finally:
        _QUIET.reset(token)


def track(items: Iterable[T], total: int, label: str) -> Generator[T]:
    """Yields the items; shows a bar on a terminal when they take longer than two seconds."""
    start, waiting = time.monotonic(), not _QUIET.get()
    bar = task = None
    try:
        for done, item in enumerate(items):
            if waiting and time.monotonic() - start > PATIENCE_S:
                from rich.console import Console
                from rich.progress import Progress

                waiting, console = False, Console(stderr=True)  # not before: making one costs a millisecond
                if console.is_terminal:
                    bar = Progress(console=console, transient=True)
                    bar.start()
                    task = bar.add_task(label, total=total, completed=done)
            yield item
            if bar is not None and task is not None:
                bar.advance(task)
    finally:
        if bar is not None:
            bar.stop()
