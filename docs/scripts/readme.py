"""The table of results in README.md and what it says, from experiments/results: columns of docs/results/index.md.

python docs/scripts/readme.py
"""

from collections.abc import Sequence
from pathlib import Path

from marks import fill
from singularbayes_experiments.records import record
from singularbayes_experiments.report import modes_summary, summary
from singularbayes_experiments.report.detectors import best_without_network

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
METHODS = {name: words for name, words in modes_summary.METHODS.items() if name != "full_rank"}
BESIDE = ("AUROC-OOD: ensemble → mixture (no network)", "parameters: ensemble → mixture")
PAGES = "docs/results"
NAMES = {"mixture_repeat": "a mixture", "mixture_svd": "an SVD-initialised mixture", "low_rank": "low-rank"}


def table(scores: Sequence[summary.Scores]) -> str:
    """Returns the table of README.md: the NLL of every method, and detection and size of the two that average five."""
    simple = record.read(RESULTS / "simple_detectors.jsonl")
    lines = summary.head([*METHODS.values(), *BESIDE])
    for each in scores:
        cells = [modes_summary.cell(each, method) for method in METHODS]
        nll = [cell.split("<br>")[0] for cell in cells]  # its first line; the summary of results has the others too
        title = f"[{each.data.title}]({PAGES}/{modes_summary.page_of(each.data)})"
        lines.append(f"| {' | '.join([title, *nll, *_beside(each, simple)])} |")
    return "\n".join(lines)


def _beside(scores: summary.Scores, simple: Sequence[record.Record]) -> list[str]:
    """Returns the mean AUROC-OOD and the parameters of an ensemble, and those of a mixture."""
    pair = ("deep_ensemble", "mixture_repeat")
    plain = best_without_network(scores.data.experiment, simple)
    detection = "–"
    if scores.data.ood and plain:
        detection = f"{' → '.join(f'{scores.mean(name, scores.data.ood):.3f}' for name in pair)} ({plain[1]:.3f})"
    return [detection, " → ".join(summary.short_count(scores.parameters[name]) for name in pair)]


def results() -> str:
    """Returns the table, and on how many data sets of the protocol a method is better than the ensemble or worse."""
    every = modes_summary.collect(RESULTS)
    shown = [each for each in every if each.data.experiment not in modes_summary.UCI]
    small = [each for each in every if each not in shown]
    beside = f"NLL beside the ensemble's on these {len(shown)}, by paired 95 % intervals: {_counts(shown)}"
    tables = f"On {len(small)} small tables, where a mixture has more parameters: {_counts(small)}"
    level = "Level: the interval reaches 0, which is no proof of equality."
    return f"{table(shown)}\n\n{beside}. {tables}. {level} {modes_summary.DAGGER}"


def _counts(scores: Sequence[summary.Scores]) -> str:
    found = {name: summary.verdicts(scores, name, "deep_ensemble") for name in NAMES}
    shown = {name: {side: len(sets) for side, sets in sides.items()} for name, sides in found.items()}
    return "; ".join(
        f"{NAMES[name]} better on {own['better']}, level on {own['level']}, worse on {own['worse']}"
        for name, own in shown.items()
    )


if __name__ == "__main__":
    fill(ROOT / "README.md", "results", results())
