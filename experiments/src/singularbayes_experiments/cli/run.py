"""The commands `run` and `list`. Keras is imported when they are called."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console

from singularbayes.cli import EngineOptions, require_writable
from singularbayes_experiments.runs.progress import progress

if TYPE_CHECKING:
    from singularbayes.ranks import Engine
    from singularbayes_experiments.runs.piece import Outcome
    from singularbayes_experiments.runs.runner import Job


def run(
    experiment: str,
    /,
    *,
    methods: str | None = None,
    seeds: str = "0",
    scale: str | None = None,
    settings: Annotated[list[str] | None, Parameter(name="--set", negative="", consume_multiple=False)] = None,
    out: Path = Path("runs"),
    again: Annotated[bool, Parameter(negative="")] = False,
    where: Annotated[EngineOptions, Parameter(name="*")] = EngineOptions(),
) -> int:
    """Train an experiment's methods and keep a record of each run. After a kill the same command goes on.

    Several processes may work on one folder: each takes runs that no other is at. With --engine ray the machines of a
    Ray cluster do; the folder has to be one that all of them share.

    Parameters
    ----------
    experiment
        The name of an experiment; `singularbayes-experiments list` shows them.
    methods
        Methods with commas between, such as low_rank,full_rank, or all. If not said, those that the paper compares, and
        all in an experiment that the paper does not have.
    seeds
        Seeds, such as 0,1 or 0-4.
    scale
        paper, chosen (our settings) or quick, where the experiment has it; its first if not said.
    settings
        One setting by hand, such as beta=0.3; may be said more than once.
    out
        Folder for records.jsonl, the arrays beside it, and unfinished runs.
    again
        Do finished runs again; the later record counts.
    """
    from singularbayes_experiments.runs import runner

    try:
        chosen = None if methods is None else [name.strip() for name in methods.split(",")]
        jobs = runner.plan(experiment, chosen, runner.parse_seeds(seeds), scale, settings or ())
    except ValueError as error:
        sys.exit(f"singularbayes-experiments: {error}")
    require_writable(out)
    try:
        return _carry_out(jobs, out, again, where.start(), Console())
    except ValueError as error:
        sys.exit(f"singularbayes-experiments: {' '.join(str(error).split())}")
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(
            f"singularbayes-experiments: {error.filename} could not be written: {error.strerror}. Earlier records "
            "are whole; the same command resumes from the last checkpoint."
        )


def _carry_out(jobs: list["Job"], out: Path, again: bool, engine: "Engine", console: Console) -> int:
    """Does the runs and returns 1 if one of them diverged."""
    from singularbayes.ranks import Local
    from singularbayes_experiments.records import record
    from singularbayes_experiments.runs import distributed

    labels = labels_of(jobs)
    failed = False
    carry_out = _here if isinstance(engine, Local) else distributed.carry_out
    for label, found in carry_out(jobs, labels, out, again, engine, console):
        failed |= found.diverged
        if found.record is None:
            console.print(f"{label:<24} {found.reason}", highlight=False, soft_wrap=True, markup=False)
            continue
        scores = ", ".join(f"{name} {value:.4g}" for name, value in list(found.record.metrics.items())[:6])
        console.print(f"    {scores}", style="dim", highlight=False, soft_wrap=True)
    if not (out / record.LINES).exists():
        return int(failed)
    console.print(f"\nRecords: {out / record.LINES}", soft_wrap=True, highlight=False)
    page = shlex.join(["singularbayes-experiments", "report", *([] if out == Path("runs") else [str(out)])])
    console.print(f"A page of them: {page}", soft_wrap=True, highlight=False)
    return int(failed)


def labels_of(jobs: list["Job"]) -> list[str]:
    """Returns what each run is called: its place, experiment, method and seed, and settings that tell it from others.

    Runs of one method and seed may differ in a setting, as in the kind of stay that is held out in `icu`.
    """
    from singularbayes_experiments.records.record import plain

    alike: dict[tuple[str, int], list[dict]] = {}
    for job in jobs:
        alike.setdefault((job.method, job.seed), []).append(plain(job.settings))
    labels = []
    for i, job in enumerate(jobs, start=1):
        own, others = plain(job.settings), alike[job.method, job.seed]
        varied = [f" {name}={value}" for name, value in own.items() if any(other[name] != value for other in others)]
        labels.append(f"{i}/{len(jobs)} {job.experiment} {job.method} {job.seed}{''.join(varied)}")
    return labels


Found = Iterator[tuple[str, "Outcome"]]


def _here(jobs, labels, out, again, engine, console) -> Found:
    """Yields what becomes of the runs, each with a bar of its own."""
    from singularbayes_experiments.runs.piece import outcome

    def carry_out(numbered):
        label, job = numbered
        return outcome(job, out, lambda: progress(console, label, job.epochs), again)

    for position, found in engine.map(carry_out, list(zip(labels, jobs, strict=True))):
        yield labels[position], found


def merge(*sources: Path, into: Path = Path("runs")) -> int:
    """Bring the records and arrays of other folders, such as those of another machine, into one.

    Nothing is lost: what lies in the folder stays as it is, and the others are only read. A run that is there already
    with other numbers is left out and named.

    Parameters
    ----------
    sources
        Folders with records.jsonl, or files of records.
    into
        The folder that takes them.
    """
    from singularbayes_experiments.records import merge

    if not sources:
        sys.exit("singularbayes-experiments: merge needs one folder with records.jsonl at least; got none.")
    require_writable(into, "--into")
    try:
        found = merge.merge(sources, into)
    except ValueError as error:
        sys.exit(f"singularbayes-experiments: {error}")
    console = Console()
    for one in found:
        counts = f"{len(one.added)} added, {len(one.same)} there already, {len(one.differ)} differ; {one.arrays} arrays"
        console.print(f"{one.source}: {counts}", highlight=False, soft_wrap=True, markup=False)
        for name in one.differ:
            said = f"    {name} is there with other numbers and stays; this one was left out"
            console.print(said, highlight=False, soft_wrap=True, markup=False)
    return int(any(one.differ for one in found))


def list_experiments() -> int:
    """Show the experiments, their methods and scales."""
    from singularbayes_experiments.runs import runner

    console = Console()
    for name in runner.EXPERIMENTS:
        module = runner.find(name)
        console.print(f"[bold]{name}[/bold]  {module.__doc__.splitlines()[0]}", highlight=False, soft_wrap=True)
        console.print(f"    methods  {', '.join(module.METHODS)}", highlight=False, soft_wrap=True)
        console.print(f"    scales   {', '.join(module.PRESETS)}", highlight=False, soft_wrap=True)
    return 0
