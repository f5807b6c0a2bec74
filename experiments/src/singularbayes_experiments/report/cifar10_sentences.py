"""Sentences on CIFAR-10, made from its records: what was reproduced, how mixtures compare, and where they lose."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from singularbayes_experiments.methods import protocol
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.report.cifar10_scores import (
    LEAST_SEEDS,
    NAMES,
    NETWORKS,
    OURS,
    ROUNDS,
    Records,
    count_seeds,
    difference,
    find_pairs,
    latest_round,
    parameters,
    read_round,
    repeated,
    results,
    round_of,
    scores,
)

PAGE, FOLDER = "cifar10.md", "cifar10"
PUBLISHED = (0.917, 0.925)  # accuracy of one deterministic ResNet-20
EVERY_SEED = "with every seed"
MARGIN = 0.003  # within which it counts as reproduced


def reproduction(folder: Path) -> str:
    """Returns whether deterministic ResNets-20 reach the published accuracy: those of the tables, and longer ones."""
    longest = [
        one["test"]["accuracy"]
        for name in reversed(ROUNDS)
        for one in read_round(folder, name)
        if one["stage"] in ("result", "reproduction")
        and (one["network"], one["method"]) == ("resnet20", "deterministic")
        and not one["diverged"]
        and one.get("epochs", plan.PUBLISHED_EPOCHS) == plan.PUBLISHED_EPOCHS
    ]
    records = latest_round(folder, "deep_ensemble", "resnet20")
    own = list(scores(records, "resnet20", "deterministic", "test", "accuracy").values())
    epochs = trained_epochs(records, "resnet20")
    found = {f"after {epochs} epochs ({count_seeds(len(own))}), as in the tables below,": own} if own else {}
    if longest and epochs != plan.PUBLISHED_EPOCHS:
        unit = "" if found else " epochs"
        found[f"after {plan.PUBLISHED_EPOCHS}{unit} ({count_seeds(len(longest))})"] = longest
    published = f"published are about {100 * PUBLISHED[0]:.1f} to {100 * PUBLISHED[1]:.1f} %"
    if not found:
        return (
            f"The deterministic ResNet-20 has no result, so nothing here reproduces a published number ({published})."
        )
    means = {after: float(np.mean(values)) for after, values in found.items()}
    shown = " and ".join(f"{100 * mean:.2f} % {after}" for after, mean in means.items()).removesuffix(",")
    good = [is_published(mean) for mean in means.values()]
    word = "which it reproduces" if all(good) else "which it does not reproduce"
    return (
        f"One deterministic ResNet-20 has an accuracy of {shown}; {published}, {word} within {100 * MARGIN:.1f} points."
    )


def is_published(accuracy: float) -> bool:
    """Whether an accuracy of a deterministic ResNet-20 is within `MARGIN` of those that are published."""
    return PUBLISHED[0] - MARGIN <= accuracy <= PUBLISHED[1] + MARGIN


def trained_epochs(records: Records, network: str) -> int | None:
    """Returns the epochs of a deterministic network: those that the time decided, or else those of its results."""
    decided = [one["epochs"] for one in records if one["stage"] == "epochs" and one["network"] == network]
    own = [
        one.get("epochs", plan.PUBLISHED_EPOCHS if network == "resnet20" else None)
        for one in results(records)
        if (one["network"], one["method"], one["held_out"]) == (network, "deterministic", False)
    ]
    return next(iter([*decided, *own]), None)


def comparison(folder: Path, ours: str, network: str = "resnet9") -> str:
    """Returns how a mixture compares with the deep ensemble and with full-rank; "" without results."""
    records = latest_round(folder, ours, network)
    size, theirs = (parameters(records, network, method) for method in (ours, "deep_ensemble"))
    if size is None or theirs is None:
        return ""
    found = []
    for part in ("test", "corrupted"):
        pairs = find_pairs(records, network, ours, "deep_ensemble", part)
        if pairs:
            mine, base = np.mean(pairs, axis=0)
            found.append(f"{part} NLL {mine:.3f} against {base:.3f} ({NAMES['deep_ensemble']}), {_side(pairs)}")
    found += [each for each in [_against_full_rank(folder, records, ours, network)] if each]
    name = NAMES[ours][0].upper() + NAMES[ours][1:]
    epochs = trained_epochs(records, network)
    short = f" after {epochs} epochs" if epochs else ""
    short += ", under-trained" if is_under_trained(records, network) else ""
    where = "" if network == "resnet9" else f" on {NETWORKS[network]}{short}"
    return (
        f"{name}{where}, with {100 * size / theirs:.0f} % of the parameters of the deep ensemble: {'; '.join(found)}."
    )


def _against_full_rank(folder: Path, records: Records, ours: str, network: str) -> str:
    """Returns the comparison with one full-rank network: paired, or with that of the latest round that has it."""
    pairs = find_pairs(records, network, ours, "full_rank", "test")
    if pairs:
        mine, base = np.mean(pairs, axis=0)
        return f"test NLL {mine:.3f} against {base:.3f} (full-rank), {_side(pairs)}"
    other = latest_round(folder, "full_rank", network)
    own, theirs = (
        list(scores(each, network, method, "test", "nll").values())
        for each, method in ((records, ours), (other, "full_rank"))
    )
    if not own or not theirs:
        return ""
    side = "higher" if np.mean(own) > np.mean(theirs) else "lower"
    return (
        f"test NLL {np.mean(own):.3f} against {np.mean(theirs):.3f} (full-rank, {round_of(folder, other)} round), "
        f"{side}, not paired"
    )


def _side(pairs: Sequence[tuple[float, float]]) -> str:
    """Returns whether the first of pairs is lower or higher; of fewer than three seeds an interval says nothing."""
    mine, base = np.mean(pairs, axis=0)
    side = "higher" if mine > base else "lower"
    if len(pairs) < LEAST_SEEDS:
        return f"{side} ({count_seeds(len(pairs))})"
    found = protocol.paired(*map(list, zip(*pairs, strict=True)))
    if found.high < 0 or found.low > 0:
        return side
    alike = len({one > other for one, other in pairs}) == 1
    return (
        f"{side} with every seed ({len(pairs)} seeds are too few for an interval)" if alike else f"{side}, though level"
    )


def single(records: Records) -> str:
    """Returns how one distilled low-rank network compares with the deterministic network; "" without results."""
    pairs = find_pairs(records, "resnet9", "low_rank_distilled", "deterministic", "test")
    if not pairs:
        return ""
    sizes = [parameters(records, "resnet9", one) or 1 for one in ("low_rank_distilled", "deterministic")]
    mine, base = np.mean(pairs, axis=0)
    return (
        f"One distilled low-rank network, with {100 * sizes[0] / sizes[1]:.0f} % of the parameters of one "
        f"deterministic network: test NLL {mine:.3f} against {base:.3f}, {_side(pairs)}."
    )


def remark(folder: Path) -> str:
    """Returns which mixtures are behind the ensemble, and one deterministic network, on ResNet-9; "" if none is."""
    parts = []
    for theirs, words in (("deep_ensemble", "the deep ensemble of 4"), ("deterministic", "one deterministic network")):
        lost = {one: few for one in OURS if (few := _lost(folder, one, theirs)) is not None}
        if lost:
            names = [f"{NAMES[one]}{few}" for one, few in lost.items()]
            listed = " and the ".join(filter(None, [", the ".join(names[:-1]), names[-1]]))
            verb = "has" if len(names) == 1 else "have"
            parts.append(f"the {listed} {verb} a higher NLL than {words}")
    text = "; ".join(parts)
    return f"Not among these: on [CIFAR-10]({PAGE}), ResNet-9 with less tuning, {text}." if text else ""


def _lost(folder: Path, ours: str, theirs: str) -> str | None:
    """Returns None unless the test NLL on ResNet-9 is higher with all seeds; else, how far that is from certain."""
    records = latest_round(folder, ours)
    pairs = find_pairs(records, "resnet9", ours, theirs, "test")
    worse = difference(records, "resnet9", ours, theirs, "test").endswith(" worse")
    if not pairs or (not worse and any(mine <= base for mine, base in pairs)):
        return None
    if len(pairs) < LEAST_SEEDS:
        return f" ({count_seeds(len(pairs))})"
    return "" if worse else f" (with every seed; {len(pairs)} are too few for an interval)"


def losses(folder: Path) -> list[str]:
    """Returns where mixtures have a higher NLL than the deep ensemble with all seeds, a line per network."""
    lines = []
    for network, title in NETWORKS.items():
        parts = []
        for part in ("test", "corrupted"):
            found = [lost for ours in OURS if (lost := _higher(folder, network, ours, part))]
            parts += [f"{part} images, {', '.join(found)}"] if found else []
        few = f". “{EVERY_SEED}”: too few seeds for an interval" if any(EVERY_SEED in part for part in parts) else ""
        if parts:
            lost = f"NLL on {'; on '.join(parts)}{few}"
            lines.append(f"- [CIFAR-10]({PAGE}), {title}, against the {NAMES['deep_ensemble']}: {lost}")
    return lines


def _higher(folder: Path, network: str, ours: str, part: str) -> str:
    """Returns by how much the NLL is higher than the ensemble's, where it is with all seeds, and how sure that is."""
    records = latest_round(folder, ours, network)
    pairs = find_pairs(records, network, ours, "deep_ensemble", part)
    if not pairs or any(mine <= base for mine, base in pairs):
        return ""
    mine, base = np.mean(pairs, axis=0)
    cell = difference(records, network, ours, "deep_ensemble", part)
    notes = [f"after {trained_epochs(records, network)} epochs"] if is_under_trained(records, network) else []
    if len(pairs) < LEAST_SEEDS:
        notes.append(count_seeds(len(pairs)))
    elif not cell.endswith(" worse"):
        notes.append(EVERY_SEED)
    noted = f" ({', '.join(notes)})" if notes else ""
    return f"{NAMES[ours]} +{mine - base:.3f}{noted}"


