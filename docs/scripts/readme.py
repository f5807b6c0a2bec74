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
BESIDE = ("AUROC-OOD: ensemble → mixture", "parameters: ensemble → mixture")
PAGE = "docs/mixture_results.md"


def table() -> str:
    """Returns the table of README.md: the NLL of every method, and detection and size of the two that average five."""
    found = {each.data.experiment: each for each in modes_summary.collect(RESULTS)}
    lines = summary.head([*METHODS.values(), *BESIDE])
    for scores in (found[name] for name in SETS):
        cells = [modes_summary.cell(scores, method) for method in METHODS]
        nll = [cell.split("<br>")[0] for cell in cells]  # its first line; the summary of results has the others too
        row = [f"[{scores.data.title}]({PAGE})", *nll, *_beside(scores, "deep_ensemble", "mixture_repeat")]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def _beside(scores: summary.Scores, ensemble: str, mixture: str) -> list[str]:
    """Returns the mean AUROC-OOD and the parameters of an ensemble, and those of a mixture."""
    if ensemble not in scores.parameters or mixture not in scores.parameters:
        return ["–", "–"]
    pair = (ensemble, mixture)
    found = [scores.values(method, scores.data.ood) if scores.data.ood else [] for method in pair]
    detection = " → ".join(f"{sum(values) / len(values):.3f}" for values in found) if all(found) else "–"
    return [detection, " → ".join(_counted(scores.parameters[method]) for method in pair)]


def _counted(parameters: int) -> str:
    """Returns a number of parameters in thousands or millions.

    >>> _counted(36_015), _counted(1_229_050)
    ('36 k', '1.2 M')
    """
    return f"{parameters / 1e6:.1f} M" if parameters >= 1e6 else f"{parameters / 1e3:.0f} k"


def results() -> str:
    """Returns the table, and on how many data sets of the protocol a method is better than the ensemble or worse."""
    newer = modes_summary.collect(RESULTS)
    counts = []
    names = {"mixture_repeat": "a mixture", "mixture_svd": "an SVD-initialised mixture", "low_rank": "low-rank"}
    for method, name in names.items():
        found = {side: len(sets) for side, sets in summary.verdicts(newer, method, "deep_ensemble").items()}
        counts.append(f"{name} is better on {found['better']}, level on {found['level']}, worse on {found['worse']}")
    beside = f"NLL beside the ensemble's, by paired 95 % intervals, on {len(newer)} sets (UCI's too, not CIFAR-10)"
    marked = modes_summary.DAGGER.replace(", see below", " ([more](docs/results/index.md))")
    level = "Level means that the interval reaches 0, which is no proof of equality."
    return f"{table()}\n\n{beside}: {'; '.join(counts)}. {level} {marked}"


if __name__ == "__main__":
    fill(ROOT / "README.md", "results", results())
