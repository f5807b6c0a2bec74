"""What the comparison under the tuning protocol shows, in sentences made from its records, and what it hides."""

from collections.abc import Mapping, Sequence

import numpy as np

from singularbayes_experiments.methods.protocol import Paired, paired
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.modes_summary import DAGGER, METHODS, UCI, count_sides, is_marked
from singularbayes_experiments.report.summary import Scores, verdicts
from singularbayes_experiments.runs.modes_records import CARE

COUNTED = {4: "four", 5: "five"}


def sentence(scores: Sequence[Scores]) -> str:
    """Returns what the comparison shows, in one sentence."""
    mixture, svd = (
        {kind: len(names) for kind, names in verdicts(scores, name, "deep_ensemble").items()}
        for name in ("mixture_repeat", "mixture_svd")
    )
    return (
        "**In one sentence:** a mixture of five low-rank networks is better than a deep ensemble of five in NLL on "
        f"{mixture['better']} of {len(scores)} problems, worse on {mixture['worse']} and level on {mixture['level']}; "
        f"an SVD-initialised one is better on {svd['better']}, worse on {svd['worse']} and level on {svd['level']}, "
        f"but it needs that ensemble first and takes, with it, {_costs(scores, 'mixture_svd')} times the "
        "multiplications of training one deterministic network."
    )


def _costs(scores: Sequence[Scores], method: str) -> str:
    """Returns the least and the largest cost of a method."""
    found = [each.cost[method] for each in scores if method in each.cost]
    return f"{min(found):.2g} to {max(found):.2g}"


def meaning(scores: Sequence[Scores]) -> str:
    """Returns what better, worse and level mean, and what ‡ marks; for the lines below the table."""
    # Runs of intensive care are named by shift and seed.
    seeds = sorted({len({str(run).split()[-1] for run in each.runs["deep_ensemble"]}) for each in scores})
    marked = any(is_marked(each, method) for each in scores for method in METHODS)
    return (
        "Better or worse: the paired 95 % interval excludes 0. Level: it does not, which with "
        f"{' or '.join(COUNTED[number] for number in seeds)} seeds is no proof of equality."
        f"{f' {DAGGER}' if marked else ''}"
    )


def headline(scores: Sequence[Scores]) -> list[str]:
    """Returns what stands below the table: counts, detection, parameters, cost, and what the table does not show."""
    methods = ("mixture_repeat", "mixture_svd", "low_rank")
    counts = "; ".join(f"{METHODS[name]} {count_sides(scores, name)}" for name in methods)
    twice = " and ".join(each.data.title for each in scores if "Fashion" in each.data.title)
    tables = [each for each in scores if each.data.experiment in UCI]
    lines = [
        f"**NLL against the deep ensemble of 5**, on {len(scores)} problems: {counts}. {twice} are the same images. "
        f"The seeds of the {len(tables)} regression tables are {_splits(scores)} of the splits that others use. These "
        "overlap, so their intervals are too narrow if anything.",
        _behind(scores),
        *_not_shown(scores),
        _detection(scores),
        _detection_by_total(scores),
        _sizes(scores),
        _cost(scores),
        _at_edges(scores),
    ]
    return [f"- {line}" for line in lines if line]


def _splits(scores: Sequence[Scores]) -> str:
    """Returns how many splits the regression tables have, and which has fewer."""
    counts = {each.data.title: len(each.runs["deep_ensemble"]) for each in scores if each.data.experiment in UCI}
    most = max(counts.values(), default=0)
    fewer = [f"{title} {count}" for title, count in counts.items() if count < most]
    return f"{most}{f' ({chr(44).join(fewer)})' if fewer else ''}"


def _behind(scores: Sequence[Scores]) -> str:
    """Returns where the mean NLL of a mixture is higher, though level."""
    parts = []
    for method in ("mixture_repeat", "mixture_svd"):
        level = verdicts(scores, method, "deep_ensemble")["level"]
        found = [
            f"{each.data.title} (+{one.mean:.{each.data.decimals}f} on "
            f"{each.mean('deep_ensemble', each.data.nll):.{each.data.decimals}f})"
            for each in scores
            if each.data.title in level
            and (one := each.difference(method, "deep_ensemble", each.data.nll)) is not None
            and one.mean > 0
        ]
        parts += [f"of the {METHODS[method]} on {', '.join(found)}"] if found else []
    return f"Level, but with the higher mean NLL: {'; '.join(parts)}." if parts else ""


