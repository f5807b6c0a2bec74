"""How far runs on other machines are: each writes a line into the folder that all of them share."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from singularbayes_experiments.records import files

if TYPE_CHECKING:
    from singularbayes_experiments.methods.training import Watch

BOARD = ".progress"
EVERY_S = 1.0  # between two lines of a run


@contextmanager
def written(folder: Path, name: str) -> Iterator["Watch"]:
    """Yields what a run calls after every epoch; its line is written once a second at most, and gone at the end."""
    (folder / BOARD).mkdir(parents=True, exist_ok=True)
    last = -EVERY_S

    def watch(epoch: int, logs: dict[str, float]) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY_S:
            last = now
            files.replace(folder / BOARD / name, json.dumps([epoch + 1, float(logs["loss"])]).encode())

    try:
        yield watch
    finally:
        for path in [folder / BOARD / name, *(folder / BOARD).glob(f"{files.temporary_prefix(Path(name))}*")]:
            path.unlink(missing_ok=True)


def read(folder: Path, name: str) -> tuple[int, float] | None:
    """Returns how many epochs a run has trained, and its loss; None before its first."""
    path = folder / BOARD / name
    try:
        epochs, loss = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return epochs, loss
