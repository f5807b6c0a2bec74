"""What the comparison under the tuning protocol shows, in sentences made from its records, and what it hides."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.detectors import best_without_network
from singularbayes_experiments.report.modes_summary import (
    DAGGER,
    METHODS,
    OURS,
    SECTION_MARK,
    UCI,
    count_sides,
    has_fewer_rounds,
    is_marked,
    is_smaller,
)
from singularbayes_experiments.report.rows import listed
from singularbayes_experiments.report.summary import NO_INTERVAL, OtherRound, Scores, verdicts
from singularbayes_experiments.report.text import difference, number, signed
from singularbayes_experiments.runs.modes_records import tuned_set

ENSEMBLE = "deep_ensemble"
_HIGHER = {"better": "higher", "worse": "lower", "level": "level"}  # an AUROC
KEY = (
    "*Low-rank* is one network with W = A Bᵀ and a distribution over A and B, *full-rank* one with a distribution over "
    "every weight. A *mixture of 5* has five such low-rank networks as components of one model, "
    '`Mixture(LowRank(r), 5, examples="repeat")`, each with a random initialisation. The *SVD-initialised* one starts '
    "at the singular value decompositions of the five networks of an ensemble, which has to be trained first."
)


def sentence(scores: Sequence[Scores]) -> str:
    """Returns what the comparison shows, in one sentence: problems on which a mixture is smaller, and the others."""
    small, large = ([each for each in scores if is_smaller(each) is smaller] for smaller in (True, False))
    shares = [100 * _ratio(each.parameters, "mixture_repeat") for each in small]
    parts = []
    if small:
        parts += [
            f"{count_sides(small, 'mixture_repeat')} of the {len(small)} problems where it has fewer parameters "
            f"({min(shares):.0f} to {max(shares):.0f} % of the ensemble's; SVD-initialised: "
            f"{_counts(small, 'mixture_svd')})"
        ]
    if large:
        parts += [
            f"{count_sides(large, 'mixture_repeat')} of the {len(large)} small tables where it has more "
            f"({_counts(large, 'mixture_svd')})"
        ]
    return (
        "**In one sentence:** compared in NLL with a deep ensemble of five networks, a mixture of five low-rank ones "
        f"is {'; and '.join(parts)}."
    )


def _counts(scores: Sequence[Scores], method: str) -> str:
    found = verdicts(scores, method, ENSEMBLE)
    return f"{len(found['better'])}, {len(found['level'])} and {len(found['worse'])}{_without(found)}"


def _without(found: Mapping[str, Sequence[str]]) -> str:
    return f", without an interval on {', '.join(found[NO_INTERVAL])}" if NO_INTERVAL in found else ""


def _ratio(values: Mapping[str, float], method: str, rival: str = ENSEMBLE) -> float:
    return values[method] / values[rival]


def meaning(scores: Sequence[Scores]) -> list[str]:
    """Returns what the numbers, the words and the marks of the table mean, a line each."""
    seeds = sorted({len(each.runs[ENSEMBLE]) for each in scores})
    cells = [(each, method) for each in scores for method in METHODS]
    marks = [DAGGER] * any(is_marked(*cell) for cell in cells)
    marks += [SECTION_MARK] * any(has_fewer_rounds(*cell) for cell in cells)
    lines = [
        "First line of a cell: NLL on test data in nats, lower is better. ±: the standard error over "
        f"{' or '.join(map(str, seeds))} seeds; in intensive care a seed is the mean over five shifts.",
        "AUROC-OOD, higher is better: how well mutual information (Beijing: the epistemic standard deviation) tells "
        "out-of-distribution inputs from test data. (H): a deterministic network has neither, so its entropy (Beijing: "
        "total standard deviation) is used. The last column is the AUROC-OOD of a single number computed from the "
        "input, without any network: where it is as high, those of the networks say little about uncertainty.",
        "Better or worse: the paired 95 % interval of the difference over seeds excludes 0. Level: it does not, which "
        "with so few seeds is no proof of equality. Bold: better than all others.",
    ]
    return [f"- {line}" for line in [*lines, *marks]]


def headline(scores: Sequence[Scores], records: Sequence[Record] = ()) -> list[str]:
    """Returns what stands below the table: detection, the other rivals, cost, and what the choice of rounds decides."""
    lines = [
        _detection(scores, records),
        _beside_one(scores),
        _cost(scores),
        in_hindsight(scores),
        other_starts(scores),
    ]
    return [f"- {line}" for line in lines if line]


def details(scores: Sequence[Scores]) -> dict[str, list[str]]:
    """Returns what a reader may unfold, by the words above it."""
    found = {
        "How the rounds of tuning change the numbers": [
            _behind(scores),
            *_given_up(scores),
            *_incomplete(scores),
            one_round(scores),
            _at_edges(scores),
        ],
        "Parameters, splits and images": [_sizes(scores), _splits(scores), _twice(scores)],
        "Detection by entropy instead of mutual information": [_detection_by_total(scores)],
    }
    return {title: [f"- {line}" for line in lines if line] for title, lines in found.items() if any(lines)}


def _detection(scores: Sequence[Scores], records: Sequence[Record]) -> str:
    """Returns on how many pairs the AUROC-OOD of a mixture is higher than the ensemble's, level, or lower."""
    found: dict[str, list[str]] = {"higher": [], "level": [], "lower": []}
    ahead = []
    for each in scores:
        one = each.difference("mixture_repeat", ENSEMBLE, each.data.ood) if each.data.ood else None
        if one is not None:
            ours, theirs = (each.mean(name, each.data.ood) for name in ("mixture_repeat", ENSEMBLE))
            side = _HIGHER[one.side(higher_is_better=True)]
            found[side].append(f"{each.data.title} ({ours:.3f} against {theirs:.3f})")
            best = max(each.mean(name, each.data.ood) for name in METHODS if each.values(name, each.data.ood))
            plain = best_without_network(each.data.experiment, records)
            ahead += [each] if plain and plain[1] >= best else []
    count = sum(map(len, found.values()))
    sides = [f"{side} on {len(names)}: {', '.join(names)}" for side, names in found.items() if names]
    but = (
        f" On {len(ahead)} of the {count} pairs a number that needs no network is at least as good as every method of "
        "the table."
        if ahead
        else ""
    )
    return (
        f"**Detection.** The AUROC-OOD of the mixture, beside the ensemble's, is {'; '.join(sides)}.{but}"
        if count
        else ""
    )


