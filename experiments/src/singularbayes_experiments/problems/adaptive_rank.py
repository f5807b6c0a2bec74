"""A rank that is learned in one run against a sweep of ranks, on MNIST: which validates better?

The network, the data and the settings are those that MNIST's tuning runs chose for `low_rank`; only the ranks of the
hidden weights differ. `low_rank_auto` starts with 64 columns in each of them and shares no choice with the sweep but
those settings. The question was fixed before any run: is its validation NLL within one standard error (three seeds) of
that of the best rank? The sweep is judged by the same validation images that name its best rank, which is in its
favour; the learned rank by those that chose its configuration, which is in its favour.

The ranks of the sweep were not fixed before: 5, 10, 25, 50, 100 became 4, 8, 16, 32, 64, so that none is above the
64 columns of the learned rank, after small networks were tried (100 units, 4,000 images, 12 epochs, 2,000 of these
validation images). Because 64 was the best of them, 100 was run after all, when the second learned rank was known.

A first learned rank, with the very settings of `low_rank`, was not within a standard error (0.0576 against 0.0545 ±
0.0015; it kept 28, 10 and 9 columns) and was behind on test images too. `low_rank` had been tried with eight
configurations and it with none. So it got eight, written down after that result and before any was run: three weights
of the KL, and lower bars for switching a column off, tried with the two seeds of all trials. The best of them is the
default of `AdaptiveLowRank` since.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from singularbayes_experiments.methods import methods
from singularbayes_experiments.methods.configurations import Changes, Configurations
from singularbayes_experiments.methods.experiment import Experiment
from singularbayes_experiments.problems import images, mnist
from singularbayes_experiments.problems.images import QUICK
from singularbayes_experiments.records.record import Record

RANKS = (4, 8, 16, 32, 64, 100)
METHODS = methods.sentences(*(f"low_rank_{rank}" for rank in RANKS), "low_rank_auto")


def learned(bars: Mapping[float, Sequence[float]]) -> dict[str, Changes]:
    """Returns configurations of a learned rank by name: the tolerances of each weight of the KL."""
    return {
        f"beta {beta:g}, tolerance {bar:g}": {"beta": beta, "tolerance": bar}
        for beta, each in bars.items()
        for bar in each
    }


@dataclass(frozen=True)
class AdaptiveRankSettings(images.ImageSettings):
    """Those of MNIST, and how a rank is learned."""

    max_rank: int = 64
    tolerance: float = 0.01


SWEPT = mnist.TUNED["low_rank"]
BARS = {0.1: (0.05, 0.01, 0.001), 0.03: (0.05, 0.01), 0.3: (0.05, 0.01, 0.001)}  # tolerances by the weight of the KL
CONFIGURATIONS = Configurations(AdaptiveRankSettings(**asdict(SWEPT)), {"low_rank_auto": learned(BARS)})
# The configuration with the least validation NLL: experiments/results/adaptive_rank_trials.jsonl.
CHOICE = {"low_rank_auto": "beta 0.1, tolerance 0.01"}
TUNED = dict.fromkeys(METHODS, SWEPT) | CONFIGURATIONS.tuned(CHOICE)
SMALL = replace(QUICK, num_train=2000, num_validation=1000, units=(100, 100))
EXPERIMENT = Experiment(
    summary="A rank that is learned in one run against a sweep of ranks, on MNIST. Not in the paper.",
    problem=images.ImageProblem("adaptive_rank", "mnist", ood=("fashion_mnist",), methods=METHODS),
    presets={
        "chosen": TUNED,
        "quick": dict.fromkeys(METHODS, SMALL) | {"low_rank_auto": AdaptiveRankSettings(**asdict(SMALL))},
    },
    configurations=CONFIGURATIONS,
    choice=CHOICE,
)


@dataclass(frozen=True)
class Verdict:
    """The best of the sweep by validation NLL, with its standard error over seeds, and the learned rank beside it."""

    best: str
    nll: float
    error: float
    learned: float
    ranks: dict[str, list[int]]  # that were learned, by the number of the weight, one per seed

    @property
    def within(self) -> bool:
        """Whether the learned rank's NLL is at most one standard error above the best's."""
        return self.learned <= self.nll + self.error

    def __str__(self) -> str:
        text = "within" if self.within else "not within"
        return (
            f"Validation NLL: {self.nll:.4f} ± {self.error:.4f} for the best fixed rank, {self.best}, and "
            f"{self.learned:.4f} for the learned one, {text} one standard error. {_in_words(list(self.ranks.values()))}"
        )


def _in_words(ranks: list[list[int]]) -> str:
    """Returns the learned ranks of all seeds, weight after weight; of many weights those above 1.

    >>> _in_words([[28, 27], [10, 9]])
    'Learned ranks, weight by weight, one per seed: 28, 27; 10, 9.'
    >>> _in_words([[3, 2]] + 11 * [[1, 1]])
    'Learned ranks, one per seed: 1 in 11 of 12 weights; of weight 1: 3, 2.'
    """
    if len(ranks) <= 10:
        return f"Learned ranks, weight by weight, one per seed: {'; '.join(map(_listed, ranks))}."
    more = [f"of weight {i}: {_listed(each)}" for i, each in enumerate(ranks, start=1) if max(each) > 1]
    return (
        f"Learned ranks, one per seed: {'; '.join([f'1 in {len(ranks) - len(more)} of {len(ranks)} weights', *more])}."
    )


def _listed(each: list[int]) -> str:
    return ", ".join(map(str, each))


def verdict(records: Iterable[Record]) -> Verdict:
    """Returns how the learned rank compares; all methods need the same seeds, two or more."""
    nll: dict[str, dict[int, float]] = defaultdict(dict)
    ranks: dict[str, list[int]] = defaultdict(list)
    for record in sorted(records, key=lambda one: one.seed):
        nll[record.method][record.seed] = record.metrics["validation_nll"]
        for name, value in record.metrics.items():
            if name.startswith("learned_rank_"):
                ranks[name.removeprefix("learned_rank_")].append(int(value))
    learned = nll.pop("low_rank_auto", {})
    seeds = {method: sorted(found) for method, found in {**nll, "low_rank_auto": learned}.items()}
    if not nll or len({tuple(each) for each in seeds.values()}) != 1 or len(learned) < 2:
        raise ValueError(f"verdict needs all ranks and low_rank_auto with the same seeds, two or more; got {seeds}.")
    best = min(nll, key=lambda method: float(np.mean(list(nll[method].values()))))
    values = np.array(list(nll[best].values()))
    error = float(values.std(ddof=1) / math.sqrt(len(values)))
    return Verdict(best, float(values.mean()), error, float(np.mean(list(learned.values()))), dict(ranks))
