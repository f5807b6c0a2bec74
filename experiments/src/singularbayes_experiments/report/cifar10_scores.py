"""The records of the experiment on CIFAR-10, round by round, and the scores in them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from singularbayes_experiments.methods.protocol import standard_error
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.runs.cifar10_records import read_lines

SECOND, THIRD, FOURTH, FIFTH = "second", "third", "fourth", "fifth"
# Folder below `FOLDER` → what the page calls it.
ROUNDS = {FIFTH: "fifth", FOURTH: "fourth", THIRD: "third", SECOND: "second", "": "first"}
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
ENSEMBLE = "deep_ensemble"
OURS = ("mixture_tied", "mixture", "mixture_svd", "mixture_distilled")
# Records of the first round have no epochs: those of a network, and of one that starts at a trained network.
_FIRST_EPOCHS = {"resnet9": (16, 6), "resnet20": (plan.PUBLISHED_EPOCHS, plan.PUBLISHED_EPOCHS)}
Records = Sequence[dict]
Rounds = Mapping[str, Records]  # the last round first


def read_rounds(folder: Path) -> Rounds:
    """Returns the records of all rounds, the last one first; none of a round that is not there."""
    return {name: read_round(folder, name) for name in ROUNDS}


def read_round(folder: Path, name: str) -> Records:
    """Returns the records of a round.

    The fourth adds seeds and methods to the third, on ResNet-20 and without the held-out classes, where the settings
    are the same: what it did not run of these is the third's. A run of the fourth that diverged was run.
    """
    own = read_lines(folder / name)
    if name != FOURTH:
        return own
    mine, earlier = (
        {(one["network"], one["held_out"], one["method"], one["seed"]): one for one in records}
        for records in ([one for one in own if one["stage"] == "result"], results(read_lines(folder / THIRD)))
    )
    shared = {key[:2] for key in mine if key[:2] != ("resnet9", False)}
    return own + [one for key, one in earlier.items() if key[:2] in shared and key not in mine]


def latest_name(rounds: Rounds, method: str, network: str) -> str | None:
    """Returns the last round in which a method has results on a network."""
    return next((name for name, own in rounds.items() if scores(own, network, method, "test", "nll")), None)


def latest_round(rounds: Rounds, method: str, network: str) -> Records:
    """Returns the records of the last round in which a method has results on a network."""
    name = latest_name(rounds, method, network)
    return [] if name is None else rounds[name]


def results(records: Records) -> list[dict]:
    return [one for one in records if one["stage"] == "result" and not one["diverged"]]


def scores(records: Records, network: str, method: str, part: str, score: str) -> dict[int, float]:
    """Returns a score by seed.

    Args:
        part: "test", "corrupted", "ood" (of networks without the held-out classes), or other data by name.
    """
    held_out = part == "ood"
    found: dict[int, float] = {}
    for one in sorted(results(records), key=lambda one: one["seed"]):
        if (one["network"], one["method"], one["held_out"]) == (network, method, held_out):
            own = one.get(part) or one.get("other", {}).get(part) or {}
            found |= {one["seed"]: own[score]} if score in own else {}
    return found


def epochs_of(records: Records, network: str, method: str) -> int | None:
    """Returns the epochs that a method trained for, after those of the ensemble if it starts there; None: no results.

    Records of the first round have none: they are its plan's.
    """
    started = plan.METHODS[method].starts_at_trained
    for one in results(records):
        if (one["network"], one["method"], one["held_out"]) == (network, method, False):
            return one.get("epochs") or one.get("settings", {}).get("epochs") or _FIRST_EPOCHS[network][started]
    return None


def parameters(records: Records, network: str, method: str) -> int | None:
    """Returns the stored parameters of a method."""
    found = {one["parameters"] for one in results(records) if (one["network"], one["method"]) == (network, method)}
    return found.pop() if found else None


def mean_cell(values: Sequence[float], decimals: int = 3) -> str:
    """Returns mean ± standard error; "–" without values."""
    if not values:
        return "–"
    several = len(values) > 1 and max(values) > min(values)  # a detector without a network has one value
    error = f" ± {standard_error(values):.{decimals}f}" if several else ""
    return f"{np.mean(values):.{decimals}f}{error}"


def in_millions(count: int) -> str:
    """Returns a number of parameters with three digits.

    >>> in_millions(26_292_520), in_millions(282_532)
    ('26.3 M', '0.283 M')
    """
    return f"{count / 1e6:.3g} M"


def count_seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def of_networks(records: Records, networks: Collection[str]) -> Records:
    """Returns the records on these networks; in the first round tuning was on ResNet-9 alone."""
    return [one for one in records if one.get("network", "resnet9") in networks]


def tuning_of(records: Records, network: str, family: str) -> list[dict]:
    """Returns the configurations of a family that a round tried on a network."""
    return [one for one in of_networks(records, [network]) if (one["stage"], one.get("family")) == ("tuning", family)]


def repeated(folder: Path, network: str, method: str) -> dict[int, tuple[float, float]]:
    """Returns the test NLL of the seeds that the third and the fourth round ran with the same settings, by seed."""
    third, fourth = (
        {
            one["seed"]: one
            for one in results(read_lines(folder / name))
            if (one["network"], one["method"], one["held_out"]) == (network, method, False)
        }
        for name in (THIRD, FOURTH)
    )
    return {
        seed: (third[seed]["test"]["nll"], fourth[seed]["test"]["nll"])
        for seed in sorted(third.keys() & fourth.keys())
        if _settings(third[seed]) == _settings(fourth[seed])
    }


def _settings(one: dict) -> dict:
    """Returns the settings and epochs of a record; settings that it does not have take their default."""
    unset = asdict(plan.Settings(0.0)) | {"outputs": False}  # the fourth round's, which the present plan does not have
    return unset | one.get("settings", {}) | {"trained": one.get("epochs")}


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[str]], corner: str = "") -> list[str]:
    """Returns a table whose cells but the first are to the right; none without rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    head = " | ".join([corner, *columns]).strip()
    return [f"| {head} |", f"|---|{'---:|' * len(columns)}", *lines] if rows else []