def _beside_one(scores: Sequence[Scores]) -> str:
    """Returns how often a mixture is better than one full-rank and one deterministic network."""
    parts = [
        f"the {METHODS[method]} is {_than(scores, method, 'full_rank')} and {_than(scores, method, 'deterministic')}"
        for method in ("mixture_repeat", "mixture_svd")
    ]
    return f"**Beside one network**, in NLL on {len(scores)} problems: {'; '.join(parts)}."


def _than(scores: Sequence[Scores], method: str, rival: str) -> str:
    found = verdicts(scores, method, rival)
    better, level, worse = (len(found[side]) for side in ("better", "level", "worse"))
    return f"better than one {METHODS[rival]} network on {better} (level {level}, worse {worse}{_without(found)})"


def _cost(scores: Sequence[Scores]) -> str:
    """Returns the multiplications of trainings as a multiple of the ensemble's."""
    groups = {"where the mixture is smaller": True, "on the other tables": False}
    parts = []
    for words, smaller in groups.items():
        own = [each for each in scores if is_smaller(each) is smaller]
        repeat, svd = (
            [_ratio(each.cost, method) for each in own if {method, ENSEMBLE} <= each.cost.keys()]
            for method in ("mixture_repeat", "mixture_svd")
        )
        if repeat and svd:
            parts.append(
                f"{words} {min(repeat):.2g} to {max(repeat):.2g} times for a mixture, {min(svd):.2g} to "
                f"{max(svd):.2g} times for an SVD-initialised one"
            )
    return (
        "**Cost of training**, in multiplications, beside that of the ensemble (an SVD-initialised mixture includes "
        f"that of the ensemble at which it starts): {'; '.join(parts)}."
        if parts
        else ""
    )


def in_hindsight(scores: Sequence[Scores]) -> str:
    """Returns the counts against whichever of the ensemble's choices is better on test data, where that differs."""
    changed = [each for each in scores if ENSEMBLE in each.given_up]
    if not changed:
        return ""
    strict = [_with_earlier_ensemble(each) for each in scores]
    counts = "; ".join(f"{METHODS[name]} {count_sides(strict, name)}" for name in OURS)
    sets = listed([each.data.title for each in changed])
    return (
        f"**In hindsight.** On {sets} a later round of tuning replaced the ensemble by one that is better on "
        "validation data and worse on test data. Against the better of the two, which only test data can tell, the "
        f"counts over {len(scores)} problems are: {counts}."
    )


