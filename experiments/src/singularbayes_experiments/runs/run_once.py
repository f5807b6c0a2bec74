"""A run, or a member of an ensemble, as a piece of work that any machine can do, and do again.

Nothing but the folder that all machines share is needed.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from singularbayes_experiments.methods.training import Diverged, Watch
from singularbayes_experiments.records.checkpoints import EVERY_S
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.runs import progress_files, runner

Watching = Callable[[], AbstractContextManager[Watch]]

# A lock outlives its machine where a network folder keeps it: NFS lets it go after 90 seconds.
PATIENCE_S = 120.0


@dataclass(frozen=True)
class Outcome:
    """What became of a run: a record, or why there is none. A member of an ensemble has neither when it is trained."""

    record: Record | None = None
    reason: str = ""
    diverged: bool = False


def outcome(
    job: runner.Job | runner.Member,
    folder: Path,
    watching: Watching,
    **options,
) -> Outcome:
    """Does a run or trains a member, or what is left of it, and returns what became of it.

    Args:
        watching: makes its watch. The options are those of `runner.carry_out`.
    """
    try:
        with watching() as watch:
            if isinstance(job, runner.Job):
                return Outcome(runner.carry_out(job, folder, watch, **options))
            runner.train_member(job, folder, watch, **options)
            return Outcome()
    except runner.Skipped as reason:
        return Outcome(reason=str(reason))
    except Diverged as reason:
        return Outcome(reason=str(reason), diverged=True)


@dataclass(frozen=True)
class Piece:
    """What `Engine.map` calls with a run or a member, on this machine or another.

    The folder is the same for all machines: it holds checkpoints, locks and records, so that a run which is begun on
    one machine resumes on another.

    Args:
        folder: an absolute path.
        again, every: as in `runner.carry_out`.
    """

    folder: Path
    again: bool = False
    every: float = EVERY_S

    def __call__(self, job: runner.Job | runner.Member) -> Outcome:
        options = {"again": self.again, "every": self.every, "patience": PATIENCE_S}
        found = outcome(job, self.folder, lambda: progress_files.written(self.folder, job.name), **options)
        if found.record is not None:
            found.record.arrays.clear()  # they lie in the folder
        return found
