"""Runs that are planned, claimed, kept and recorded: a finished one is not done again, a killed one goes on.

runs/records.jsonl       one line a finished run
runs/NAME.npz            its arrays
runs/unfinished/NAME.n/  checkpoints of a run that was finished n times before, gone at its end
runs/.locks/NAME         held while a process is at it
runs/.locks/NAME.m       held while a process is at its m-th member, or at the run as a whole
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filelock import Timeout

from singularbayes.evaluation import Peak
from singularbayes_experiments.methods import methods, study
from singularbayes_experiments.methods.overrides import meant, overridden
from singularbayes_experiments.methods.training import Watch
from singularbayes_experiments.records import files, record
from singularbayes_experiments.records.checkpoints import EVERY_S, Keep
from singularbayes_experiments.records.record import Record, identity, plain

EXPERIMENTS = (
    "toy",
    "mnist",
    "fashion_mnist",
    "cnn",
    "kl_study",
    "sst2",
    "adaptive_rank",
    "adaptive_rank_sst2",
    "beijing",
    "uci",
    "icu",
    "mimic3",
)
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
        count = getattr(find(self.experiment), "epochs", None)
        return self.settings.epochs if count is None else count(self.method, self.settings)

    @property
    def members(self) -> list["Member"]:
        """The members of an ensemble, where they can be trained apart; else none."""
        problem = getattr(find(self.experiment), "PROBLEM", None)
        if not isinstance(problem, study.Problem) or self.method not in problem.methods:
            return []
        return [Member(self, number) for number in range(methods.count_members(self.method, self.settings))]


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


def find(experiment: str) -> Any:
    """Returns the module of an experiment: its `Settings`, `PRESETS`, `METHODS` and `run`."""
    if experiment not in EXPERIMENTS:
        raise ValueError(
            f"run needs an experiment, one of {list(EXPERIMENTS)}; got {experiment!r}.{meant(experiment, EXPERIMENTS)}"
        )
    return importlib.import_module(f"singularbayes_experiments.problems.{experiment}")


def plan(
    experiment: str,
    methods: Sequence[str] | None = None,
    seeds: Sequence[int] = (0,),
    scale: str | None = None,
    assignments: Iterable[str] = (),
) -> list[Job]:
    """Returns the runs that are asked for, all methods of a seed before the next seed.

    Args:
        methods: None is those in the experiment's `PAPERS`, which the paper compares, or all where it has none; ["all"]
            is all.
        scale: a name in the experiment's `PRESETS`, None is the first.
        assignments: settings changed by hand, such as "beta=0.3"; the preset is then "hand". Without any, an experiment
            that has `variants(settings)` is run with each of them.
    """
    module = find(experiment)
    scale = next(iter(module.PRESETS)) if scale is None else scale
    if scale not in module.PRESETS:
        raise ValueError(f"{experiment} needs --scale to be one of {list(module.PRESETS)}; got {scale!r}.")
    if methods is None:
        methods = list(getattr(module, "PAPERS", module.METHODS))
    elif list(methods) == ["all"]:
        methods = list(module.METHODS)
    strange = [method for method in methods if method not in module.METHODS]
    if strange or not methods:
        hint = meant(strange[0], module.METHODS) if strange else ""
        raise ValueError(f"{experiment} needs --methods among {list(module.METHODS)}; got {list(methods)}.{hint}")
    assignments = list(assignments)

    def settings(method: str) -> Any:
        preset = module.PRESETS[scale]
        return overridden(preset[method] if isinstance(preset, Mapping) else preset, assignments)

    if assignments:
        return [Job(experiment, method, seed, settings(method), "hand") for seed in seeds for method in methods]
    return [
        Job(experiment, method, seed, each, scale)
        for seed in seeds
        for method in methods
        for each in variants(module, settings(method))
    ]


def variants(module: Any, settings: Any) -> list:
    """Returns the settings of all runs that the settings of a preset stand for: one unless the experiment has more."""
    return module.variants(settings) if hasattr(module, "variants") else [settings]


def parse_seeds(text: str) -> list[int]:
    """Returns the seeds that a text names.

    >>> parse_seeds("0,5-7,42")
    [0, 5, 6, 7, 42]
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise ValueError(f"--seeds needs whole numbers >= 0, such as 0,1 or 0-4; got {text!r}.")
        seeds += range(int(first), int(last or first) + 1)
    if not seeds or max(seeds) > _LARGEST:
        raise ValueError(f"--seeds needs whole numbers from 0 to {_LARGEST}, such as 0,1 or 0-4; got {text!r}.")
    return list(dict.fromkeys(seeds))


def carry_out(
    job: Job,
    folder: Path,
    watch: Watch | None = None,
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
    with _held(folder, [job.name, *(member.name for member in job.members)], patience):
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
    again: bool = False,
    every: float = EVERY_S,
    patience: float = 0.0,
) -> None:
    """Trains a member of an ensemble, or what is left to train, and keeps it for `carry_out` of its run.

    Several processes may be at the members of one run. Arguments and what is raised are those of `carry_out`.
    """
    job = member.job
    with _held(folder, [member.name], patience):
        finished = record.count(folder)[job.name]
        if finished and not again:
            raise Skipped(FINISHED)  # tidying up is for who holds the locks of all members
        keep = _place(job, folder, finished, every)
        study.train_member(find(job.experiment).PROBLEM, job.method, job.seed, job.settings, member.number, watch, keep)


@contextmanager
def _held(folder: Path, names: Sequence[str], patience: float) -> Iterator[None]:
    """Holds locks of a folder; raises `Skipped` where another process has one of them."""
    with ExitStack() as held:
        for name in names:
            try:
                held.enter_context(record.lock(folder, name).acquire(timeout=patience))
            except Timeout:
                raise Skipped("another process is at it") from None
        yield


def _place(job: Job, folder: Path, finished: int, every: float) -> Keep:
    return Keep(folder / UNFINISHED / f"{job.name}.{finished}", every)


def _run(job: Job, keep: Keep, watch: Watch | None) -> Record:
    with Peak() as peak:
        found = find(job.experiment).run(job.method, job.seed, job.settings, watch, keep)
    assert found.name == job.name, f"{job.name} came out as {found.name}, so that it would never count as finished"
    return replace(found, preset=job.preset, peak_memory=peak.bytes)


def _tidy(job: Job, folder: Path) -> None:
    """Removes the checkpoints of a finished run and what kills left of its files."""
    for place in (folder / UNFINISHED).glob(f"{job.name}.*"):
        Keep(place).remove()
    for left in folder.glob(f"{files.temporary_prefix(Path(f'{job.name}.npz'))}*"):
        left.unlink(missing_ok=True)