def other_starts(scores: Sequence[Scores]) -> str:
    """Returns where the SVD-initialised mixture starts at another ensemble than that of the table, and beside that."""
    parts = []
    for each in scores:
        if each.start is not None:
            found = _with_ensemble(each, each.start).difference("mixture_svd", ENSEMBLE, each.data.nll)
            decimals = each.data.decimals
            if found is not None:
                parts.append(
                    f"on {each.data.title} that has {number(each.start.mean, decimals)}, and the mixture is "
                    f"{found.side()}, {difference(found, decimals)}"
                )
    return (
        f"**Another start.** The {METHODS['mixture_svd']} sometimes starts at an ensemble of an earlier round, not at "
        f"the one it is compared with: {'; '.join(parts)}."
        if parts
        else ""
    )


def _with_ensemble(scores: Scores, other: OtherRound) -> Scores:
    """Returns the scores with other runs of the ensemble."""
    first = next(iter(scores.runs[ENSEMBLE].values()))
    runs = {seed: replace(first, seed=seed, metrics={scores.data.nll: nll}) for seed, nll in other.nll.items()}
    return replace(scores, runs={**scores.runs, ENSEMBLE: runs})


def _with_earlier_ensemble(scores: Scores) -> Scores:
    """Returns the scores with the runs of the ensemble that validation gave up, where there is one."""
    earlier = scores.given_up.get(ENSEMBLE)
    return scores if earlier is None else _with_ensemble(scores, earlier)


def _behind(scores: Sequence[Scores]) -> str:
    """Returns where the mean NLL of a mixture is higher, though level."""
    parts = []
    for method in ("mixture_repeat", "mixture_svd"):
        level = verdicts(scores, method, ENSEMBLE)["level"]
        found = [
            f"{each.data.title} ({signed(one.mean, each.data.decimals)} on "
            f"{each.mean(ENSEMBLE, each.data.nll):.{each.data.decimals}f})"
            for each in scores
            if each.data.title in level
            and (one := each.difference(method, ENSEMBLE, each.data.nll)) is not None
            and one.mean > 0
        ]
        parts += [f"the {METHODS[method]} on {', '.join(found)}"] if found else []
    return f"Level, but with a higher mean NLL: {'; '.join(parts)}." if parts else ""


def _given_up(scores: Sequence[Scores]) -> list[str]:
    """Returns earlier choices of the ensemble that are better on test data, and the verdicts that they change."""
    lines = []
    for each in scores:
        earlier = each.given_up.get(ENSEMBLE)
        if earlier is not None:
            now, decimals = each.mean(ENSEMBLE, each.data.nll), each.data.decimals
            lines.append(
                f"On {each.data.title} the deep ensemble chosen in round {earlier.round} has "
                f"{number(earlier.mean, decimals)}, the one chosen after all rounds {number(now, decimals)}"
                f"{_changed(each, earlier)}."
            )
    return lines


def _changed(scores: Scores, earlier: OtherRound) -> str:
    strict, parts = _with_earlier_ensemble(scores), []
    for method in OURS:
        sides = [verdicts([one], method, ENSEMBLE) for one in (scores, strict)]
        before, after = (next((side for side, titles in found.items() if titles), None) for found in sides)
        found = strict.difference(method, ENSEMBLE, scores.data.nll)
        if before != after and found is not None:
            shown = difference(found, scores.data.decimals)
            name = METHODS[method] if method == "low_rank" else f"the {METHODS[method]}"
            parts.append(f"{name} is {after} against the former, not {before}: {shown}")
    return (
        f"; {'; '.join(parts)}"
        if parts
        else f"; against that of round {earlier.round} no verdict on these methods changes"
    )


def _incomplete(scores: Sequence[Scores]) -> list[str]:
    """Returns the lower NLLs of rounds that are not complete, so that the table does not have them."""
    lines = []
    for each in scores:
        there = [name for name in METHODS if each.values(name, each.data.nll)]  # no run diverged
        shown = {name: each.mean(name, each.data.nll) for name in each.incomplete if name in there}
        lower = {
            name: other.mean for name, other in each.incomplete.items() if name in shown and other.mean < shown[name]
        }
        if lower:
            best = min(there, key=lambda name: each.mean(name, each.data.nll))
            least = each.mean(best, each.data.nll)
            parts = [f"{METHODS[name]} {number(nll, each.data.decimals)}" for name, nll in lower.items()]
            below = [METHODS[name] for name, nll in lower.items() if nll < least]
            first = " and ".join(below)
            verb = "is" if len(below) == 1 else "are"
            words = f"Of these, {first} {verb} below" if below else "None of these is below"
            lines.append(
                f"A further round of {each.data.title} was not completed and does not count. Its NLLs: "
                f"{', '.join(parts)}. {words} the best of the table, the {METHODS[best]} with "
                f"{number(least, each.data.decimals)}{'' if best in each.incomplete else ', which has no such round'}."
                f"{_against_incomplete(each)}"
            )
    return lines