def _not_shown(scores: Sequence[Scores]) -> list[str]:
    """Returns the lower NLLs that the table does not have: of incomplete rounds, and of choices that were given up."""
    lines = []
    for each in scores:
        shown = {name: each.mean(name, each.data.nll) for name in each.incomplete if each.runs.get(name)}
        lower = {name: nll for name, nll in each.incomplete.items() if name in shown and nll < shown[name]}
        if lower:
            best = min(
                (name for name in METHODS if each.runs.get(name)), key=lambda name: each.mean(name, each.data.nll)
            )
            least = each.mean(best, each.data.nll)
            parts = [f"{METHODS[name]} {nll:.{each.data.decimals}f}" for name, nll in lower.items()]
            below = [METHODS[name] for name, nll in lower.items() if nll < least]
            first = " and ".join(below)
            verb = "is" if len(below) == 1 else "are"
            words = f"Of these, {first} {verb} below" if below else "None of these is below"
            lines.append(
                f"A second round of {each.data.title} was not completed and does not count. Its NLLs: "
                f"{', '.join(parts)}. {words} the best of the table, the {METHODS[best]} with "
                f"{least:.{each.data.decimals}f}{'' if best in each.incomplete else ', which has no second round'}."
            )
        lines += _given_up(each)
    return lines


def _given_up(scores: Scores) -> list[str]:
    """Returns an earlier choice of the ensemble, where a mixture is level or ahead of the later one alone."""
    nll, decimals = scores.given_up.get("deep_ensemble"), scores.data.decimals
    mixtures = {name: scores.mean(name, scores.data.nll) for name in ("mixture_repeat", "mixture_svd")}
    if nll is None or nll >= max(mixtures.values()):
        return []
    below = [f"the {METHODS[name]} ({value:.{decimals}f})" for name, value in mixtures.items() if nll < value]
    now = scores.mean("deep_ensemble", scores.data.nll)
    return [
        f"On {scores.data.title} the deep ensemble that validation chose in the first round has {nll:.{decimals}f}, "
        f"below {' and '.join(below)}; the second round replaced it by one with {now:.{decimals}f}."
    ]


def _sizes(scores: Sequence[Scores]) -> str:
    """Returns the parameters of a mixture as a share of the ensemble's: by name where networks are large."""
    share = {each.data: each.parameters["mixture_repeat"] / each.parameters["deep_ensemble"] for each in scores}
    large = [f"{100 * value:.0f} % on {data.title}" for data, value in share.items() if data.ood]
    small = [100 * value for data, value in share.items() if not data.ood]
    rest = f", and {min(small):.0f} to {max(small):.0f} % on toy and tables" if small else ""
    return f"The stored parameters of a mixture, as a share of the ensemble's: {', '.join(large)}{rest}."


def _cost(scores: Sequence[Scores]) -> str:
    """Returns the multiplications of trainings, where networks are large and over all problems."""
    large = [each for each in scores if each.data.ood]
    shown = "; ".join(
        f"{METHODS[name]}: {_costs(large, name)} (on all problems {_costs(scores, name)})"
        for name in ("deep_ensemble", "mixture_repeat", "mixture_svd")
    )
    return (
        "The multiplications of a training, as a multiple of the chosen deterministic network's, on the problems with "
        f"out-of-distribution data. {shown[0].upper()}{shown[1:]}. The last includes the ensemble that it starts at."
    )


def _at_edges(scores: Sequence[Scores]) -> str:
    at, every = (sum(numbers) for numbers in zip(*(each.at_edge for each in scores), strict=True))
    return (
        f"{at} of {every} choices lie at an edge of some setting that was tried, so most methods might gain from more "
        "tuning, the deep ensemble too."
    )


def _detection(scores: Sequence[Scores]) -> str:
    """Returns on which data sets the AUROC-OOD of a mixture is higher than the ensemble's, level, or lower."""
    found: dict[str, list[str]] = {"higher": [], "level": [], "lower": []}
    for each in scores:
        one = each.difference("mixture_repeat", "deep_ensemble", each.data.ood) if each.data.ood else None
        if one is not None:
            ours, theirs = (each.mean(name, each.data.ood) for name in ("mixture_repeat", "deep_ensemble"))
            side = "higher" if one.low > 0 else "lower" if one.high < 0 else "level"
            found[side].append(f"{each.data.title} ({ours:.3f} against {theirs:.3f})")
    sides = [f"{side} on {', '.join(names)}" for side, names in found.items() if names]
    return f"The AUROC-OOD of the mixture, against that of the ensemble, is {'; '.join(sides)}."


