"""Intensive care under the tuning protocol, shift by shift: differences to the deep ensemble and their intervals."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from singularbayes_experiments.methods.protocol import Paired, paired
from singularbayes_experiments.problems.modes import METHODS, SETS, SHIFTS
from singularbayes_experiments.report.modes_summary import METHODS as SUMMARY
from singularbayes_experiments.report.summary import head
from singularbayes_experiments.runs.modes_records import CARE
from singularbayes_experiments.runs.modes_tables import RIVAL, ROWS, difference, results, shown


def shift_tables(final: Sequence[dict]) -> list[str]:
    """Returns the NLL less the deep ensemble's for every shift, and its intervals by what is taken as independent."""
    methods = [name for name in ROWS if name != RIVAL]
    shifts = [SETS[f"{CARE}_{shift}"] for shift in SHIFTS]
    methods = [name for name in methods if any(results(final, one.name, name) for one in shifts)]
    rows = []
    for one in shifts:
        found = [difference(final, one.name, method) for method in methods]
        cells = ["–" if each is None else shown(each, 3) for each in found]
        title = one.name.removeprefix(f"{CARE}_").replace("eicu", "other hospitals (eICU)")
        rows.append(f"| {title} | {' | '.join(cells)} |")
    heads = ["over 4 seeds, each the mean of 5 shifts", "over the means of 5 shifts", "over all 20 runs"]
    pairs = [
        f"| {METHODS[method].words} | {' | '.join(shown(each) for each in found)} |"
        for method, found in pairs_of_care(final)
    ]
    return [
        "**Shift by shift**: NLL less the deep ensemble's [95 %].",
        "",
        f"| shift | {' | '.join(METHODS[method].words for method in methods)} |",
        f"|---|{'---:|' * len(methods)}",
        *rows,
        "",
        "Runs of a shift share its stays, so the 20 runs are not independent. The same differences, with intervals "
        "that take different units as independent:",
        "",
        *head(heads),
        *pairs,
    ]


def pairs_of_care(final: Sequence[dict]) -> list[tuple[str, list[Paired]]]:
    """Returns, of methods in intensive care, the NLL less the ensemble's over seeds, over shifts and over all runs.

    Over seeds it is that of the tables: each seed is the mean over shifts. Runs with one shift share its stays. A
    method is left out where one of its runs diverged.
    """
    theirs = _by_run(final, RIVAL)
    found = []
    for method in SUMMARY:
        apart = {key: nll - theirs[key] for key, nll in _by_run(final, method).items() if key in theirs}
        groups = [_means(apart, 1), _means(apart, 0), list(apart.values())]
        if method != RIVAL and min(map(len, groups)) > 1 and np.isfinite(groups[-1]).all():
            found.append((method, [paired(group, [0.0] * len(group)) for group in groups]))
    return found


def _by_run(final: Sequence[dict], method: str) -> dict[tuple[str, int], float]:
    """Returns the NLL of a method by shift and seed, NaN where the run diverged."""
    return {
        (shift, seed): run.get("nll", math.nan)
        for shift in SHIFTS
        for seed, run in results(final, f"{CARE}_{shift}", method).items()
    }


def _means(values: Mapping[tuple[str, int], float], part: int) -> list[float]:
    """Returns the means over runs that share a part of their key: the shift, or the seed."""
    groups: dict[str | int, list[float]] = {}
    for key, value in values.items():
        groups.setdefault(key[part], []).append(value)
    return [float(np.mean(group)) for group in groups.values()]
