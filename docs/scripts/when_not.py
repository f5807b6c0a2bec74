"""What scores without a posterior detect, for docs/when_not.md, from experiments/results.

python docs/scripts/when_not.py
"""

import textwrap
from pathlib import Path

from marks import fill
from singularbayes_experiments.records import record
from singularbayes_experiments.report import modes_summary
from singularbayes_experiments.report.detectors import ONE_SEED, Means, other_pairs_table
from singularbayes_experiments.report.names import SIMPLE

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
FILES = ("network_detectors.jsonl", "simple_detectors.jsonl", "beijing.jsonl")


def sentences() -> str:
    """Returns where a Mahalanobis distance in the last hidden layer is ahead or behind; the table of other pairs."""
    means = Means([one for name in FILES for one in record.read(RESULTS / name)])
    scores = {each.data.experiment: each for each in modes_summary.collect(RESULTS)}
    air, digits = scores["beijing"], scores["mnist"]
    best = max(air.mean(method, air.data.ood) for method in air.runs if air.values(method, air.data.ood))

    def distance(experiment: str, metric: str) -> str:
        return f"{means(experiment, 'mahalanobis', metric, SIMPLE):.3f}"

    words = (
        "A Mahalanobis distance in the last hidden layer of one deterministic network (`metrics.MahalanobisDistance`) "
        "is another such score. It detects images of MNIST in a network for Fashion-MNIST with an AUROC of "
        f"{distance('fashion_mnist', 'mnist/auroc_ood')}, but images of Fashion-MNIST in a network for MNIST with "
        f"{distance('mnist', 'fashion_mnist/auroc_ood')}, less than a mixture of five "
        f"({digits.mean('mixture_repeat', digits.data.ood):.3f}). On Beijing's air it detects Guangzhou with "
        f"{distance('beijing', 'auroc_ood')}, where the best uncertainty of a network or an ensemble has {best:.3f} "
        f"under the [tuning protocol](protocol.md) and {means.best('beijing', 'auroc_ood_epistemic'):.3f} in the "
        "earlier runs. The networks of the table below have the settings of earlier runs, and no mixture and no "
        "full-rank network was run on its pairs:"
    )
    below = (
        "AUROC, of the last columns by mutual information. No network: a number of each example alone, in its better "
        "direction. Max-softmax, "
        f"energy and Mahalanobis: of one deterministic network. {ONE_SEED}"
    )
    first, last = (textwrap.fill(text, 120, break_on_hyphens=False) for text in (words, below))
    return "\n".join([first, "", *other_pairs_table(means), "", last])


if __name__ == "__main__":
    fill(ROOT / "docs" / "when_not.md", "detectors", sentences())
