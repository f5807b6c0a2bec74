"""What scores of one deterministic network detect, in sentences of docs/when_not.md, from experiments/results.

python docs/scripts/when_not.py
"""

import textwrap
from pathlib import Path

from marks import fill
from singularbayes_experiments.records import record
from singularbayes_experiments.report.names import SIMPLE
from singularbayes_experiments.report.remarks import Means

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"
FILES = ("network_detectors.jsonl", "simple_detectors.jsonl", "beijing.jsonl")
NUMBERS = ("no", "one", "two", "three", "four")
HELD_OUT = "held_out/auroc_ood"
TEXTS = {"low_rank_texts": "one low-rank network", "deep_ensemble_texts": "a deep ensemble of five"}


def sentences() -> str:
    """Returns where a Mahalanobis distance in the last hidden layer is ahead of uncertainty, and where it is not."""
    means = Means([one for name in FILES for one in record.read(RESULTS / name)])

    def score(experiment: str, method: str, metric: str) -> str:
        return f"{means(experiment, method, metric, SIMPLE):.3f}"

    def seeds(experiment: str) -> str:
        runs = means.runs(experiment, "mahalanobis", SIMPLE)
        return f"({NUMBERS[len({one.seed for one in runs if HELD_OUT in one.metrics})]} seeds)"

    lines = [
        "A Mahalanobis distance in the last hidden layer of one deterministic network (`metrics.MahalanobisDistance`)",
        "separates MNIST from Fashion-MNIST with an AUROC of",
        f"{score('fashion_mnist', 'mahalanobis', 'mnist/auroc_ood')},",
        "and two classes of Fashion-MNIST that were held out of training with",
        f"{score('fashion_mnist', 'mahalanobis', HELD_OUT)}, where one low-rank network has",
        f"{score('fashion_mnist', 'low_rank_held_out', f'{HELD_OUT}_mi')} {seeds('fashion_mnist')}. On MNIST with two",
        f"classes held out it is the other way round: {score('mnist', 'mahalanobis', HELD_OUT)} against",
        f"{score('mnist', 'low_rank_held_out', f'{HELD_OUT}_mi')} {seeds('mnist')}, and max-softmax has",
        f"{score('mnist', 'max_softmax', HELD_OUT)}. On Beijing's air the distance detects Guangzhou with",
        f"{score('beijing', 'mahalanobis', 'auroc_ood')}; the best uncertainty of a network or an ensemble there has",
        f"{means.best('beijing', 'auroc_ood_epistemic'):.3f}.",
    ]
    pair = "product_reviews/auroc_ood"
    found = {words: means.runs("sst2", name, SIMPLE) for name, words in TEXTS.items()}
    if means.runs("sst2", "mahalanobis", SIMPLE):
        once = {words: " (one seed)" if len(runs) == 1 else "" for words, runs in found.items()}
        more = [
            f"{words} {score('sst2', runs[0].method, f'{pair}_mi')}{once[words]}"
            for words, runs in found.items()
            if runs
        ]
        lines += [
            "Reviews of products are separated from reviews of films by that distance with",
            f"{score('sst2', 'mahalanobis', pair)},",
            f"by max-softmax with {score('sst2', 'max_softmax', pair)}, by rare words with",
            f"{score('sst2', 'word_rarity', pair)}" + (f"; by mutual information: {', '.join(more)}." if more else "."),
        ]
    return textwrap.fill(" ".join(lines), 120, break_on_hyphens=False)


if __name__ == "__main__":
    fill(ROOT / "docs" / "when_not.md", "detectors", sentences())