def is_under_trained(records: Records, network: str) -> bool:
    """Whether the deterministic ResNet-20 of a round is below the published accuracy."""
    own = list(scores(records, network, "deterministic", "test", "accuracy").values())
    return network == "resnet20" and bool(own) and not is_published(float(np.mean(own)))


def by_component(records: Records) -> str:
    """Returns the range of the test NLL of the components of a mixture, each alone; "" where it was not kept."""
    every = [
        nll
        for one in results(records)
        if (one["method"], one["held_out"]) == ("mixture_svd", False)
        for nll in one.get("components", ())
    ]
    if not every:
        return ""
    low, high = min(every), max(every)
    return f" Components of the {NAMES['mixture_svd']}, each alone, have a test NLL of {low:.3f} to {high:.3f}."


def by_seed(records: Records) -> str:
    """Returns the test NLL of the mixture with tied scales seed by seed, and where it is above its first component.

    `low_rank_tied` is the first component alone. Scores of the others were not kept.
    """
    nll, first = (scores(records, "resnet9", method, "test", "nll") for method in ("mixture_tied", "low_rank_tied"))
    if not nll:
        return ""
    shown = ", ".join(f"{nll[seed]:.3f}" for seed in sorted(nll))
    bad = [
        f"With seed {seed} the four components together ({nll[seed]:.3f}) are worse than the first of them alone "
        f"({first[seed]:.3f}), so at least one of the others is bad. Scores of single components were not kept."
        for seed in sorted(nll.keys() & first.keys())
        if nll[seed] > first[seed]
    ]
    return " ".join([f" The test NLL of the mixture with tied scales is {shown}, one number per seed.", *bad])


