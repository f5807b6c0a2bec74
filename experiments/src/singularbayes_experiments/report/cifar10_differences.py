"""Differences of two methods on CIFAR-10, paired over the seeds that both have, and the tables that show them.

A difference has a 95 % t interval where there are three seeds or more, and is better or worse where that excludes 0.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from singularbayes_experiments.methods import protocol
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.report import text
from singularbayes_experiments.report.cifar10_left_out import missing_methods
from singularbayes_experiments.report.cifar10_scores import (
    ENSEMBLE,
    NAMES,
    OURS,
    ROUNDS,
    Records,
    Rounds,
    count_seeds,
    epochs_of,
    in_millions,
    latest_name,
    mean_cell,
    parameters,
    scores,
    table_lines,
)

LEAST_SEEDS = 3  # of an interval
THEIRS = (ENSEMBLE, "full_rank", "deterministic")
COLUMNS = (
    "epochs",
    "NLL",
    "less the ensemble's [95 %]",
    "corrupted NLL",
    "less the ensemble's [95 %]",
    "accuracy, %",
    "ECE",
    "parameters",
    "seeds",
)


@dataclass(frozen=True)
class Difference:
    """The scores of one method and of another with the seeds that both have."""

    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    higher_is_better: bool = False

    @property
    def mean(self) -> float:
        return float(np.mean(np.subtract(self.ours, self.theirs)))

    @cached_property
    def interval(self) -> protocol.Paired | None:
        return protocol.paired(self.ours, self.theirs) if len(self.ours) >= LEAST_SEEDS else None

    @property
    def verdict(self) -> str:
        """Returns better or worse; "" where there is no interval, or it reaches 0."""
        side = "level" if self.interval is None else self.interval.side(self.higher_is_better)
        return "" if side == "level" else side

    @property
    def side(self) -> str:
        """Returns higher or lower where every seed is; else ""."""
        if np.greater(self.ours, self.theirs).all():
            return "higher"
        return "lower" if np.less(self.ours, self.theirs).all() else ""

    def shown(self, decimals: int = 3, note: str = "") -> str:
        """Returns the mean with its interval, or without one the number of seeds and a note on them.

        An interval that reaches 0 has whether all seeds are on one side.
        """
        if self.interval is None:
            notes = ", ".join([count_seeds(len(self.ours)), *([note] if note else [])])
            return f"{text.signed(self.mean, decimals)} ({notes})"
        one_side = f", all {self.side}" if self.side and not self.verdict else ""
        return f"{text.difference(self.interval, decimals)}{one_side}"

    def cell(self, decimals: int = 3, note: str = "") -> str:
        """Returns the same with the verdict, where there is one.

        >>> Difference((0.3, 0.3, 0.3), (0.1, 0.2, 0.15)).cell(2)
        '+0.15 [+0.03, +0.27] worse'
        >>> Difference((0.3,), (0.1,)).cell()
        '+0.200 (one seed)'
        """
        shown = self.shown(decimals, note)
        return f"{shown} {self.verdict}" if self.verdict else shown


def find_difference(
    records: Records, network: str, ours: str, theirs: str, part: str, score: str = "nll"
) -> Difference | None:
    """Returns a score of one method beside that of another in a round; None without a common seed."""
    own, other = (scores(records, network, method, part, score) for method in (ours, theirs))
    seeds = sorted(own.keys() & other.keys())
    if not seeds:
        return None
    return Difference(
        tuple(own[seed] for seed in seeds), tuple(other[seed] for seed in seeds), score.startswith("auroc")
    )


def latest_difference(rounds: Rounds, network: str, ours: str, part: str, theirs: str = ENSEMBLE) -> Difference | None:
    """Returns the difference in NLL in the last round in which a method has results."""
    name = latest_name(rounds, ours, network)
    return None if name is None else find_difference(rounds[name], network, ours, theirs, part)


def grouped_table(rounds: Rounds, network: str) -> list[str]:
    """Returns a row per method with its last results, grouped by round, each below the ensemble of that round.

    A method that a round planned or tuned without results has a row there, unless a later one has its results.
    """
    latest = {method: latest_name(rounds, method, network) for method in NAMES}
    rows: list[list[str]] = []
    seen: set[str] = set()  # methods of this round and of later ones
    for name, records in rounds.items():
        seen |= {method for method in NAMES if latest[method] == name}
        missing = {each: why for each, why in missing_methods(rounds, name, network).items() if each not in seen}
        seen |= missing.keys()
        methods = [method for method in NAMES if method != ENSEMBLE and (latest[method] == name or method in missing)]
        if methods or latest[ENSEMBLE] == name:
            rows += [_row(records, network, ENSEMBLE, f"*{NAMES[ENSEMBLE]}, {ROUNDS[name]} round*")]
            rows += [
                [NAMES[method], "", "", missing[method], *[""] * (len(COLUMNS) - 4), "none"]
                if method in missing
                else _row(records, network, method, NAMES[method])
                for method in sorted(methods, key=lambda method: method in missing)
            ]
    return table_lines(COLUMNS, [row for row in rows if row])


def _row(records: Records, network: str, method: str, title: str) -> list[str]:
    """Returns the cells of a method; none without results."""
    every = {
        score: list(scores(records, network, method, part, name).values())
        for score, part, name in (
            ("accuracy", "test", "accuracy"),
            ("nll", "test", "nll"),
            ("ece", "test", "ece"),
            ("corrupted", "corrupted", "nll"),
        )
    }
    count = len(every["nll"])
    if not count:
        return []
    planned = len(plan.RESULT_SEEDS)
    return [
        title,
        epochs_cell(records, network, method),
        mean_cell(every["nll"]),
        beside(records, network, method, "test"),
        mean_cell(every["corrupted"]),
        beside(records, network, method, "corrupted"),
        mean_cell([100 * each for each in every["accuracy"]], 2),
        mean_cell(every["ece"]),
        in_millions(parameters(records, network, method) or 0),
        str(count) if count == planned else f"{count} of {planned}",
    ]


def epochs_cell(records: Records, network: str, method: str) -> str:
    """Returns the epochs of a method, such as 24, or 24 + 8 of one that starts at the trained ensemble."""
    own = epochs_of(records, network, method)
    before = epochs_of(records, network, "deterministic") or epochs_of(records, network, ENSEMBLE)
    return f"{before or '?'} + {own}" if plan.METHODS[method].starts_at_trained else str(own)


def beside(records: Records, network: str, method: str, part: str) -> str:
    """Returns the NLL of a method less that of the deep ensemble of its round.

    Where the ensemble has further seeds, it also returns the ensemble's NLL with the seeds that were paired.
    """
    found = find_difference(records, network, method, ENSEMBLE, part)
    if method == ENSEMBLE or found is None:
        return ""
    every = scores(records, network, ENSEMBLE, part, "nll")
    return found.cell(note="" if len(found.theirs) == len(every) else f"ensemble {np.mean(found.theirs):.3f}")


def differences_table(records: Records, network: str) -> list[str]:
    """Returns the paired differences of mixtures to the ensemble, a full-rank and a deterministic network."""
    rows = []
    for ours in OURS:
        for part in ("test", "corrupted"):
            found = [find_difference(records, network, ours, theirs, part) for theirs in THEIRS]
            if any(found):
                rows.append([f"{NAMES[ours]}, {part}", *("–" if each is None else each.cell(4) for each in found)])
    return table_lines([NAMES[theirs] for theirs in THEIRS], rows, "NLL less that of")
