"""Results in one minute: data sets × methods in one table, one sentence, where low rank loses, what to keep in mind.

Every number is computed from records. Differences are paired over seeds; bold needs a paired 95 % interval without 0.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from singularbayes_experiments.methods.protocol import Paired, paired, standard_error
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.rows import listed
from singularbayes_experiments.report.text import difference, number

TITLE = "Results in one minute"
METHODS = {
    "deterministic": "deterministic",
    "deep_ensemble": "deep ensemble of 5",
    "full_rank": "full-rank",
    "low_rank": "low-rank",
    "low_rank_ensemble": "low-rank ensemble of 5",
}
RIVALS = ("deep_ensemble", "full_rank", "deterministic")
_PAIRS = (("low_rank_ensemble", "deep_ensemble"), ("low_rank", "deterministic"))  # of the first sentence
NO_INTERVAL = "no interval"
DISCLOSURES = (
    "Settings are tuned on validation data, with the same number of configurations for every tuned method; low-rank "
    "ensembles on SST-2 and Beijing have the settings of their members. These runs are older than the [tuning "
    "protocol](../protocol.md).",
    "Not everything was blind. The second four configurations of MNIST and Fashion-MNIST, and the last two of SST-2, "
    "were written after test scores of the first were known. On the toy and on Beijing, test scores of other "
    "configurations had been looked at. The SVD-initialised network on SST-2, the learned rank on MNIST and the CNN "
    "were tuned after a first run whose test scores were known. Training on all rows of SST-2, and its "
    "SVD-initialised ensemble, were added when the scores of the runs that they build on were known. The code of each "
    "experiment names them.",
)


@dataclass(frozen=True)
class DataSet:
    """A row of the table: an experiment with its tuned settings, and the metrics that it shows.

    Args:
        ood: the AUROC by which uncertainty tells out-of-distribution inputs; empty where there are none.
    """

    experiment: str
    title: str
    nll: str
    ood: str = ""
    decimals: int = 3

    @property
    def by_total(self) -> str:
        """The AUROC by the uncertainty that a deterministic network has too: entropy, in regression the total one."""
        return self.ood.replace("_mi", "_entropy").replace("_epistemic", "_total")

    def page(self) -> str:
        return f"{self.experiment}.md"


DATA_SETS = (
    DataSet("toy", "toy regression", "nll_near"),
    DataSet("mnist", "MNIST", "nll", "fashion_mnist/auroc_ood_mi", 4),
    DataSet("fashion_mnist", "Fashion-MNIST", "nll", "mnist/auroc_ood_mi", 4),
    DataSet("cnn", "CNN (Fashion-MNIST)", "nll", "mnist/auroc_ood_mi", 4),
    DataSet("sst2", "SST-2", "nll", "auroc_ood_mi"),
    DataSet("beijing", "Beijing PM2.5", "nll_total", "auroc_ood_epistemic"),
    DataSet("icu", "intensive care", "nll", "auroc_ood_mi", 4),
)


@dataclass(frozen=True)
class OtherRound:
    """The results of what another round of tuning chose than that of the table: its NLL by seed."""

    round: int
    nll: Mapping[Any, float]

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.nll.values())))


@dataclass(frozen=True)
class Scores:
    """The scores of all methods on one data set, run by run.

    Args:
        incomplete: a method in a round that does not count.
        given_up: an earlier choice of a method that validation gave up for one that is worse on test data.
        start: the ensemble at which the SVD-initialised mixture starts, where it is not the one of the table.
        cost: the multiplications of a method's training as a multiple of the deterministic network's.
        at_edge: how many choices lie at an edge of what was tried, and how many there are.
        rounds: how many rounds of tuning a method's choice is from.
    """

    data: DataSet
    runs: Mapping[str, Mapping[Any, Record]]  # method → seed → record
    incomplete: Mapping[str, OtherRound] = field(default_factory=dict)
    given_up: Mapping[str, OtherRound] = field(default_factory=dict)
    start: OtherRound | None = None
    cost: Mapping[str, float] = field(default_factory=dict)
    at_edge: tuple[int, int] = (0, 0)
    rounds: Mapping[str, int] = field(default_factory=dict)

    def values(self, method: str, metric: str) -> list[float]:
        """Returns a metric of all runs of a method; none where some lack it or diverged."""
        found = [one.metrics.get(metric, math.nan) for one in self.runs.get(method, {}).values()]
        return [float(value) for value in found] if np.isfinite(found).all() else []

    def mean(self, method: str, metric: str) -> float:
        return float(np.mean(self.values(method, metric)))

    def difference(self, ours: str, theirs: str, metric: str) -> Paired | None:
        """Returns `ours` less `theirs` in the runs that both have; None where one diverged, or for fewer than two."""
        first, second = (self.runs.get(method, {}) for method in (ours, theirs))
        keys = [key for key in first if key in second]
        values = [[runs[key].metrics.get(metric, math.nan) for key in keys] for runs in (first, second)]
        return paired(*values) if len(keys) > 1 and np.isfinite(values).all() else None

    def best(self, metric: str, higher: bool) -> str | None:
        """Returns the method with the best mean, if its paired intervals to all others exclude 0."""
        means = {name: np.mean(values) for name in self.runs if (values := self.values(name, metric))}
        if len(means) < 2:
            return None
        first = (max if higher else min)(means, key=lambda name: means[name])
        found = [self.difference(first, other, metric) for other in means if other != first]
        return first if all(each is not None and each.side(higher) == "better" for each in found) else None

    def cell(self, method: str) -> str:
        """Returns NLL, AUROC-OOD and parameters of a method, a line each."""
        return "<br>".join(self.cell_lines(method)) or "–"

    def cell_lines(self, method: str) -> list[str]:
        """Returns these lines; none where the method has no NLL."""
        nll = self.values(method, self.data.nll)
        if not nll:
            return []
        lines = [shown_mean(nll, self.data.decimals, self.best(self.data.nll, higher=False) == method)]
        ood = self.values(method, self.data.ood) if self.data.ood else []
        if ood:
            lines.append(shown_mean(ood, 3, self.best(self.data.ood, higher=True) == method))
        first = next(iter(self.runs[method].values()))
        stored = first.parameters if first.stored is None else first.stored
        return [*lines, short_count(stored)]

    @cached_property
    def parameters(self) -> dict[str, int]:
        """Returns the stored parameters of every method."""
        first = {name: next(iter(runs.values())) for name, runs in self.runs.items() if runs}
        return {name: one.parameters if one.stored is None else one.stored for name, one in first.items()}


def collect(records: Sequence[Record]) -> list[Scores]:
    """Returns the scores of every data set that has tuned runs of two methods or more."""
    found = []
    for data in DATA_SETS:
        runs: dict[str, dict[Any, list[Record]]] = {}
        for one in records:
            if one.experiment == data.experiment and one.preset == "chosen" and one.method in METHODS:
                runs.setdefault(one.method, {}).setdefault(one.seed, []).append(one)
        if len(runs) > 1:
            means = {name: {seed: _mean(own) for seed, own in seeds.items()} for name, seeds in runs.items()}
            found.append(Scores(data, means))
    return found


def _mean(records: Sequence[Record]) -> Record:
    """Returns the first record with the means of the metrics of all, which are the shifts of one seed."""
    values = {name: [one.metrics.get(name) for one in records] for name in records[0].metrics}
    means = {name: float(np.mean(every)) for name, every in values.items() if None not in every}  # type: ignore[arg-type]
    return replace(records[0], metrics=means)


def headline(scores: Sequence[Scores]) -> str:
    """Returns how a low-rank ensemble compares with a deep ensemble, and one low-rank network with one network."""
    modes, single = (_verdicts_of_both(scores, *pair) for pair in _PAIRS)
    shares = [
        each.parameters["low_rank_ensemble"] / each.parameters["deep_ensemble"]
        for each in scores
        if {"low_rank_ensemble", "deep_ensemble"} <= each.parameters.keys()
    ]
    if not shares:
        return "There are no tuned runs of low-rank ensembles and deep ensembles to compare."
    missing = [
        f"{METHODS[ours]} against {METHODS[theirs]} on {', '.join(found[NO_INTERVAL])}"
        for (ours, theirs), found in zip(_PAIRS, (modes, single), strict=True)
        if NO_INTERVAL in found
    ]
    without = f" Without an interval: {'; '.join(missing)}." if missing else ""
    return (
        f"A low-rank ensemble of five has a lower NLL than a deep ensemble of five on {len(modes['better'])} of "
        f"{sum(map(len, modes.values()))} data sets and a higher one on {len(modes['worse'])}, with "
        f"{100 * min(shares):.0f} to {100 * max(shares):.0f} % of its parameters. One low-rank network has a lower "
        f"NLL than one deterministic network on {len(single['better'])} of {sum(map(len, single.values()))} and a "
        f"higher one on {len(single['worse'])}. Lower and higher mean that a paired 95 % "
        f"interval over seeds excludes zero.{without}"
    )


def _verdicts_of_both(scores: Sequence[Scores], ours: str, theirs: str) -> dict[str, list[str]]:
    return verdicts([each for each in scores if {ours, theirs} <= each.runs.keys()], ours, theirs)


def losses(scores: Sequence[Scores]) -> list[str]:
    """Returns a line per comparison that low rank loses: a paired 95 % interval on the wrong side of 0."""
    lines = []
    for ours, theirs in (
        ("low_rank_ensemble", "deep_ensemble"),
        ("low_rank", "deep_ensemble"),
        ("low_rank", "deterministic"),
        ("low_rank", "full_rank"),
    ):
        for each in scores:
            for metric, name, higher in ((each.data.nll, "NLL", False), (each.data.ood, "AUROC-OOD", True)):
                found = each.difference(ours, theirs, metric) if metric else None
                if found and found.side(higher) == "worse":
                    lines.append(
                        f"- [{each.data.title}]({each.data.page()}): {METHODS[ours]} against {METHODS[theirs]}, {name} "
                        f"{difference(found)}"
                    )
    return lines


def differences(scores: Scores) -> list[str]:
    """Returns the table of paired differences of low rank to its rivals; none where no two runs pair."""
    rows = []
    for ours in ("low_rank", "low_rank_ensemble"):
        for metric, name, higher in ((scores.data.nll, "NLL", False), (scores.data.ood, "AUROC-OOD", True)):
            found = [scores.difference(ours, theirs, metric) if metric else None for theirs in RIVALS]
            if any(found):
                cells = [_difference(each, scores.data.decimals, higher) for each in found]
                rows.append(f"| {' | '.join([f'{METHODS[ours]}, {name}', *cells])} |")
    return [*head([METHODS[theirs] for theirs in RIVALS]), *rows] if rows else []


def _difference(found: Paired | None, decimals: int, higher_is_better: bool) -> str:
    if found is None:
        return "–"
    side = found.side(higher_is_better)
    return difference(found, decimals) + ("" if side == "level" else f" {side}")


def table(scores: Sequence[Scores], methods: Sequence[str] = tuple(METHODS), folder: str = "") -> list[str]:
    """Returns the lines of the table of some methods; links lead to pages in the folder."""
    shown = [name for name in methods if any(name in each.runs for each in scores)]
    lines = head([METHODS[name] for name in shown])
    for each in scores:
        cells = [f"[{each.data.title}]({folder}{each.data.page()})", *(each.cell(name) for name in shown)]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def short_count(parameters: int) -> str:
    """Returns a number of parameters in thousands or millions.

    >>> short_count(7_203), short_count(36_015), short_count(1_229_050)
    ('7,203', '36 k', '1.2 M')
    """
    if parameters < 10_000:
        return f"{parameters:,}"
    return f"{parameters / 1e6:.1f} M" if parameters >= 1e6 else f"{parameters / 1e3:.0f} k"


def head(names: Sequence[str]) -> list[str]:
    """Returns the first lines of a table with a column per name."""
    return [f"| | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]


def verdicts(scores: Sequence[Scores], ours: str, theirs: str) -> dict[str, list[str]]:
    """Returns the data sets on which the NLL of one method is better, worse or level, by paired intervals.

    Those without an interval, because a run diverged or one of both was not run, are `NO_INTERVAL`, if there are any.
    """
    found: dict[str, list[str]] = {"better": [], "worse": [], "level": []}
    for each in scores:
        apart = each.difference(ours, theirs, each.data.nll)
        found.setdefault(NO_INTERVAL if apart is None else apart.side(), []).append(each.data.title)
    return found


def counted(found: Mapping[str, Sequence[str]]) -> str:
    """Returns the verdicts as words; data sets without an interval are named.

    >>> counted({"better": ["MNIST"], "worse": [], "level": ["toy", "yacht"]})
    'better on 1, level on 2 and worse on 0'
    """
    sides = [f"{side} on {len(found[side])}" for side in ("better", "level", "worse")]
    missing = found.get(NO_INTERVAL, ())
    return listed([*sides, *([f"without an interval on {len(missing)} ({', '.join(missing)})"] if missing else [])])


def shown_mean(values: Sequence[float], decimals: int, bold: bool) -> str:
    mean = number(float(np.mean(values)), decimals)
    text = f"**{mean}**" if bold else mean
    return f"{text}\u00a0±\u00a0{number(standard_error(values), decimals)}" if len(values) > 1 else text
