"""`singularbayes-experiments tables`: the estimators on tables, beside other libraries."""

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
def compare(out: Out = Path("runs/tables.jsonl"), minutes: Minutes = 600.0, cores: Cores = 2, only: str = "") -> None:
    """Fits our estimators and those of other libraries on tables, with defaults and tuned, and scores test rows.

    Parameters
    ----------
    only
        Methods, separated by semicolons; all if none is given.
    """
    from singularbayes_experiments.problems import table_comparison
    from singularbayes_experiments.runs.tables import run_pieces

    wanted = [piece for piece in table_comparison.pieces() if not only or piece[-1] in only.split(";")]
    left = run_pieces(table_comparison.__name__, wanted, out, minutes, cores)
    print(f"{left} pieces are missing." if left else "All pieces have records.")
