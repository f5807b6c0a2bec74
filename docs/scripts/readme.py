"""The table of results in README.md, from experiments/results: the columns of docs/results/index.md that it shows.

python docs/scripts/readme.py
"""

from pathlib import Path

from marks import fill
from singularbayes_experiments.report import reading, summary

ROOT = Path(__file__).parents[2]
COLUMNS = ("deterministic", "deep_ensemble", "low_rank", "low_rank_ensemble")


def table() -> str:
    """Returns the table of README.md."""
    scores = summary.collect(reading.read(ROOT / "experiments" / "results"))
    lines = summary.table(scores, COLUMNS, folder="docs/results/")
    return "\n".join(lines)


if __name__ == "__main__":
    fill(ROOT / "README.md", "results", table())
