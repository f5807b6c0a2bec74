"""Runs the tasks that are missing: in this process, in several, or on a Ray cluster. A run is the unit of loss.

Every run is a file of its own, written when its task has trained; a killed or failed task leaves nothing, and the next
call does what is missing.
"""

import os
import platform
import shlex
import subprocess
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from singularbayes_experiments import config, records, study
from singularbayes_experiments.config import Experiment, Task
from singularbayes_experiments.problems.base import TUNING

ENGINES = ("serial", "joblib", "ray")
ATTEMPTS = 3  # of a task whose worker on a Ray cluster is lost


@dataclass(frozen=True)
class Failure:
    """A task that failed, and the text of its error."""

    task: Task
    error: str


def run_id(task: Task, place: int) -> str:
    """Returns the identity of one of the runs of a task."""
    settings = config.plain(task.settings[place])
    return records.identity(task.experiment, task.task, task.method, task.seeds[place], task.stage, settings)


def missing(tasks: Iterable[Task], out: Path, packed: Path | None = None) -> list[Task]:
    """Returns the tasks with those of their runs that neither folder has: files in one, packed runs in the other."""
    present: set = {path.stem for path in out.glob("*.json")} | (records.packed(packed) if packed else set())
    found = []
    for task in tasks:
        left = [i for i in range(len(task.seeds)) if not present & names(task, i)]
        if left:
            found.append(task.only(left))
    return found


def names(task: Task, place: int) -> set:
    """Returns what a record of one of the runs of a task may be known by; see `records.packed`."""
    told = (task.experiment, task.task, task.method, task.seeds[place], task.preset, task.stage)
    number = task.configurations[place]
    return {run_id(task, place), (*told, number)} | ({(*told, None)} if task.stage != TUNING else set())


def carry_out(experiment: Experiment, task: Task, out: Path) -> Failure | None:
    """Does a task and writes its runs; returns what went wrong, if anything did."""
    try:
        for i, outcome in enumerate(study.run(experiment.problem, task)):
            records.write(record(task, i, outcome), out)
    except Exception:  # the others go on, and all failures are reported at the end
        return Failure(task, traceback.format_exc())
    return None


def record(task: Task, place: int, outcome: study.Outcome) -> records.Run:
    number = task.configurations[place]
    return records.Run(
        experiment=task.experiment,
        task=task.task,
        method=task.method,
        seed=task.seeds[place],
        preset=task.preset,
        stage=task.stage,
        settings=config.plain(task.settings[place]),
        metrics=outcome.metrics,
        configuration=None if number is None else f"{task.method} {number}",
        commit=commit(),
        machine=machine(),
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        origin=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        arrays=outcome.arrays,
    )


def run(
    experiment: Experiment,
    tasks: Sequence[Task],
    out: Path,
    packed: Path | None = None,
    *,
    engine: str = "serial",
    processes: int = 1,
    console: Console | None = None,
) -> list[Failure]:
    """Does the tasks whose runs are missing; returns those that failed.

    Args:
        out, packed: the folder for the runs, and one with tables of others that need not be done again.
        engine: "serial"; "joblib" in this many processes of this machine; "ray" on the cluster that `ray.init` finds,
            whose machines share the folder.
    """
    config.known([engine], ENGINES, "An engine")
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    todo = missing(tasks, out, packed)
    workers = {"serial": _serial, "joblib": _joblib, "ray": _ray}[engine]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    failures = []
    with Progress(*columns, console=console or Console(stderr=True)) as bar:
        line = bar.add_task(experiment.name, total=sum(len(task.seeds) for task in todo))
        for task, failure in workers(experiment, todo, out, processes):
            bar.update(line, advance=len(task.seeds), description=task.name)
            failures += [] if failure is None else [failure]
    return failures


Ended = Iterator[tuple[Task, Failure | None]]


def _serial(experiment: Experiment, tasks: Sequence[Task], out: Path, processes: int) -> Ended:
    for task in tasks:
        yield task, carry_out(experiment, task, out)


def _joblib(experiment: Experiment, tasks: Sequence[Task], out: Path, processes: int) -> Ended:
    from joblib import Parallel, delayed

    def numbered(number: int) -> tuple[int, Failure | None]:
        return number, carry_out(experiment, tasks[number], out)

    parallel = Parallel(n_jobs=processes, return_as="generator_unordered")
    for number, failure in parallel(delayed(numbered)(number) for number in range(len(tasks))):
        yield tasks[number], failure


def _ray(experiment: Experiment, tasks: Sequence[Task], out: Path, processes: int) -> Ended:
    """A task whose worker dies is done again, a few times; what it had written is not."""
    import ray

    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    remote = ray.remote(max_retries=ATTEMPTS - 1)(_again)
    waiting = {remote.remote(experiment, task, out): task for task in tasks}
    while waiting:
        (done,), _ = ray.wait(list(waiting), num_returns=1)
        task = waiting.pop(done)
        try:
            failure = ray.get(done)
        except ray.exceptions.RayError as error:
            failure = Failure(task, str(error))
        yield task, failure


def _again(experiment: Experiment, task: Task, out: Path) -> Failure | None:
    """Does what a worker that was lost has left of a task."""
    left = missing([task], out)
    return carry_out(experiment, left[0], out) if left else None


# -- where it runs -----------------------------------------------------------------------------------------------------


@cache
def commit() -> str | None:
    """Returns the commit of the source, with a mark where files differ from it; None outside a repository."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


@cache
def machine() -> dict[str, Any]:
    """Returns the processor, the cores this process may use, the accelerator, and the versions that results follow."""
    import keras

    import singularbayes

    backend = keras.backend.backend()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    found = {"cpu": _cpu(), "cores": usable, "system": f"{platform.system()} {platform.machine()}"}
    if backend == "jax":
        import jax

        found |= {} if jax.default_backend() == "cpu" else {"accelerator": jax.devices()[0].device_kind}
    versions = {
        "singularbayes": singularbayes.__version__,
        "keras": keras.__version__,
        "python": platform.python_version(),
    }
    return found | {"versions": versions | {backend: _version(backend)}}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # one module, several wheels: tensorflow-cpu is TensorFlow too
        return metadata.version(metadata.packages_distributions()[package][0])


def _cpu() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor()
    )


# -- tuning ------------------------------------------------------------------------------------------------------------


def choices(
    experiment: Experiment, tasks: Sequence[Task], out: Path, packed: Path | None = None
) -> dict[tuple[str, str], int | None]:
    """Returns the configuration that runs of tuning choose by task and method, where all of them are there."""
    scores = records.connect(*([packed] if packed else []), out)
    found: dict[tuple[str, str], int | None] = {}
    for name, method in dict.fromkeys((task.task, task.method) for task in tasks):
        own = [task for task in tasks if (task.task, task.method) == (name, method)]
        rows = scores.execute(
            "SELECT configuration, seed, list(metric), list(value) FROM scores WHERE stage = 'tuning' AND counts "
            "AND experiment = ? AND task = ? AND method = ? AND preset = ? "
            "AND starts_with(configuration, method || ' ') GROUP BY ALL",
            [experiment.name, name, method, own[0].preset],
        ).fetchall()
        runs: study.Runs = {
            (int(place.split()[-1]), seed): dict(zip(*each, strict=True)) for place, seed, *each in rows
        }
        wanted: study.Runs = {
            key: runs.get(key, {}) for task in own for key in zip(task.configurations, task.seeds, strict=True)
        }
        if all(wanted.values()):
            found[name, method] = study.choose(experiment, own[0].preset, method, wanted, name)
    return found
