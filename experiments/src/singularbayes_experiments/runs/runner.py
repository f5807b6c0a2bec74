"""Runs that are planned, claimed, kept and recorded: a finished one is not done again, a killed one resumes.

runs/records.jsonl       one line per finished run
runs/NAME.npz            its arrays
runs/unfinished/NAME.n/  checkpoints of a run that was finished n times before, gone at its end
runs/.locks/NAME         held while a process is at it
runs/.locks/NAME.m       held while a process is at its m-th member, or at the run as a whole
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import Timeout

from singularbayes.evaluation import Peak
from singularbayes_experiments.methods.experiment import Experiment
from singularbayes_experiments.methods.overrides import did_you_mean, overridden
from singularbayes_experiments.methods.training import Watch
from singularbayes_experiments.problems.registry import find_experiment
from singularbayes_experiments.records import files, record
from singularbayes_experiments.records.checkpoints import EVERY_S, Keep
from singularbayes_experiments.records.record import Record, identity, plain

UNFINISHED = "unfinished"
FINISHED = "finished before; --again does it again"
_LARGEST = 2**32 - 1  # the largest seed of NumPy's global generator


class Skipped(Exception):
    """Why a run is not done now."""


@dataclass(frozen=True)
class Job:
    """A run to be done."""

    experiment: str
    method: str
    seed: int
    settings: Any
    preset: str

    @property
    def name(self) -> str:
        """The name that its record will have."""
        return identity(self.experiment, self.method, self.seed, plain(self.settings))

    @property
    def epochs(self) -> int:
        """How many epochs it trains in all."""
        return find_experiment(self.experiment).problem.count_epochs(self.method, self.settings)

    @property
    def members(self) -> list["Member"]:
        """The members of an ensemble, where they can be trained apart; else none."""
        count = find_experiment(self.experiment).problem.count_members(self.method, self.settings)
        return [Member(self, number) for number in range(count)]


@dataclass(frozen=True)
class Member:
    """A member of an ensemble to be trained, for a run that pools it with the others."""

    job: Job
    number: int

    @property
    def name(self) -> str:
        """What tells it from the other members of all runs."""
        return f"{self.job.name}.{self.number}"

    @property
    def epochs(self) -> int:
        """How many epochs it trains."""
        return self.job.epochs // self.job.settings.members


def plan(
    experiment: str,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    preset: str | None = None,
    overrides: Iterable[str] = (),
) -> list[Job]:
    """Returns the requested runs, all methods of a seed before the next seed.

    Args:
        methods: None is those that the paper compares, or all where it has none; ["all"] is all.
        preset: None is the experiment's first.
        overrides: settings such as "beta=0.3"; the preset of the records is then "hand". Without any, an experiment
            with variants is run with each of them.
    """
    found = find_experiment(experiment)
    preset = next(iter(found.presets)) if preset is None else preset
    if preset not in found.presets:
        raise ValueError(f"{experiment} needs --preset to be one of {list(found.presets)}; got {preset!r}.")
    methods = require_methods(found, methods, found.paper_methods)
    overrides = list(overrides)

    def jobs(method: str, seed: int) -> list[Job]:
        settings = overridden(found.settings(preset, method), overrides)
        variants = [settings] if overrides else found.variants(settings)
        return [Job(experiment, method, seed, each, "hand" if overrides else preset) for each in variants]

    planned = [job for seed in seeds for method in methods for job in jobs(method, seed)]
    for job in planned:
        found.problem.count_epochs(job.method, job.settings)  # refuses settings that a method cannot have
    return planned


def require_methods(experiment: Experiment, methods: Sequence[str] | None, default: Sequence[str] = ()) -> list[str]:
    """Returns methods of an experiment: those named, the default for None, all for ["all"] or without a default."""
    if methods is None:
        methods = default or list(experiment.methods)
    elif list(methods) == ["all"]:
        methods = list(experiment.methods)
    unknown = [method for method in methods if method not in experiment.methods]
    if unknown or not methods:
        hint = did_you_mean(unknown[0], experiment.methods) if unknown else ""
        raise ValueError(
            f"{experiment.name} needs --methods among {list(experiment.methods)}; got {list(methods)}.{hint}"
        )
    return list(methods)


def parse_seeds(text: str) -> list[int]:
    """Returns the seeds that a text names.

    >>> parse_seeds("0,5-7,42")
    [0, 5, 6, 7, 42]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        last = last if dash else first
        if not first.isdecimal() or not last.isdecimal() or int(last) < int(first):
            raise ValueError(f"--seeds needs integers >= 0, such as 0,1 or 0-4; got {text!r}.")
        seeds += range(int(first), int(last) + 1)
    if not seeds or max(seeds) > _LARGEST:
        raise ValueError(f"--seeds needs integers from 0 to {_LARGEST}, such as 0,1 or 0-4; got {text!r}.")
    return list(dict.fromkeys(seeds))


