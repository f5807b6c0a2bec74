"""The beginning of the page on CIFAR-10: a sentence per network, remarks on its table, and where low rank loses."""

from collections.abc import Mapping

import numpy as np

from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.report.cifar10_detection import by_saturation, detection_losses
from singularbayes_experiments.report.cifar10_differences import Difference, find_difference, latest_difference
from singularbayes_experiments.report.cifar10_left_out import never_planned
from singularbayes_experiments.report.cifar10_scores import (
    ENSEMBLE,
    NAMES,
    NETWORKS,
    OURS,
    ROUNDS,
    Records,
    Rounds,
    epochs_of,
    latest_round,
    parameters,
    results,
    scores,
    table_lines,
)
from singularbayes_experiments.report.rows import listed
from singularbayes_experiments.report.text import signed


def sentences(rounds: Rounds) -> list[str]:
    """Returns a sentence per network: how near the best mixture comes to the ensemble."""
    return [each for network in NETWORKS if (each := sentence(rounds, network))]


def sentence(rounds: Rounds, network: str) -> str:
    """Returns the test NLL of the best mixture beside the ensemble's, its parameters, and whether it is worse."""
    found = _against_ensemble(rounds, network)
    if not found:
        return ""
    best = min(found, key=lambda ours: np.mean(found[ours].ours))
    records = latest_round(rounds, best, network)
    sizes = [parameters(records, network, method) or 1 for method in (best, ENSEMBLE)]
    ours, theirs = np.mean(found[best].ours), np.mean(found[best].theirs)
    share = f"{100 * sizes[0] / sizes[1]:.0f} %"
    return (
        f"**{NETWORKS[network]} in one sentence:** the best of {len(found)} low-rank mixtures, the {NAMES[best]}, has "
        f"a test NLL of {ours:.3f} against {theirs:.3f} of the {NAMES[ENSEMBLE]}, with {share} of its parameters "
        f"({_verdict(found[best])})."
    )


def _against_ensemble(rounds: Rounds, network: str) -> dict[str, Difference]:
    return {ours: each for ours in OURS if (each := latest_difference(rounds, network, ours, "test"))}


def _verdict(found: Difference) -> str:
    """Returns whether an NLL is worse or better than the ensemble's; level where the interval reaches 0."""
    if found.interval is None:
        return f"{found.shown()}, too few for an interval"
    return f"{found.verdict or 'level'}: {found.shown()}"


def remarks(rounds: Rounds, network: str) -> str:
    """Returns what a reader of the table of a network has to know, from its records."""
    found = [components(rounds, network), worse_than_first(rounds, network), never_planned(network)]
    return " ".join(each for each in found if each)


def components(rounds: Rounds, network: str) -> str:
    """Returns the range of the test NLL of the components of mixtures, each alone, where it was kept."""
    found = []
    for method in OURS:
        own = [
            nll
            for one in results(latest_round(rounds, method, network))
            if (one["network"], one["method"], one["held_out"]) == (network, method, False)
            for nll in one.get("components") or ()
        ]
        there = [nll for nll in own if nll is not None]
        lost = f"; {len(own) - len(there)} of {len(own)} diverged" if len(there) < len(own) else ""
        if there:
            found.append(
                f"Components of the {NAMES[method]}, each alone, have a test NLL of {min(there):.3f} to "
                f"{max(there):.3f}{lost}."
            )
        elif own:
            found.append(f"All {len(own)} components of the {NAMES[method]} diverged, each alone.")
    return " ".join(found)


def worse_than_first(rounds: Rounds, network: str) -> str:
    """Returns the seeds with which a mixture is worse than its first component, the single network of its family."""
    found = []
    for first, several in first_and_several():
        records = latest_round(rounds, several, network)
        nll = scores(records, network, several, "test", "nll")
        for seed, one, every in bad_seeds(records, network, first, several):
            others = [f"{value:.3f}" for each, value in nll.items() if each != seed]
            beside = f" ({listed(others)} with the others)" if others else ""
            found.append(
                f"The {NAMES[several]} has a test NLL of {every:.3f} with seed {seed}{beside}, worse than that of its "
                f"first component alone ({one:.3f}): at least one other component must be much worse."
            )
    return " ".join(found)


def first_and_several() -> list[tuple[str, str]]:
    """Returns the pairs of a low-rank network and the mixture whose first component it is."""
    return [(next(iter(methods)), name) for methods in plan.FAMILIES.values() for name in methods if name in OURS]


