"""Rounds of the comparison of mixtures that the tables do not show: those that do not count, and earlier choices."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from singularbayes_experiments.methods.protocol import edges
from singularbayes_experiments.problems.modes import SECOND, ModesSet
from singularbayes_experiments.problems.modes_grids import configurations, round_of
from singularbayes_experiments.report.summary import OtherRound
from singularbayes_experiments.runs.modes_records import DIVERGED, RESULTS, Records, choices, chosen, rounds_of


def incomplete(records: Records, one: ModesSet, methods: Sequence[str]) -> dict[str, OtherRound]:
    """Returns the results of the methods that have some in a round that does not count, if none diverged."""
    counted = rounds_of(records, one)
    found: dict[str, OtherRound] = {}
    for method in methods:
        name = chosen(records, one, method, one.rounds)
        runs = runs_of(records, one, method, name)
        if name and _is_finite(runs) and round_of(one, name) > counted:
            found[method] = OtherRound(round_of(one, name), runs)
    return found


def other_start(records: Records, one: ModesSet, method: str, rival: str) -> OtherRound | None:
    """Returns the rival at whose SVDs a method starts, where that is the choice of an earlier round; else None."""
    name = choices(records, one).get(method)
    number = round_of(one, name) if name and name != DIVERGED else one.rounds
    start = chosen(records, one, rival, number)
    runs = {} if start == choices(records, one).get(rival) else runs_of(records, one, rival, start)
    return OtherRound(number, runs) if _is_finite(runs) else None


def given_up(records: Records, one: ModesSet, methods: Sequence[str]) -> dict[str, OtherRound]:
    """Returns the choice of an earlier round that is better on test data than the one that validation took after it.

    Of several such choices of a method it is the one with the least mean NLL.
    """
    last = choices(records, one)
    found: dict[str, OtherRound] = {}
    for method in methods:
        own = runs_of(records, one, method, last.get(method))
        for number in range(1, rounds_of(records, one)):
            runs = runs_of(records, one, method, chosen(records, one, method, number))
            least = found[method].mean if method in found else _mean(own) if _is_finite(own) else -math.inf
            if _is_finite(runs) and _mean(runs) < least:
                found[method] = OtherRound(number, runs)
    return found


def round_of_choice(records: Records, one: ModesSet, method: str) -> int:
    """Returns how many rounds of tuning a method's choice is from: those that count, or fewer where it had fewer."""
    counted = rounds_of(records, one)
    had = [number for number in range(1, counted + 1) if chosen(records, one, method, number) is not None]
    return max(had, default=0)


def choices_at_edges(records: Records, one: ModesSet) -> tuple[int, int]:
    """Returns how many choices of a data set lie at an edge of some setting that was tried, and how many there are."""
    at, every = 0, 0
    counted, names = rounds_of(records, one), choices(records, one)
    for method in SECOND:
        if name := names.get(method):
            rounds = max(number for number in range(1, one.rounds + 1) if chosen(records, one, method, number))
            rounds = min(rounds, counted)
            grid: Mapping[str, Mapping] = {
                each: vars(settings) for each, settings in configurations(one, method, rounds).items()
            }
            at, every = at + bool(edges(grid[name], list(grid.values()))), every + 1
    return at, every


def runs_of(records: Records, one: ModesSet, method: str, name: str | None) -> dict[Any, float]:
    """Returns the NLL of the results of a configuration by seed, NaN where a run diverged."""
    own = (one.name, RESULTS, method, name)
    return {key[4]: run.get("nll", math.nan) for key, run in records.items() if name and key[:4] == own}


def _is_finite(runs: Mapping[Any, float]) -> bool:
    """Whether there are runs and none diverged."""
    return bool(runs) and all(map(math.isfinite, runs.values()))


def _mean(runs: Mapping[Any, float]) -> float:
    return sum(runs.values()) / len(runs)