def _against_incomplete(scores: Scores) -> str:
    """Returns the differences to the ensemble of a round that is not complete."""
    other = scores.incomplete.get(ENSEMBLE)
    if other is None:
        return ""
    parts = []
    for method in OURS:
        found = _with_ensemble(scores, other).difference(method, ENSEMBLE, scores.data.nll)
        if found is not None and method not in scores.incomplete:
            parts.append(f"{METHODS[method]} {difference(found, scores.data.decimals)}")
    return f" Less that deep ensemble: {'; '.join(parts)}." if parts else ""


def one_round(scores: Sequence[Scores]) -> str:
    """Returns the data sets with one round though choices lie at edges, where the protocol asks for a second."""
    found = [each.data.title for each in scores if tuned_set(each.data.experiment).rounds == 1 and each.at_edge[0]]
    return (
        f"{' and '.join(found)} had one round of tuning, although choices were at an edge of the grid; the protocol "
        "asks for a second one, which was never planned."
        if found
        else ""
    )


def _at_edges(scores: Sequence[Scores]) -> str:
    at, every = (sum(numbers) for numbers in zip(*(each.at_edge for each in scores), strict=True))
    return (
        f"{at} of {every} choices are at an edge of what was tried of some setting, so most methods might gain from "
        "more tuning, the deep ensemble too."
    )


def _sizes(scores: Sequence[Scores]) -> str:
    """Returns the parameters of a mixture as a share of the ensemble's: by name where it has fewer."""
    small = [each for each in scores if is_smaller(each)]
    large = [100 * _ratio(each.parameters, "mixture_repeat") for each in scores if not is_smaller(each)]
    parts = [f"{100 * _ratio(each.parameters, 'mixture_repeat'):.0f} % on {each.data.title}" for each in small]
    parts += [f"{min(large):.0f} to {max(large):.0f} % on the other tables"] if large else []
    return f"The stored parameters of a mixture of five, as a share of the ensemble's: {', '.join(parts)}."


def _splits(scores: Sequence[Scores]) -> str:
    """Returns how many splits the regression tables have, and which has fewer."""
    counts = {each.data.title: len(each.runs[ENSEMBLE]) for each in scores if each.data.experiment in UCI}
    if not counts:
        return ""
    most = max(counts.values())
    fewer = ", ".join(f"{title} {count}" for title, count in counts.items() if count < most)
    return (
        f"On the {len(counts)} small tables a seed is one of {most}{f' ({fewer})' if fewer else ''} of the published "
        "splits. Splits overlap, so intervals are too narrow if anything."
    )


def _twice(scores: Sequence[Scores]) -> str:
    same = [each.data.title for each in scores if "Fashion" in each.data.title]
    words = "have the same images, so their verdicts are not independent."
    return f"{' and '.join(same)} {words}" if len(same) > 1 else ""


def _detection_by_total(scores: Sequence[Scores]) -> str:
    """Returns by how much more or less a mixture leads in AUROC-OOD where entropy detects instead of MI."""
    sides: dict[str, list[str]] = {"larger": [], "smaller": []}
    below = []
    for each in scores:
        pair = ("mixture_repeat", ENSEMBLE)
        if each.data.ood and all(each.values(name, each.data.by_total) for name in pair):
            own, total = (
                each.mean(pair[0], metric) - each.mean(pair[1], metric)
                for metric in (each.data.ood, each.data.by_total)
            )
            side = "larger" if total > own else "smaller"
            sides[side].append(f"{each.data.title} ({signed(total)}, not {signed(own)})")
            every = [each.mean(n, each.data.by_total) for n in METHODS if each.values(n, each.data.by_total)]
            below += [f"{each.data.title} ({min(every):.2f} to {max(every):.2f})"] if max(every) < 0.5 else []
    parts = [f"{side} on {', '.join(names)}" for side, names in sides.items() if names]
    worse = f" All methods are then below one half, worse than chance, on {', '.join(below)}." if below else ""
    return (
        "With entropy (Beijing: total standard deviation) instead of mutual information (epistemic standard "
        f"deviation), the mixture's lead over the ensemble in AUROC-OOD is {'; '.join(parts)}."
        f"{worse}"
        if parts
        else ""
    )
