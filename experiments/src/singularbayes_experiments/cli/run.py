"""The commands `run`, `list`, `certificates` and `merge`. Keras is imported when they are called."""

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
    from singularbayes_experiments.runs.run_once import Outcome
    from singularbayes_experiments.runs.runner import Job

PROGRAM = "singularbayes-experiments"
Settings = Annotated[list[str] | None, Parameter(name="--set", negative="", consume_multiple=False)]


def run(
    experiment: str,
    /,
    *,
    methods: str | None = None,
    seeds: str | None = None,
    preset: str | None = None,
    settings: Settings = None,
    out: Path = Path("runs"),
    again: Annotated[bool, Parameter(negative="")] = False,
    together: Annotated[bool, Parameter(negative="")] = False,
    choose: Annotated[bool, Parameter(negative="")] = False,
    configuration: str | None = None,
    where: Annotated[EngineOptions, Parameter(name="*")] = EngineOptions(),
) -> int:
    """Train an experiment's methods and keep a record of each run. After a kill the same command resumes.

    Several processes may work on one folder: each takes runs that no other is at. With --engine ray the machines of a
    Ray cluster do; the folder has to be one that all of them share.

    Parameters
    ----------
    experiment
        The name of an experiment; `singularbayes-experiments list` shows them.
    methods
        Methods with commas between, such as low_rank,full_rank, or all. By default those that the paper compares, and
        all in an experiment that the paper does not have or with --together.
    seeds
        Seeds, such as 0,1 or 0-4; 0 by default, with --together those of the experiment.
    preset
        paper, chosen (tuned) or quick, where the experiment has it; by default its first. With --together also trial,
        the tuning runs, and several with commas between.
    settings
        Override one setting, such as beta=0.3; may be given more than once.
    out
        Folder for records.jsonl, the arrays beside it, and unfinished runs.
    again
        Do finished runs again; the later record counts.
    together
        Train all seeds of a method as one program, as suits a GPU. An interrupted program starts again.
    choose
        With --together: "chosen" is tuned by the tuning runs in --out, not by the committed ones.
    configuration
        With --together and the preset trial: this configuration alone, so that processes can share them.
    """
    if together:
        _require_unset("--together", {"--set": settings, "--again": again, "--engine": where != EngineOptions()})
        return _run_together(experiment, preset, methods, seeds, out, choose, configuration)
    _require_unset("a run without --together", {"--choose": choose, "--configuration": configuration})
    from singularbayes_experiments.runs import runner

    jobs = runner.plan(experiment, split_names(methods), runner.parse_seeds(seeds or "0"), preset, settings or ())
    require_writable(out)
    try:
        return _carry_out(jobs, out, again, where.start("singularbayes_experiments"), Console())
    except OSError as error:
        if error.filename is None:
            raise
        sys.exit(
            f"{PROGRAM}: {error.filename} could not be written: {error.strerror}. Earlier records "
            "are whole; the same command resumes from the last checkpoint."
        )


def _run_together(
    experiment: str,
    preset: str | None,
    methods: str | None,
    seeds: str | None,
    out: Path,
    choose: bool,
    configuration: str | None,
) -> int:
    from singularbayes_experiments.problems.registry import find_experiment
    from singularbayes_experiments.runs import runner, together

    presets = split_names(preset) or [next(iter(find_experiment(experiment).presets))]
    lines = together.run_together(
        experiment,
        presets,
        folder=out,
        methods=split_names(methods),
        seeds=None if seeds is None else runner.parse_seeds(seeds),
        choose=choose,
        configuration=configuration,
    )
    require_writable(out)
    for line in lines:
        print(line, flush=True)
    return 0


def split_names(text: str | None) -> list[str] | None:
    """Returns the names of a list with commas between; None for none."""
    return None if text is None else [name.strip() for name in text.split(",")]


def _require_unset(what: str, options: dict[str, object]) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        raise ValueError(f"{what} needs {given[0]} to be left out; got {' '.join(given)}.")


def _carry_out(jobs: list["Job"], out: Path, again: bool, engine: "Engine", console: Console) -> int:
    """Does the runs and returns 1 if one of them diverged."""
    from singularbayes.ranks import Local
    from singularbayes_experiments.records import record
    from singularbayes_experiments.runs import distributed

    labels = labels_of(jobs)
    failed = False
    carry_out = _here if isinstance(engine, Local) else distributed.carry_out
    for label, found in carry_out(jobs, labels, folder=out, again=again, engine=engine, console=console):
        failed |= found.diverged
        if found.record is None:
            console.print(f"{label:<24} {found.reason}", highlight=False, soft_wrap=True, markup=False)
            continue
        scores = ", ".join(f"{name} {value:.4g}" for name, value in list(found.record.metrics.items())[:6])
        console.print(f"    {scores}", style="dim", highlight=False, soft_wrap=True)
    if not (out / record.LINES).exists():
        return int(failed)
    console.print(f"\nRecords: {out / record.LINES}", soft_wrap=True, highlight=False)
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


def _here(jobs, labels, *, folder, again, engine, console) -> Found:
    """Yields what becomes of the runs, each with a bar of its own."""
    from singularbayes_experiments.runs.run_once import outcome

    def carry_out(numbered):
        label, job = numbered
        return outcome(job, folder, lambda: progress(console, label, job.epochs), again=again)

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
        raise ValueError("merge needs one folder with records.jsonl at least; got none.")
    require_writable(into, "--into")
    found = merge.merge(sources, into)
    console = Console()
    for one in found:
        counts = f"{len(one.added)} added, {len(one.same)} there already, {len(one.differ)} differ; {one.arrays} arrays"
        console.print(f"{one.source}: {counts}", highlight=False, soft_wrap=True, markup=False)
        for name in one.differ:
            line = f"    {name} is there with other numbers and stays; this one was left out"
            console.print(line, highlight=False, soft_wrap=True, markup=False)
    return int(any(one.differ for one in found))


def list_experiments() -> int:
    """Show the experiments, their methods and presets."""
    from singularbayes_experiments.problems.registry import EXPERIMENTS

    console = Console()
    for name, experiment in EXPERIMENTS.items():
        console.print(f"[bold]{name}[/bold]  {experiment.summary}", highlight=False, soft_wrap=True)
        console.print(f"    methods  {', '.join(experiment.methods)}", highlight=False, soft_wrap=True)
        console.print(f"    presets  {', '.join(experiment.presets)}", highlight=False, soft_wrap=True)
    return 0
