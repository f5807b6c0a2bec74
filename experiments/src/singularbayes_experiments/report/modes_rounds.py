"""Rounds of the comparison of mixtures that the tables do not show: those that do not count, and earlier choices."""

from collections.abc import Mapping, Sequence

from singularbayes_experiments.methods.protocol import edges
from singularbayes_experiments.problems.modes import SECOND, ModesSet
from singularbayes_experiments.problems.modes_grids import configurations, round_of
from singularbayes_experiments.runs.modes_records import RESULTS, Records, choices, chosen, rounds_of


def incomplete(records: Records, one: ModesSet, methods: Sequence[str]) -> dict[str, float]:
    """Returns the mean NLL of the methods that have results in a round that does not count."""
    counted = rounds_of(records, one)
    found: dict[str, float] = {}
    for method in methods:
        name = chosen(records, one, method, one.rounds)
        nll = _nll(records, one, method, name)
        if name and nll is not None and round_of(one, name) > counted:
            found[method] = nll
    return found


def given_up(records: Records, one: ModesSet, methods: Sequence[str]) -> dict[str, float]:
    """Returns the least mean NLL of choices of earlier rounds, where the last choice has a higher one on test data."""
    last = choices(records, one)
    found: dict[str, float] = {}
    for method in methods:
        own = _nll(records, one, method, last.get(method))
        names = {chosen(records, one, method, number) for number in range(1, rounds_of(records, one))}
        earlier = [nll for name in names - {last.get(method)} if (nll := _nll(records, one, method, name)) is not None]
        if own is not None and earlier and min(earlier) < own:
            found[method] = min(earlier)
    return found


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


def _nll(records: Records, one: ModesSet, method: str, name: str | None) -> float | None:
    nll = [run["nll"] for key, run in records.items() if key[:4] == (one.name, RESULTS, method, name)]
    return sum(nll) / len(nll) if name and nll else None
