"""Sentences on CIFAR-10, made from its records: what was reproduced, how mixtures compare, and where they lose."""

from pathlib import Path

import numpy as np

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
    read_round,
    repeated,
    results,
    scores,
)

PAGE, FOLDER = "cifar10.md", "cifar10"
PUBLISHED = (0.917, 0.925)  # accuracy of one deterministic ResNet-20
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


def remark(folder: Path) -> str:
    """Returns how many mixtures are behind the ensemble, and one deterministic network; "" without results."""
    parts = []
    for network, title in NETWORKS.items():
        means = {one: np.mean(pairs, axis=0) for one in OURS if (pairs := _pairs(folder, network, one))}
        if means:
            behind = sum(mine > base for mine, base in means.values())
            parts.append(f"{behind} of {len(means)} on {title}")
    if not parts:
        return ""
    behind_one = [
        NAMES[one]
        for one in OURS
        if (pairs := _pairs(folder, "resnet9", one, "deterministic")) and np.greater(*np.mean(pairs, axis=0))
    ]
    more = f"; on ResNet-9 the {' and the '.join(behind_one)} also than one deterministic network" if behind_one else ""
    return (
        f"[CIFAR-10]({PAGE}) is not counted above, because its methods were tuned less. There mixtures of 4 have a "
        f"higher mean test NLL than the deep ensemble of 4: {' and '.join(parts)}{more}."
    )


def _pairs(folder: Path, network: str, ours: str, theirs: str = "deep_ensemble") -> list[tuple[float, float]]:
    return find_pairs(latest_round(folder, ours, network), network, ours, theirs, "test")


def losses(folder: Path) -> list[str]:
    """Returns where mixtures have a higher NLL than the deep ensemble with all seeds, a line per network."""
    lines = []
    for network, title in NETWORKS.items():
        parts = []
        for part in ("test", "corrupted"):
            found = [lost for ours in OURS if (lost := _higher(folder, network, ours, part))]
            parts += [f"{part} images, {', '.join(found)}"] if found else []
        if parts:
            lines.append(
                f"- [CIFAR-10]({PAGE}), {title}, against the {NAMES['deep_ensemble']}: NLL on {'; on '.join(parts)}"
            )
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
        notes.append("the interval includes 0")
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
        f"({first[seed]:.3f}), so at least one other component must be much worse. Their scores were not kept."
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
        "from each round, the pairing is nominal."
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
