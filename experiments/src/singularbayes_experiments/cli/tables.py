"""`singularbayes-experiments tables`: the estimators on tables, beside other libraries."""

import time
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

app = App(name="tables", help="The estimators on tables: the search of their defaults, and the comparison.")

Out = Annotated[Path, Parameter(help="File of records, lines of JSON; a second call does what is missing in it.")]
Minutes = Annotated[float, Parameter(help="Fits that have not ended by then are given up.")]
Cores = Annotated[int, Parameter(help="How many processes fit at the same time, each on a core of its own.")]


@app.command
def search(out: Out = Path("runs/table_defaults.jsonl"), minutes: Minutes = 600.0, cores: Cores = 2) -> None:
    """Tries settings of the estimators on training rows of nine regression tables."""
    from singularbayes_experiments.problems import table_defaults
    from singularbayes_experiments.runs.tables import run_pieces

    left = run_pieces(table_defaults.__name__, table_defaults.pieces(), out, minutes, cores)
    print(f"{left} fits are missing." if left else "All fits have records.")


@app.command
def configurations(out: Out = Path("runs/tables/candidates.jsonl"), minutes: Minutes = 600.0, cores: Cores = 2) -> None:
    """Compares configurations for the defaults of the estimators on validation rows of eighteen tables."""
    from singularbayes_experiments.problems import table_configurations
    from singularbayes_experiments.runs.tables import KEPT, read_records, run_pieces

    kept, end = read_records(KEPT / "candidates.jsonl.gz"), time.monotonic() + 60 * minutes
    for stage in table_configurations.OPEN:
        wanted = table_configurations.pieces(stage, [*kept, *read_records(out)])
        rest = (end - time.monotonic()) / 60
        left = run_pieces(table_configurations.__name__, wanted, out, rest, cores, kept)
        print(f"{left} pieces are missing." if left else "All pieces have records.", flush=True)
    for task in table_configurations.TABLES:
        print(f"{task}: {table_configurations.choice([*kept, *read_records(out)], task).label}")


@app.command
def compare(
    out: Out = Path("runs/tables/comparison.jsonl"),
    minutes: Minutes = 600.0,
    cores: Cores = 2,
    only: str = "",
    chosen: Path | None = None,
) -> None:
    """Fits our estimators and those of other libraries on tables, with defaults and tuned, and scores test rows.

    Parameters
    ----------
    only
        Methods, separated by semicolons; all if none is given.
    chosen
        Records of `tables configurations`, by which ours are chosen together with the committed ones.
    """
    from singularbayes_experiments.problems import table_comparison, table_configurations
    from singularbayes_experiments.runs.tables import KEPT, read_records, run_pieces

    records = [*read_records(KEPT / "candidates.jsonl.gz"), *(read_records(chosen) if chosen else ())]
    labels = {task: table_configurations.choice(records, task).label for task in table_configurations.TABLES}
    wanted = [piece for piece in table_comparison.pieces(labels) if not only or piece[3] in only.split(";")]
    known = read_records(KEPT / "comparison.jsonl.gz")
    left = run_pieces(table_comparison.__name__, wanted, out, minutes, cores, known)
    print(f"{left} pieces are missing." if left else "All pieces have records.")


@app.command
def keep(folder: Path = Path("runs/tables")) -> None:
    """Adds what `tables configurations` and `tables compare` left in a folder to the committed records."""
    from singularbayes_experiments.runs.tables import KEPT, keep_records

    for name in ("candidates", "comparison"):
        print(f"{name}: {keep_records(folder / f'{name}.jsonl', KEPT / f'{name}.jsonl.gz')} new records")
