"""The records of the experiment on CIFAR-10, round by round: the scores of a method and their paired differences."""

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from singularbayes_experiments.methods import protocol
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.runs.cifar10_records import read_lines

SECOND, THIRD, FOURTH, FIFTH = "second", "third", "fourth", "fifth"
# Folder below `FOLDER` → what the page calls it.
ROUNDS = {FIFTH: "fifth", FOURTH: "fourth", THIRD: "third", SECOND: "second", "": "first"}
WORK = {FIFTH: plan.WORK, FOURTH: plan.FOURTH, THIRD: plan.THIRD}  # of the rounds whose plan is a list
NAMES = {
    "deterministic": "deterministic",
    "deep_ensemble": "deep ensemble of 4",
    "full_rank": "full-rank",
    "rank_one": "rank-one",
    "low_rank": "low-rank",
    "low_rank_svd": "SVD-initialised low-rank",
    "mixture": "mixture of 4",
    "mixture_svd": "SVD-initialised mixture of 4",
    "low_rank_tied": "tied-scale low-rank",
    "mixture_tied": "tied-scale mixture of 4",
    "low_rank_distilled": "distilled low-rank",
    "mixture_distilled": "distilled mixture of 4",
    "mc_dropout": "MC dropout",
    "swag": "SWAG",
}
NETWORKS = {"resnet9": "ResNet-9", "resnet20": "ResNet-20"}
LEAST_SEEDS = 3  # of a paired interval that is called better or worse
OURS = ("mixture_tied", "mixture", "mixture_svd", "mixture_distilled")
THEIRS = ("deep_ensemble", "full_rank", "deterministic")
Records = Sequence[dict]


def read_round(folder: Path, name: str) -> Records:
    """Returns the records of a round.

    The fourth adds seeds and methods to the third, on ResNet-20 and without the held-out classes, where the settings
    are the same: what it did not run of these is the third's.
    """
    own = read_lines(folder / name)
    if name != FOURTH:
        return own
    mine, earlier = (
        {(one["network"], one["held_out"], one["method"], one["seed"]): one for one in results(records)}
        for records in (own, read_lines(folder / THIRD))
    )
    shared = {key[:2] for key in mine if key[:2] != ("resnet9", False)}
    return own + [one for key, one in earlier.items() if key[:2] in shared and key not in mine]


def latest_round(folder: Path, method: str, network: str = "resnet9") -> Records:
    """Returns the records of the last round in which a method has results on a network."""
    every = [read_round(folder, name) for name in ROUNDS]
    return next((records for records in every if scores(records, network, method, "test", "nll")), every[-1])


def results(records: Records) -> list[dict]:
    return [one for one in records if one["stage"] == "result" and not one["diverged"]]


def scores(records: Records, network: str, method: str, part: str, score: str) -> dict[int, float]:
    """Returns a score by seed; those of the part "ood" are of networks without the held-out classes."""
    held_out = part == "ood"
    return {
        one["seed"]: one[part][score]
        for one in sorted(results(records), key=lambda one: one["seed"])
        if (one["network"], one["method"], one["held_out"]) == (network, method, held_out)
        and score in (one.get(part) or {})
    }


def parameters(records: Records, network: str, method: str) -> int | None:
    """Returns the stored parameters of a method."""
    found = {one["parameters"] for one in results(records) if (one["network"], one["method"]) == (network, method)}
    return found.pop() if found else None


def detected(records: Records, network: str, method: str, column: str) -> tuple[list[float], list[float]]:
    """Returns the AUROC of a method over seeds, by entropy and by mutual information."""
    if column == "held_out":
        by_entropy, by_mi = (scores(records, network, method, "ood", f"auroc_{score}") for score in ("entropy", "mi"))
        return list(by_entropy.values()), list(by_mi.values())
    own = [
        one["other"][column]
        for one in results(records)
        if (one["network"], one["method"], one["held_out"]) == (network, method, False)
        and column in one.get("other", {})
    ]
    first, second = ([one[score] for one in own if score in one] for score in ("auroc_entropy", "auroc_mi"))
    return first, second


def detector(records: Records, network: str, column: str, score: str) -> list[float]:
    """Returns the AUROC of a plain score over seeds; the first round had those of held-out classes alone."""
    found = []
    for one in results(records):
        own = one.get("detectors", {})
        own = own.get(column, own if one["held_out"] and column == "held_out" else {})
        if one["network"] == network and score in own:
            found.append(own[score])
    return found


def find_pairs(records: Records, network: str, ours: str, theirs: str, part: str) -> list[tuple[float, float]]:
    """Returns the NLLs of two methods with the seeds that both have."""
    own, other = (scores(records, network, method, part, "nll") for method in (ours, theirs))
    return [(own[seed], other[seed]) for seed in sorted(own.keys() & other.keys())]


def difference(records: Records, network: str, ours: str, theirs: str, part: str) -> str:
    """Returns one cell: the mean, its interval, and a word where that does not reach 0 and has three seeds or more."""
    pairs = find_pairs(records, network, ours, theirs, part)
    if not pairs:
        return "–"
    if len(pairs) == 1:
        return f"{signed(pairs[0][0] - pairs[0][1])} (one seed)"
    found = protocol.paired(*map(list, zip(*pairs, strict=True)))
    sure = len(pairs) >= LEAST_SEEDS
    word = " better" if sure and found.high < 0 else " worse" if sure and found.low > 0 else ""
    return f"{signed(found.mean)} [{signed(found.low)}, {signed(found.high)}]{word}"


def mean_cell(values: Sequence[float], decimals: int = 4) -> str:
    """Returns mean ± standard error; "–" without values."""
    if not values:
        return "–"
    several = len(values) > 1 and max(values) > min(values)  # a detector without a network has one value
    error = f" ± {standard_error(values):.{decimals}f}" if several else ""
    return f"{np.mean(values):.{decimals}f}{error}"


def standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def signed(value: float) -> str:
    return ("−" if round(value, 4) < 0 else "+") + f"{abs(value):.4f}"


def count_seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def latest_rounds(folder: Path) -> dict[str, str]:
    """Returns, of every network with results, the last round that has its deep ensemble; else the last with any."""
    found = {}
    for network in NETWORKS:
        every = {
            name: [one for one in results(read_round(folder, name)) if one["network"] == network] for name in ROUNDS
        }
        whole = [name for name, own in every.items() if any(one["method"] == "deep_ensemble" for one in own)]
        there = [name for name, own in every.items() if own]
        if there:
            found[network] = (whole or there)[0]
    return found


def of_networks(records: Records, networks: Collection[str]) -> Records:
    """Returns the records on these networks; in the first round tuning was on ResNet-9 alone."""
    return [one for one in records if one.get("network", "resnet9") in networks]


def round_of(folder: Path, records: Records) -> str:
    """Returns what the page calls the round that records are of."""
    return next((words for name, words in ROUNDS.items() if read_round(folder, name) == records), "")


def repeated(folder: Path, network: str, method: str) -> dict[int, tuple[float, float]]:
    """Returns the test NLL of the seeds that both the third and the fourth round have, by seed."""
    third, fourth = (scores(read_lines(folder / name), network, method, "test", "nll") for name in (THIRD, FOURTH))
    return {seed: (third[seed], fourth[seed]) for seed in third.keys() & fourth.keys()}