def bad_seeds(records: Records, network: str, first: str, several: str) -> list[tuple[int, float, float]]:
    """Returns the seeds with which a mixture has a higher test NLL than its first component, and both."""
    one, every = (scores(records, network, method, "test", "nll") for method in (first, several))
    return [(seed, one[seed], every[seed]) for seed in sorted(one.keys() & every.keys()) if every[seed] > one[seed]]


def ensemble_between_rounds(rounds: Rounds) -> str:
    """Returns how far the ensemble itself differs between rounds: why rows are compared in their round alone."""
    parts = []
    for network, title in NETWORKS.items():
        found: Mapping[str, tuple[float, int | None]] = {
            name: (float(np.mean(nll)), epochs_of(own, network, ENSEMBLE))
            for name, own in rounds.items()
            if (nll := list(scores(own, network, ENSEMBLE, "test", "nll").values()))
        }
        if len(found) > 1:
            shown = ", ".join(f"{nll:.3f} ({ROUNDS[name]}, {epochs} epochs)" for name, (nll, epochs) in found.items())
            parts.append(f"{shown} on {title}")
    if not parts:
        return ""
    return (
        f"The {NAMES[ENSEMBLE]} itself differs between rounds in its test NLL: {'; '.join(parts)}. So a method is "
        "compared within its round alone."
    )


def where_it_loses(rounds: Rounds) -> list[str]:
    """Returns a line per network and score: how many mixtures are behind the ensemble, and by which margin."""
    lines = []
    for network, title in NETWORKS.items():
        for part in ("test", "corrupted"):
            found = {ours: each for ours in OURS if (each := latest_difference(rounds, network, ours, part))}
            if found:
                higher = sum(each.mean > 0 for each in found.values())
                lines.append(
                    f"- {title}, NLL of {part} images: higher than the ensemble's for {higher} of {len(found)} "
                    f"mixtures; by the interval worse for {_named(found, 'worse')}, better for "
                    f"{_named(found, 'better')}."
                )
        behind = [
            f"the {NAMES[ours]} ({signed(each.mean)})"
            for ours in OURS
            if (each := latest_difference(rounds, network, ours, "test", "deterministic")) and each.mean > 0
        ]
        if behind:
            lines.append(
                f"- {title}, NLL of test images: higher than one deterministic network's for {listed(behind)}."
            )
        if detected := detection_losses(rounds, network):
            lines.append(f"- {title}, {detected}")
    lines += [f"- {each}" for each in (_worse_in_earlier_rounds(rounds), by_saturation(rounds)) if each]
    return lines


def _worse_in_earlier_rounds(rounds: Rounds) -> str:
    """Returns the mixtures that an earlier round has as worse than the ensemble by the interval, and the last not."""
    found = []
    for network, title in NETWORKS.items():
        for ours in OURS:
            for part in ("test", "corrupted"):
                last = latest_difference(rounds, network, ours, part)
                if last is not None and last.verdict != "worse":
                    every = {name: find_difference(own, network, ours, ENSEMBLE, part) for name, own in rounds.items()}
                    found += [
                        f"the {NAMES[ours]} on {title} ({part} images, {ROUNDS[name]} round, {each.cell()})"
                        for name, each in every.items()
                        if each is not None and each.verdict == "worse"
                    ]
    return f"Worse by the interval in an earlier round, though not in the last: {'; '.join(found)}." if found else ""


def beside_one_network(rounds: Rounds, network: str) -> list[str]:
    """Returns the table of low-rank networks and mixtures beside one deterministic and one full-rank network."""
    rows = []
    for method in (name for pair in first_and_several() for name in pair):
        cells = [
            "–" if (each := latest_difference(rounds, network, method, part, theirs)) is None else each.cell()
            for theirs in ("deterministic", "full_rank")
            for part in ("test", "corrupted")
        ]
        rows += [[NAMES[method], *cells]] if set(cells) != {"–"} else []
    columns = [f"less {theirs}, {part}" for theirs in ("deterministic", "full-rank") for part in ("test", "corrupted")]
    return table_lines(columns, rows)


def _named(found: Mapping[str, Difference], verdict: str) -> str:
    return listed([f"the {NAMES[ours]}" for ours, each in found.items() if each.verdict == verdict]) or "none"