def nominal_pairs(folder: Path) -> str:
    """Returns how far runs with the same settings and seed are apart, where two rounds have them; else ""."""
    found = [(seed, one, other) for seed, (one, other) in repeated(folder, "resnet20", "deterministic").items()]
    if not found:
        return ""
    seed, one, other = max(found, key=lambda each: abs(each[1] - each[2]))
    return (
        f"The deterministic ResNet-20 with seed {seed} has a test NLL of {one:.4f} in the third round and {other:.4f} "
        "in the fourth, with the same settings: a seed does not fix a run there. Where a pair takes one method "
        "from either round, it is a pair in name alone."
    )


def first_component_worse(folder: Path) -> str:
    """Returns which seeds of the mixture with tied scales are worse than its first component; "" if none is."""
    records = latest_round(folder, "mixture_tied")
    nll, first = (scores(records, "resnet9", method, "test", "nll") for method in ("mixture_tied", "low_rank_tied"))
    bad = [seed for seed in sorted(nll.keys() & first.keys()) if nll[seed] > first[seed]]
    shown = ", ".join(f"{nll[seed]:.3f} against {first[seed]:.3f}" for seed in bad)
    if not bad:
        return ""
    return (
        f"With {len(bad)} of {len(nll)} seeds that mixture is far worse in test NLL than its own first component "
        f"({shown})."
    )
