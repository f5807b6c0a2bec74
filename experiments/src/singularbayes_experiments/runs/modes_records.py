"""Records of the comparison of modes: reading them, and which configuration of a method they choose."""

from collections.abc import Sequence

import numpy as np

from singularbayes_experiments.methods import protocol
from singularbayes_experiments.problems.modes import RESULT_SEEDS, SETS, SHIFTS, TUNING_SEEDS, ModesSet
from singularbayes_experiments.problems.modes_grids import configurations

TUNING, RESULTS = "tuning", "results"
DIVERGED = ""  # the name of the choice where every configuration diverged; there are no results then
FAILED = "diverged"  # the stage of such a method among the final results
CARE = "icu"  # all shifts of intensive care together
Records = dict[tuple, dict]  # by set, stage, method, configuration and seed


def by_run(lines: Sequence[dict]) -> Records:
    return {tuple(one[key] for key in ("set", "stage", "method", "configuration", "seed")): one for one in lines}


def tuned_set(name: str) -> ModesSet:
    """Returns the data set whose tuning chose the settings: of intensive care its first shift, else the set itself."""
    return SETS[f"{CARE}_{SHIFTS[0]}" if name == CARE else name]


def chosen(records: Records, one: ModesSet, method: str, rounds: int | None = None) -> str | None:
    """Returns the configuration that the protocol chooses; None unless all tuning runs of these rounds are there."""
    one = one.tuned_on or one
    tried = []
    for name, settings in configurations(one, method, rounds or one.rounds).items():
        runs = [records.get((one.name, TUNING, method, name, seed)) for seed in TUNING_SEEDS]
        if not all(runs):
            return None
        nll, ood = (tuple(run.get(key, np.nan) for run in runs if run) for key in ("nll", "proxy_ood"))
        base = min(run["without_inputs"] for run in runs if run)
        tried.append(protocol.Tried(name, nll, ood, vars(settings), base))
    return DIVERGED if all(run.diverged for run in tried) else protocol.choose(tried).name


def rounds_of(records: Records, one: ModesSet) -> int:
    """Returns how many rounds count: those that all methods of `compared` have whole, with results."""
    one = one.tuned_on or one
    return next((number for number in range(one.rounds, 1, -1) if _whole(records, one, number)), 1)


def _whole(records: Records, one: ModesSet, rounds: int) -> bool:
    for method in one.compared:
        name = chosen(records, one, method, rounds)
        seeds = () if name == DIVERGED else RESULT_SEEDS[: one.seeds]
        if name is None or any((one.name, RESULTS, method, name, seed) not in records for seed in seeds):
            return False
    return True


def choices(records: Records, one: ModesSet) -> dict[str, str | None]:
    """Returns for each method the configuration chosen in the rounds that count, or in as many of them as it has."""
    count = rounds_of(records, one)

    def choice(method: str) -> str | None:
        every = (chosen(records, one, method, rounds) for rounds in range(count, 0, -1))
        return next((name for name in every if name is not None), None)

    return {method: choice(method) for method in one.methods}


def final_results(lines: Sequence[dict]) -> list[dict]:
    """Returns the results of the configurations that are chosen in the end, one for each method and data set.

    A method whose configurations all diverged has one line with the stage `FAILED`; one that was not run has none.
    Results of the five shifts of intensive care are there once more as those of one data set: the means over shifts,
    seed by seed.
    """
    records, kept = by_run(lines), []
    runs: dict[tuple, list[dict]] = {}  # all seeds of a configuration
    for key, run in records.items():
        runs.setdefault(key[:-1], []).append(run)
    for one in SETS.values():
        for method, name in choices(records, one).items():
            if name == DIVERGED:
                kept.append({"set": one.name, "stage": FAILED, "method": method})
            kept += runs.get((one.name, RESULTS, method, name), [])
    return kept + _all_shifts(kept)


def _all_shifts(lines: Sequence[dict]) -> list[dict]:
    """Returns a line per method and seed that all shifts have, with the means of its scores over shifts."""
    names = [f"{CARE}_{shift}" for shift in SHIFTS]
    runs = {(one["method"], one["seed"], one["set"]): one for one in lines if one["stage"] == RESULTS}
    found = []
    for method, seed in dict.fromkeys(key[:2] for key in runs):
        own = [runs.get((method, seed, name)) for name in names]
        if all(own):
            found.append({**_mean([one for one in own if one]), "set": CARE})
    return found


def _mean(lines: Sequence[dict]) -> dict:
    """Returns the first line with the means of the scores, only of those that all lines have."""
    scores = [name for name, value in lines[0].items() if isinstance(value, float)]
    means = {name: float(np.mean([one[name] for one in lines])) for name in scores if all(name in one for one in lines)}
    return {name: value for name, value in lines[0].items() if name not in scores} | means