def carry_out(
    job: Job,
    folder: Path,
    watch: Watch | None = None,
    *,
    again: bool = False,
    every: float = EVERY_S,
    patience: float = 0.0,
) -> Record:
    """Does a run, or what is left of it, adds its record to those of the folder, and returns it.

    Raises `Skipped` where it is finished already, or another process is at it.

    Args:
        again: do it also when the folder has its record; then the later one counts.
        every: seconds between two checkpoints, at least.
        patience: seconds to wait for another process that is at it, which may be about to end.
    """
    with _locked(folder, [job.name, *(member.name for member in job.members)], patience):
        finished = record.count(folder)[job.name]
        if finished and not again:
            _tidy(job, folder)
            raise Skipped(FINISHED)
        found = _run(job, _place(job, folder, finished, every), watch)
        record.append(found, folder)
        _tidy(job, folder)
        return found


def train_member(
    member: Member,
    folder: Path,
    watch: Watch | None = None,
    *,
    again: bool = False,
    every: float = EVERY_S,
    patience: float = 0.0,
) -> None:
    """Trains a member of an ensemble, or what is left to train, and keeps it for `carry_out` of its run.

    Several processes may be at the members of one run. Arguments and what is raised are those of `carry_out`.
    """
    job = member.job
    with _locked(folder, [member.name], patience):
        finished = record.count(folder)[job.name]
        if finished and not again:
            raise Skipped(FINISHED)  # tidying up is for who holds the locks of all members
        keep = _place(job, folder, finished, every)
        problem = find_experiment(job.experiment).problem
        problem.train_member(job.method, job.seed, job.settings, member.number, watch=watch, keep=keep)


@contextmanager
def _locked(folder: Path, names: Sequence[str], patience: float) -> Iterator[None]:
    """Holds locks of a folder; raises `Skipped` where another process has one of them."""
    with ExitStack() as locks:
        for name in names:
            try:
                locks.enter_context(record.lock(folder, name).acquire(timeout=patience))
            except Timeout:
                raise Skipped("another process is at it") from None
        yield


def _place(job: Job, folder: Path, finished: int, every: float) -> Keep:
    return Keep(folder / UNFINISHED / f"{job.name}.{finished}", every)


def _run(job: Job, keep: Keep, watch: Watch | None) -> Record:
    with Peak() as peak:
        problem = find_experiment(job.experiment).problem
        found = problem.run(job.method, job.seed, job.settings, watch=watch, keep=keep)
    assert found.name == job.name, f"{job.name} came out as {found.name}, so that it would never count as finished"
    return replace(found, preset=job.preset, peak_memory=peak.bytes)


def _tidy(job: Job, folder: Path) -> None:
    """Removes the checkpoints of a finished run and what kills left of its files."""
    for place in (folder / UNFINISHED).glob(f"{job.name}.*"):
        Keep(place).remove()
    for left in folder.glob(f"{files.temporary_prefix(Path(f'{job.name}.npz'))}*"):
        left.unlink(missing_ok=True)
