"""The command line of the experiments. Keras is imported by the commands that train, not by `--help`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

import singularbayes

app = App(
    name="singularbayes-experiments",
    help="The experiments of the paper and those beyond it.",
    version=singularbayes.__version__,
)
Changes = Annotated[list[str] | None, Parameter(name="--set", negative="", consume_multiple=False)]


@app.command(name="list")
def list_experiments() -> None:
    """Show the experiments with their presets and methods."""
    from rich.console import Console
    from rich.table import Table

    from singularbayes_experiments import config

    table = Table("experiment", "preset", "methods", "what it is about")
    for name in config.names():
        experiment = config.read(name)
        for preset in experiment.presets:
            table.add_row(name, preset, ", ".join(experiment.methods(preset)), experiment.summary)
    Console().print(table)


@app.command
def run(
    experiment: str,
    /,
    *,
    preset: str = "protocol",
    stage: str = "result",
    tasks: str | None = None,
    methods: str | None = None,
    seeds: str | None = None,
    changes: Changes = None,
    out: Path = Path("runs"),
    engine: str = "serial",
    processes: int = 1,
) -> int:
    """Train an experiment's methods; one file in --out for every run. Runs that are there are skipped.

    Parameters
    ----------
    experiment
        The name of an experiment; `singularbayes-experiments list` shows them.
    preset
        paper, protocol (tuned) or quick, where the experiment has it.
    stage
        tuning (the grid, scored on validation data alone) or result.
    tasks
        Tasks with commas between, such as the tables of uci; by default those of the preset.
    methods
        Methods with commas between, such as low_rank,full_rank; by default those of the preset.
    seeds
        Seeds, such as 0,1 or 2-6; by default those of the file.
    changes
        Another value of one setting, such as beta=0.3; may be given more than once.
    out
        Folder for the records.
    engine
        serial, joblib (--processes of this machine) or ray (a cluster whose machines share --out).
    """
    from singularbayes_experiments import config
    from singularbayes_experiments import run as runner
    from singularbayes_experiments.problems.base import RESULT, TUNING

    found = config.read(experiment)
    config.known([stage], (TUNING, RESULT), "A stage")
    todo = found.runs_of(
        preset,
        stage,
        tasks=_names(tasks),
        methods=_names(methods),
        seeds=parse_seeds(seeds),
        changes=parse_changes(changes or ()),
    )
    failures = runner.run(found, todo, out, engine=engine, processes=processes)
    for failure in failures:
        print(f"{failure.task.name} failed:\n{failure.error}", file=sys.stderr)
    return 1 if failures else 0


@app.command
def tune(experiment: str, /, *, methods: str | None = None, out: Path = Path("runs"), preset: str = "protocol") -> int:
    """Train every configuration of the grids, and print the choice of each method, as the YAML file has it.

    Parameters
    ----------
    experiment
        The name of an experiment.
    methods
        Methods with commas between; by default those of the preset.
    out
        Folder for the records.
    preset
        The preset whose grids are trained.
    """
    from singularbayes_experiments import config
    from singularbayes_experiments import run as runner
    from singularbayes_experiments.problems.base import TUNING

    failed = run(experiment, preset=preset, stage=TUNING, methods=methods, out=out)
    found = config.read(experiment)
    for (task, method), place in runner.choices(found, preset, out, _names(methods)).items():
        print(f"{task} {method}: {{choice: {'null' if place is None else place}}}")
    return failed


@app.command
def pack(out: Path = Path("runs"), /) -> None:
    """Add the records of a folder to the tables of the repository.

    Parameters
    ----------
    out
        The folder.
    """
    from singularbayes_experiments import records

    print(f"{records.pack(out)} new runs in {records.RESULTS}")


data = App(name="data", help="Data sets: what there is, where it lies, and whether it is whole.", version_flags=())
app.command(data)


@data.command(name="list")
def list_data() -> None:
    """Show every data set: what it is, its licence, its size unpacked, and where it was found."""
    from rich.console import Console
    from rich.table import Table

    from singularbayes_experiments.data import files

    table = Table("set", "what it is", "licence", "MB", "where")
    for source in files.SETS.values():
        size = sum(size for size, _ in source.files.values())
        table.add_row(source.name, source.what, source.licence, f"{size / 1e6:.1f}", _where(source))
    Console().print(table)


@data.command
def fetch(name: str, /, *names: str) -> int:
    """Download what is missing of data sets into the cache; a damaged file there is replaced.

    Parameters
    ----------
    name
        A data set, as `singularbayes-experiments data list` shows it.
    names
        More of them.
    """
    from singularbayes_experiments.data import files

    for source in _sources((name, *names)):
        for file in source.files:
            path = files.find(source, file)
            if path and path.is_relative_to(files.cache()) and source.base and _wrong(source, file, path):
                path.unlink()
            files.locate(source.name, file)
    return verify(name, *names)


@data.command
def verify(*names: str) -> int:
    """Check the sums of all files found; the exit status is 1 if one is wrong.

    Parameters
    ----------
    names
        Data sets, as `singularbayes-experiments data list` shows them; all of them if none is named.
    """
    from singularbayes_experiments.data import files

    wrong = []
    for source in _sources(names or files.SETS):
        found = [(name, path) for name in source.files if (path := files.find(source, name))]
        bad = [error for name, path in found if (error := _wrong(source, name, path))]
        print(f"{source.name}: {len(found) - len(bad)} of {len(source.files)} files right ({_where(source)})")
        wrong += bad
    print("".join(f"  wrong: {error}\n" for error in wrong), end="")
    return 1 if wrong else 0


def _sources(names) -> list:
    from singularbayes_experiments.data import files

    if unknown := [name for name in names if name not in files.SETS]:
        raise ValueError(f"A data set must be one of {list(files.SETS)}; got {', '.join(unknown)}.")
    return [files.SETS[name] for name in names]


def _where(source) -> str:
    """Returns how many files lie where: "cache 3, to download 1"."""
    from singularbayes_experiments.data import files

    paths = [files.find(source, name) for name in source.files]
    missing = "to download" if source.base else "to get manually"
    where = [missing if p is None else "cache" if p.is_relative_to(files.cache()) else "folder" for p in paths]
    return ", ".join(f"{place} {where.count(place)}" for place in sorted(set(where)))


def _wrong(source, name: str, path: Path) -> Exception | None:
    from singularbayes_experiments.data import files

    try:
        files.check(source, name, path)
    except files.DataError as error:
        return error
    return None


@app.command
def report(*, check: bool = False, latex: bool = False, docs: Path | None = None) -> int:
    """Write the pages and figures of docs/results from the records of the repository.

    Parameters
    ----------
    check
        Write nothing; fail where a page or figure differs.
    latex
        Print the tables of results as LaTeX instead.
    docs
        Folder with the folder `results` of the pages; by default that of the checkout.
    """
    from singularbayes_experiments.report import render

    changed = render.report(docs=docs or render.DOCS, check=check, latex=latex)
    for name in changed:
        print(f"{'differs' if check else 'written'}: {name}")
    return int(check and bool(changed))


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None


def parse_seeds(text: str | None) -> list[int] | None:
    """Returns the seeds of a text.

    >>> parse_seeds("0,2-4")
    [0, 2, 3, 4]
    """
    if text is None:
        return None
    try:
        ends = [[int(end) for end in part.split("-")] for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--seeds must be numbers such as 0,1 or 2-6; got {text!r}.") from None
    return [seed for end in ends for seed in range(end[0], end[-1] + 1)]


def parse_changes(assignments: Sequence[str]) -> Mapping[str, Any]:
    """Returns the settings that `name=value` replaces, the values read as YAML.

    >>> parse_changes(["beta=0.3", "ranks=[4, 2]"])
    {'beta': 0.3, 'ranks': [4, 2]}
    """
    import yaml

    pairs = [assignment.partition("=") for assignment in assignments]
    for (name, equals, _), given in zip(pairs, assignments, strict=True):
        if not (name and equals):
            raise ValueError(f"--set must be name=value, such as beta=0.3; got {given!r}.")
    return {name.strip(): yaml.safe_load(value) for name, _, value in pairs}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `singularbayes-experiments`."""
    from singularbayes.cli import run_app

    return run_app(app, arguments)


if __name__ == "__main__":
    sys.exit(main())
