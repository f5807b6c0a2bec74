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
    """Show the experiments with their presets, and the methods that they share."""
    from rich.console import Console
    from rich.table import Table

    from singularbayes_experiments import config
    from singularbayes_experiments.methods import METHODS

    experiments, methods = Table("experiment", "presets", "what it is about"), Table("method", "what it trains")
    for name in config.names():
        experiments.add_row(name, ", ".join(config.read(name).presets), config.read(name).summary)
    for name in sorted(METHODS):
        methods.add_row(name, METHODS[name].description)
    Console().print(experiments, methods)


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
    again: bool = False,
    engine: str = "serial",
    processes: int = 1,
) -> int:
    """Train an experiment's methods; one file in --out for every run. Runs that are there or packed are skipped.

    Parameters
    ----------
    experiment
        The name of an experiment; `singularbayes-experiments list` shows them.
    preset
        paper, protocol (tuned) or quick, where the experiment has it.
    stage
        result, or tuning: the grid, scored on validation data alone; the choices are printed as YAML has them.
    tasks
        Tasks with commas between, such as the tables of uci; by default those of the preset.
    methods
        Methods with commas between, such as low_rank,full_rank; by default those of the preset.
    seeds
        Seeds, such as 0,1 or 2-6; by default those of the file.
    changes
        Another value of one setting, such as beta=0.3; may be given more than once. The preset is then "own".
    out
        Folder for the records.
    again
        Train packed runs again, too.
    engine
        serial, joblib (--processes of this machine) or ray (a cluster whose machines share --out).
    """
    from singularbayes_experiments import config, records
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
    packed = None if again else records.RESULTS
    failures = runner.run(found, todo, out, packed, engine=engine, processes=processes)
    for failure in failures:
        print(f"{failure.task.name} failed:\n{failure.error}", file=sys.stderr)
    if stage == TUNING and not changes:
        for (task, method), place in runner.choices(found, todo, out, packed).items():
            print(f"{task} {method}: {{choice: {'null' if place is None else place}}}")
    return 1 if failures else 0


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


data = App(name="data", help="Data sets: what there is, and where it lies.", version_flags=())
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
def fetch(name: str, /, *names: str) -> None:
    """Download what is missing of data sets into the cache, and check all their files.

    Parameters
    ----------
    name
        A data set, as `singularbayes-experiments data list` shows it.
    names
        More of them.
    """
    from singularbayes_experiments import config
    from singularbayes_experiments.data import files

    for each in config.known((name, *names), files.SETS, "A data set"):
        for file in files.SETS[each].files:
            files.locate(each, file)
        print(f"{each}: {len(files.SETS[each].files)} files ({_where(files.SETS[each])})")


def _where(source) -> str:
    """Returns how many files lie where: "cache 3, to download 1"."""
    from singularbayes_experiments.data import files

    paths = [files.find(source, name) for name in source.files]
    missing = "to download" if source.base else "to get manually"
    where = [missing if p is None else "cache" if p.is_relative_to(files.cache()) else "folder" for p in paths]
    return ", ".join(f"{place} {where.count(place)}" for place in sorted(set(where)))


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
