"""The table of results in README.md and what it says, from experiments/results: columns of docs/results/index.md.

python docs/scripts/readme.py
"""

from pathlib import Path

from marks import fill
from singularbayes_experiments.report import modes_summary, summary

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
SETS = ("toy", "mnist", "fashion_mnist", "cnn", "sst2", "beijing", "icu")
METHODS = {name: words for name, words in modes_summary.METHODS.items() if name != "full_rank"}
PAGE = "docs/mixture_results.md"


def table() -> str:
    """Returns the table of README.md."""
    found = {each.data.experiment: each for each in modes_summary.collect(RESULTS)}
    lines = summary.head(list(METHODS.values()))
    for scores in (found[name] for name in SETS):
        cells = [modes_summary.cell(scores, method) for method in METHODS]
        lines.append(f"| {' | '.join([f'[{scores.data.title}]({PAGE})', *cells])} |")
    return "\n".join(lines)


def results() -> str:
    """Returns the table, and on how many data sets of the protocol a method is better than the ensemble or worse."""
    newer = modes_summary.collect(RESULTS)
    counts = []
    names = {"mixture_repeat": "a mixture", "mixture_svd": "an SVD-initialised mixture", "low_rank": "low-rank"}
    for method, name in names.items():
        found = {side: len(sets) for side, sets in summary.verdicts(newer, method, "deep_ensemble").items()}
        counts.append(f"{name} is better on {found['better']}, level on {found['level']}, worse on {found['worse']}")
    beside = f"NLL beside the ensemble's, by paired 95 % intervals, on {len(newer)} sets (UCI's too, not CIFAR-10)"
    return f"{table()}\n\n{beside}: {'; '.join(counts)}."


if __name__ == "__main__":
    fill(ROOT / "README.md", "results", results())
