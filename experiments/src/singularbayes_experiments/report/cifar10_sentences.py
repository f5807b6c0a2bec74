"""Sentences on CIFAR-10 from its records: what was reproduced, and what the summary and the disclosures say of it."""

from pathlib import Path

import numpy as np

from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.report.cifar10_differences import LEAST_SEEDS, latest_difference
from singularbayes_experiments.report.cifar10_lead import bad_seeds, first_and_several
from singularbayes_experiments.report.cifar10_scores import (
    ENSEMBLE,
    NAMES,
    NETWORKS,
    OURS,
    Records,
    Rounds,
    count_seeds,
    epochs_of,
    latest_round,
    repeated,
    scores,
)
from singularbayes_experiments.report.text import signed

PAGE, FOLDER = "cifar10.md", "cifar10"
PUBLISHED = (0.917, 0.925)  # accuracy of one deterministic ResNet-20
MARGIN = 0.003  # within which it counts as reproduced


def reproduction(rounds: Rounds) -> str:
    """Returns whether deterministic ResNets-20 reach the published accuracy: those of the tables, and longer ones."""
    longest = [
        one["test"]["accuracy"]
        for records in reversed(list(rounds.values()))
        for one in records
        if one["stage"] in ("result", "reproduction")
        and (one["network"], one["method"]) == ("resnet20", "deterministic")
        and not one["diverged"]
        and one.get("epochs", plan.PUBLISHED_EPOCHS) == plan.PUBLISHED_EPOCHS
    ]
    records = latest_round(rounds, ENSEMBLE, "resnet20")
    own = list(scores(records, "resnet20", "deterministic", "test", "accuracy").values())
    epochs = epochs_of(records, "resnet20", "deterministic")
    found = {f"after {epochs} epochs ({count_seeds(len(own))}), as in the table": own} if own else {}
    if longest and epochs != plan.PUBLISHED_EPOCHS:
        unit = "" if found else " epochs"
        found[f"after {plan.PUBLISHED_EPOCHS}{unit} ({count_seeds(len(longest))})"] = longest
    published = f"published are about {100 * PUBLISHED[0]:.1f} to {100 * PUBLISHED[1]:.1f} %"
    if not found:
        return (
            f"The deterministic ResNet-20 has no result, so nothing here reproduces a published number ({published})."
        )
    means = {after: float(np.mean(values)) for after, values in found.items()}
    shown = ", and ".join(f"{100 * mean:.2f} % {after}" for after, mean in means.items())
    good = [is_published(mean) for mean in means.values()]
    word = "which it reproduces" if all(good) else "which it does not reproduce"
    return (
        f"One deterministic ResNet-20 has an accuracy of {shown}; {published}, {word} within {100 * MARGIN:.1f} points."
    )


def is_published(accuracy: float) -> bool:
    """Whether an accuracy of a deterministic ResNet-20 is within `MARGIN` of those that are published."""
    return PUBLISHED[0] - MARGIN <= accuracy <= PUBLISHED[1] + MARGIN


def remark(rounds: Rounds) -> str:
    """Returns how many mixtures are behind the ensemble, and behind one deterministic network; "" without results."""
    parts, behind_one = [], []
    for network, title in NETWORKS.items():
        found = [each for ours in OURS if (each := latest_difference(rounds, network, ours, "test"))]
        if found:
            parts.append(f"{sum(each.mean > 0 for each in found)} of {len(found)} on {title}")
        names = [
            f"the {NAMES[ours]}{f' ({after})' if (after := _after(rounds, network, ours)) else ''}"
            for ours in OURS
            if (each := latest_difference(rounds, network, ours, "test", "deterministic")) and each.mean > 0
        ]
        behind_one += [f"{' and '.join(names)} on {title}"] if names else []
    if not parts:
        return ""
    more = (
        f". One deterministic network also has a lower one than {', and than '.join(behind_one)}" if behind_one else ""
    )
    return (
        f"[CIFAR-10]({PAGE}) is not counted above, because its methods were tuned less. There mixtures of 4 have a "
        f"higher mean test NLL than the deep ensemble of 4: {' and '.join(parts)}{more}."
    )


def losses(rounds: Rounds) -> list[str]:
    """Returns where mixtures have a higher mean NLL than the deep ensemble, a line per network."""
    lines = []
    for network, title in NETWORKS.items():
        parts = []
        for part in ("test", "corrupted"):
            found = [lost for ours in OURS if (lost := _higher(rounds, network, ours, part))]
            parts += [f"{part} images, {', '.join(found)}"] if found else []
        if parts:
            lines.append(f"- [CIFAR-10]({PAGE}), {title}, against the {NAMES[ENSEMBLE]}: NLL on {'; on '.join(parts)}")
    return lines


def _higher(rounds: Rounds, network: str, ours: str, part: str) -> str:
    """Returns by how much the mean NLL is higher than the ensemble's, and how sure that is."""
    found = latest_difference(rounds, network, ours, part)
    if found is None or found.mean <= 0:
        return ""
    seeds = len(found.ours)
    sure = count_seeds(seeds) if seeds < LEAST_SEEDS else "" if found.verdict else "the interval includes 0"
    notes = ", ".join(filter(None, [_after(rounds, network, ours), sure]))
    return f"{NAMES[ours]} {signed(found.mean)}{f' ({notes})' if notes else ''}"


def _after(rounds: Rounds, network: str, ours: str) -> str:
    """Returns the epochs of a round whose deterministic ResNet-20 is below the published accuracy; else ""."""
    records = latest_round(rounds, ours, network)
    under = is_under_trained(records, network)
    return f"after {epochs_of(records, network, 'deterministic')} epochs" if under else ""


def is_under_trained(records: Records, network: str) -> bool:
    """Whether the deterministic ResNet-20 of a round is below the published accuracy."""
    own = list(scores(records, network, "deterministic", "test", "accuracy").values())
    return network == "resnet20" and bool(own) and not is_published(float(np.mean(own)))


def nominal_pairs(folder: Path) -> str:
    """Returns how far runs with the same settings and seed are apart, where two rounds have them; else ""."""
    found = [
        (network, method, seed, one, other)
        for network in NETWORKS
        for method in NAMES
        for seed, (one, other) in repeated(folder, network, method).items()
    ]
    if not found:
        return ""
    network, method, seed, one, other = max(found, key=lambda each: abs(each[3] - each[4]))
    return (
        f"The {NAMES[method]} {NETWORKS[network]} with seed {seed} has a test NLL of {one:.4f} in the third round and "
        f"{other:.4f} in the fourth, with the same settings: a seed does not fix a run there. Where a pair takes one "
        "method from each round, the pairing is nominal."
    )


def first_component_worse(rounds: Rounds) -> str:
    """Returns which seeds of a mixture are worse than its first component; "" if none is."""
    found = []
    for network, title in NETWORKS.items():
        for first, several in first_and_several():
            records = latest_round(rounds, several, network)
            bad = bad_seeds(records, network, first, several)
            if bad:
                count = len(scores(records, network, several, "test", "nll"))
                shown = ", ".join(f"{every:.3f} against {one:.3f}" for _, one, every in bad)
                found.append(
                    f"With {len(bad)} of {count} seeds the {NAMES[several]} on {title} is far worse in test NLL than "
                    f"its own first component ({shown})."
                )
    return " ".join(found)