def _detection_by_total(scores: Sequence[Scores]) -> str:
    """Returns by how much more or less a mixture leads in AUROC-OOD where entropy detects instead of MI."""
    sides: dict[str, list[str]] = {"larger": [], "smaller": []}
    for each in scores:
        pair = ("mixture_repeat", "deep_ensemble")
        if each.data.ood and all(each.values(name, each.data.by_total) for name in pair):
            own, total = (
                each.mean(pair[0], metric) - each.mean(pair[1], metric)
                for metric in (each.data.ood, each.data.by_total)
            )
            side = "larger" if total > own else "smaller"
            sides[side].append(f"{each.data.title} ({_signed(total)}, not {_signed(own)})")
    parts = [f"{side} on {', '.join(names)}" for side, names in sides.items() if names]
    return (
        "Detected by entropy (Beijing: total deviation) instead of mutual information (epistemic deviation), the "
        f"mixture's lead over the ensemble is {'; '.join(parts)}."
    )


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def pairs_of_care(scores: Sequence[Scores]) -> list[tuple[str, list[Paired]]]:
    """Returns, of methods in intensive care, the NLL less the ensemble's over all runs, shift means and seed means.

    Runs are pairs of shift and seed, which are not independent.
    """
    found = []
    for each in scores:
        if each.data.experiment == CARE:
            theirs = each.runs["deep_ensemble"]
            for method, runs in each.runs.items():
                keys = [str(key) for key in runs if key in theirs] if method != "deep_ensemble" else []
                apart = {
                    str(key): runs[key].metrics["nll"] - theirs[key].metrics["nll"] for key in runs if str(key) in keys
                }
                groups = [list(apart.values()), *(_means(apart, part) for part in (0, 1))]
                found += [(method, [paired(group, [0.0] * len(group)) for group in groups])] if keys else []
    return found


def _means(values: Mapping[str, float], part: int) -> list[float]:
    """Returns the means over runs whose names share a part: the shift, or the seed."""
    groups: dict[str, list[float]] = {}
    for name, value in values.items():
        groups.setdefault(name.split()[part], []).append(value)
    return [float(np.mean(group)) for group in groups.values()]


def disclosures(scores: Sequence[Scores], records: Sequence[Record]) -> list[str]:
    """Returns what a sceptic should know about this comparison; the numbers are those of the records."""
    care = "; ".join(
        f"{METHODS[method]} {_interval(every)}, over the five shift means {_interval(shifts, False)}, over the four "
        f"seed means {_interval(seeds, False)}"
        for method, (every, shifts, seeds) in pairs_of_care(scores)
        if method in ("mixture_repeat", "mixture_svd")
    )
    older = [
        one.metrics["nll"]
        for one in records
        if (one.experiment, one.method, one.preset) == ("sst2", "full_rank", "chosen")
    ]
    texts = [each for each in scores if each.data.experiment == "sst2" and each.runs.get("full_rank")]
    full = (
        f" On SST-2 full-rank networks had one round and the others two. Their NLL in the table is "
        f"{texts[0].mean('full_rank', 'nll'):.3f}; an older run, with other settings, has {np.mean(older):.3f}."
        if older and texts
        else ""
    )
    return [
        "The [comparison of mixtures](../mixture_results.md) has settings by the [tuning protocol](../protocol.md). "
        "All its configurations were committed before the run that tried them, and validation rows alone chose. But "
        "they were not written blind. Later rounds were written with the test results and validation scores of the "
        "earlier ones in view, and the last ones began with data sets on which a mixture was behind the ensemble on "
        "test data. The grids of SST-2, Beijing, intensive care and the CNN were written with the test tables of the "
        "older experiments below in view.",
        "It was cut by time. SST-2 has four configurations of every method in a round, others eight. That page says "
        "how many rounds each data set has, which methods had fewer, which rounds are not complete and so do not "
        f"count, and what those have.{full}",
        "No interval is corrected for the number of intervals: among 100 comparisons of equal methods about five would "
        "be called better or worse.",
        *(
            [
                "In intensive care the intervals are over 20 pairs of shift and seed, as if these were independent. "
                f"NLL less the deep ensemble's: {care}."
            ]
            if care
            else []
        ),
        "What follows, the last three sections apart, is about older runs.",
    ]


def _interval(found: Paired, with_mean: bool = True) -> str:
    low, high = (f"{value:+.4f}".replace("-", "−") for value in (found.low, found.high))
    mean = f"{found.mean:+.4f} ".replace("-", "−") if with_mean else ""
    return f"{mean}[{low}, {high}]"
