"""The table of results in README.md and what it says, from experiments/results: columns of docs/results/index.md.

Data sets that the comparison under the tuning protocol does not have are shown with earlier runs, and marked.

python docs/scripts/readme.py
"""

from pathlib import Path

from marks import fill
from singularbayes_experiments.report import modes_summary, reading, summary

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
SETS = ("toy", "mnist", "fashion_mnist", "cnn", "sst2", "beijing", "icu")
# Column → the method under the protocol, and that of earlier runs.
COLUMNS = {
    "deterministic": ("deterministic", "deterministic"),
    "deep ensemble of 5": ("deep_ensemble", "deep_ensemble"),
    "low-rank": ("low_rank", "low_rank"),
    "mixture of 5": ("mixture_repeat", "low_rank_ensemble"),
    "SVD-initialised mixture of 5": ("mixture_svd", ""),
}
PAGE = "docs/mixture_results.md"
MARK = "\\*"


def table() -> str:
    """Returns the table of README.md."""
    newer = {each.data.experiment: each for each in modes_summary.collect(RESULTS)}
    earlier = {each.data.experiment: each for each in summary.collect(reading.read(RESULTS))}
    lines = summary.head(list(COLUMNS))
    for name in SETS:
        if name in newer:
            scores = newer[name]
            title = f"[{scores.data.title}]({PAGE})"
            cells = [modes_summary.cell(scores, method) for method, _ in COLUMNS.values()]
        else:
            scores = earlier[name]
            title = f"[{scores.data.title}](docs/results/{scores.data.page()}) {MARK}"
            cells = [scores.cell(method) for _, method in COLUMNS.values()]
        lines.append(f"| {' | '.join([title, *cells])} |")
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
