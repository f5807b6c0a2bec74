"""A run as a piece of work that any machine can do, and do again: nothing but the folder that all share is needed."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from singularbayes.experiments import board, runner
from singularbayes.experiments.keep import EVERY_S
from singularbayes.experiments.record import Record
from singularbayes.experiments.training import Diverged, Watch

Watching = Callable[[], AbstractContextManager[Watch]]

# A lock outlives its machine where a network folder keeps it: NFS lets it go after 90 seconds.
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """What became of a run: a record, or why there is none."""

    record: Record | None = None
    reason: str = ""
    diverged: bool = False


def outcome(
    job: runner.Job,
    folder: Path,
    watching: Watching,
    again: bool = False,
    every: float = EVERY_S,
    patience: float = 0.0,
) -> Outcome:
    """Does a run, or what is left of it, and returns what became of it; `watching()` gives its watch."""
    try:
        with watching() as watch:
            return Outcome(runner.carry_out(job, folder, watch, again, every, patience))
    except runner.Skipped as reason:
        return Outcome(reason=str(reason))
    except Diverged as reason:
        return Outcome(reason=str(reason), diverged=True)


@dataclass(frozen=True)
class Piece:
    """What `Engine.map` calls with a job, on this machine or another.

    The folder is the same for all machines: it holds checkpoints, locks and records, so that a run which is begun on
    one machine goes on on another.

    Args:
        folder: an absolute path.
        again, every: as in `runner.carry_out`.
    """

    folder: Path
    again: bool = False
    every: float = EVERY_S

    def __call__(self, job: runner.Job) -> Outcome:
        found = outcome(
            job, self.folder, lambda: board.written(self.folder, job.name), self.again, self.every, PATIENCE_S
        )
        if found.record is not None:
            found.record.arrays.clear()  # they lie in the folder
        return found
