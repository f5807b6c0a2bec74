"""The table of results in README.md, from the records: python docs/scripts/readme.py."""

from pathlib import Path

import pandas as pd
from marks import fill
from singularbayes_experiments import records
from singularbayes_experiments.report.render import markdown
from singularbayes_experiments.report.results import ENSEMBLE, Numbers
from singularbayes_experiments.report.studies import input_only
from singularbayes_experiments.report.tables import Problem, name, number, spread

ROOT = Path(__file__).parents[2]
SHOWN = ("sst2", "beijing", "icu", "cnn", "mnist", "fashion_mnist", "toy")
METHODS = ("deterministic", ENSEMBLE, "low_rank", "mixture_repeat", "mixture_svd")
OURS = ("mixture_repeat", "mixture_svd", "low_rank")


def results(numbers: Numbers) -> str:
    """Returns the table, and on how many problems a method is better than the ensemble or worse."""
    rows = {}
    for experiment in SHOWN:
        own = Problem(numbers, experiment)
        row = {name(m): spread(own.mean(m), numbers.error(*own.key, m, "nll"), own.places) for m in METHODS}
        found = [own.detects(m) for m in (ENSEMBLE, "mixture_repeat")] if own.ood else []
        baseline = f" ({number(input_only(numbers, experiment)[1])})" if own.ood else "–"
        row["AUROC-OOD: ensemble → mixture (input alone)"] = " → ".join(found) + baseline
        row["parameters of the mixture"] = own.share("mixture_repeat")
        rows[f"[{name(experiment)}](docs/results/{experiment}.md)"] = row
    table = markdown(pd.DataFrame.from_dict(rows, orient="index"))
    counts = [
        {method: numbers.sides(method, ENSEMBLE, "nll", group) for method in OURS} for group in ("smaller", "larger")
    ]
    shown = [
        "; ".join(f"{name(m)} better on {len(own['better'])}, worse on {len(own['worse'])}" for m, own in each.items())
        for each in counts
    ]
    return (
        f"{table}\n\nNLL against the ensemble's by paired 95 % intervals, on these {len(SHOWN)}: {shown[0]}. On nine "
        f"small tables, where a mixture has more parameters: {shown[1]}. On the others there is no clear difference, "
        "which is no proof of equality."
    )


if __name__ == "__main__":
    fill(ROOT / "README.md", "results", results(Numbers(records.connect())))
