"""What a sceptic should know about the comparison under the tuning protocol; the numbers are those of the records."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import summary
from singularbayes_experiments.report.modes_care import pairs_of_care
from singularbayes_experiments.report.modes_sentences import in_hindsight, one_round, other_starts
from singularbayes_experiments.report.modes_summary import METHODS, UCI, count_sides, has_fewer_rounds
from singularbayes_experiments.report.summary import Scores
from singularbayes_experiments.report.text import interval, number, signed

_MIXTURES = ("mixture_repeat", "mixture_svd")


def disclosures(
    scores: Sequence[Scores], before: Sequence[Scores], final: Sequence[dict], records: Sequence[Record]
) -> list[str]:
    """Returns a line per disclosure.

    Args:
        before: the scores without the last run that added records.
        final: the results of what is chosen in the end, run by run.
        records: those of earlier experiments.
    """
    lines = [
        "**Not blind.** All configurations were committed before the run that tried them, and validation data alone "
        "chose among them. But later rounds were written with the test results and validation scores of the earlier "
        "ones in view, and the last ones began with data sets on which a mixture was behind the ensemble on test data. "
        "The grids of SST-2, Beijing, intensive care and the CNN were written with the test tables of the earlier runs "
        "below in view.",
        "**Cut by time.** Not all rounds of tuning were run: [the page of the mixtures](../mixture_results.md) says "
        "how many each data set has, which methods had fewer, and which are not complete and so do not count. "
        f"{one_round(scores)}{_fewer(scores, records)}",
        "**Not matched.** No ensemble was given the training cost of an SVD-initialised mixture, and no method a "
        "fitted temperature.",
        in_hindsight(scores),
        other_starts(scores),
        _last_run(scores, before),
        older_and_lower(scores, records),
        "**Many intervals.** No interval is corrected for the number of comparisons: among 100 comparisons of equal "
        "methods about five would be called better or worse.",
        _care(final),
    ]
    return [line.strip() for line in lines if line]


def _fewer(scores: Sequence[Scores], records: Sequence[Record]) -> str:
    """Returns the methods with fewer rounds than the others of a data set, with what an older run has."""
    older, parts = {each.data.experiment: each for each in summary.collect(records)}, []
    for each in scores:
        nll = _of_others(older.get(each.data.experiment))
        for method in METHODS:
            if has_fewer_rounds(each, method):
                mean = number(each.mean(method, each.data.nll)) if _has(each, method) else ""
                own = f"its NLL is {mean}" if mean else "one of its runs diverged"
                beside = f"; an older run, with other settings, has {number(nll[method])}" if method in nll else ""
                parts.append(
                    f"On {each.data.title} {METHODS[method]} had {each.rounds[method]} of {max(each.rounds.values())} "
                    f"rounds: {own}{beside}."
                )
    return f" {' '.join(parts)}" if parts else ""


def _has(scores: Scores, method: str) -> bool:
    return bool(scores.values(method, scores.data.nll))


def _last_run(scores: Sequence[Scores], before: Sequence[Scores]) -> str:
    """Returns the counts that stood before the last run, where it changed them."""
    changed = [name for name in _MIXTURES if count_sides(scores, name) != count_sides(before, name)]
    counts = "; ".join(f"{METHODS[name]} {count_sides(before, name)}" for name in changed)
    return (
        f"**The last run changed the counts.** Before it they were, against the ensemble in NLL: {counts}."
        if changed
        else ""
    )


@dataclass(frozen=True)
class OlderRun:
    """A method of earlier runs whose mean NLL is lower than that of every method of the table."""

    scores: Scores
    method: str
    nll: float
    lowest: float

    @property
    def lead(self) -> float:
        return self.lowest - self.nll

    def __str__(self) -> str:
        shown = [number(value, self.scores.data.decimals) for value in (self.nll, self.lowest)]
        return f"{self.scores.data.title} ({summary.METHODS[self.method]} {shown[0]}, lowest of the table {shown[1]})"


def older_runs(scores: Sequence[Scores], records: Sequence[Record]) -> list[OlderRun]:
    """Returns the best method of earlier runs on the data sets where it is below every method of the table."""
    older = {each.data.experiment: each for each in summary.collect(records)}
    found_runs = []
    for each in scores:
        name = each.data.experiment
        least = min((each.mean(method, each.data.nll) for method in METHODS if _has(each, method)), default=-math.inf)
        found = _of_tables(records, each) if name in UCI else _of_others(older.get(name))
        lower = {method: nll for method, nll in found.items() if nll < least}
        if lower:
            best = min(lower, key=lambda method: lower[method])
            found_runs.append(OlderRun(each, best, lower[best], least))
    return found_runs


OTHER_NETWORKS = "one hidden layer of 50 units and a predicted noise per example instead of two layers of 64 units"


def older_and_lower(scores: Sequence[Scores], records: Sequence[Record]) -> str:
    """Returns the data sets on which a method of earlier runs has a lower NLL than every method of the table."""
    found = older_runs(scores, records)
    return (
        "**Older runs that are lower.** On these data sets a method of earlier runs has a lower mean NLL than every "
        f"method of the summary's table: {'; '.join(map(str, found))}. These runs have other settings; those on the "
        f"small tables also have other networks, with {OTHER_NETWORKS} and one noise level, on the same splits."
        if found
        else ""
    )


def beside_older_runs(scores: Sequence[Scores], records: Sequence[Record]) -> str:
    """Returns on how many problems a method of earlier runs is lower than all of the table, and where by most."""
    found = older_runs(scores, records)
    if not found:
        return ""
    most = max(found, key=lambda each: each.lead)
    networks = f", with networks of {OTHER_NETWORKS}" if most.scores.data.experiment in UCI else ""
    return (
        f"- Runs older than the protocol have a lower mean NLL than every method of the table on {len(found)} of the "
        f"{len(scores)} problems, by most on {most}{networks}: [which](disclosures.md#under-the-tuning-protocol)"
    )


def _of_others(older: Scores | None) -> dict[str, float]:
    if older is None:
        return {}
    return {method: older.mean(method, older.data.nll) for method in older.runs if _has(older, method)}


def _of_tables(records: Sequence[Record], scores: Scores) -> dict[str, float]:
    """Returns the mean NLL of earlier runs on the splits that the results have: seed s has split s − 1."""
    splits = {int(seed) - 1 for seed in scores.runs["deep_ensemble"]}
    key, found = f"{scores.data.experiment}/nll", {}
    for method in summary.METHODS:
        nll = {
            one.seed: one.metrics[key]
            for one in records
            if (one.experiment, one.method, one.preset) == ("uci", method, "chosen") and key in one.metrics
        }
        if splits <= nll.keys():
            found[method] = float(np.mean([nll[split] for split in splits]))
    return found


def _care(final: Sequence[dict]) -> str:
    """Returns the intervals of intensive care by what is taken as independent."""
    found = [(method, every) for method, every in pairs_of_care(final) if method in _MIXTURES]
    parts = [
        f"{METHODS[method]} {signed(seeds.mean, 4)} {interval(seeds, 4)} over seeds, {interval(shifts, 4)} over the "
        f"means of the five shifts, {interval(every, 4)} over all runs"
        for method, (seeds, shifts, every) in found
    ]
    return (
        "**Intensive care.** A seed is the mean over five shifts, whose stays the seeds share. NLL less the deep "
        f"ensemble's: {'; '.join(parts)}."
        if parts
        else ""
    )
