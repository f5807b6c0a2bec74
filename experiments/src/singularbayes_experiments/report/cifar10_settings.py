"""The settings of every method on CIFAR-10: what was chosen, of how many configurations, and whether at their edge."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from singularbayes_experiments.methods.protocol import edges
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.report.cifar10_differences import epochs_cell
from singularbayes_experiments.report.cifar10_scores import (
    NAMES,
    NETWORKS,
    ROUNDS,
    SECOND,
    Records,
    Rounds,
    latest_name,
    of_networks,
    results,
    table_lines,
    tuning_of,
)

COLUMNS = ("round", "epochs", "ranks", "rate", "KL weight β", "η", "rate of ρ", "decay", "other", "tried", "edge")
LETTERS = {"beta": "β", "eta": "η", "rho_rate": "rate of ρ", "width": "prior's width"}
_SHORT_EPOCHS = {SECOND: 16}  # of the configurations without epochs of their own, beside longer ones
_LOW_RANK = ("low_rank", "distilled", "tied")
WORDS = (
    "Rate: the peak of SGD's, or of SWAG its constant one. η: posterior scales at the start, as a multiple of the "
    "scale of the means (of rank-one vectors themselves). Rate of ρ: the peak of Adam's for scales. Decay: weight "
    "decay, or the strength of the prior that stands for it. Ranks: the least and the greatest of all layers; all of "
    "them are below. Tried: configurations, with one tuning seed, and the round that tried them. Edge: settings whose "
    "value is the least or the greatest of several that were tried."
)


def settings_table(rounds: Rounds, network: str) -> list[str]:
    """Returns the settings of the last results on a network, a row per family and round."""
    return table_lines(COLUMNS, [_row(rounds, name, network, methods) for name, methods in _families(rounds, network)])


def edge_count(rounds: Rounds) -> str:
    """Returns how many of the choices in the tables lie at an edge of what was tried."""
    every = [(name, network, methods[0]) for network in NETWORKS for name, methods in _families(rounds, network)]
    found = [at for each in every if (at := find_edges(rounds, *each)) is not None]
    if not found:
        return ""
    at_edge = sum(map(bool, found))
    return f"Of {len(found)} choices, {at_edge} lie at an edge of what was tried: a wider search could find better."


def _families(rounds: Rounds, network: str) -> list[tuple[str, list[str]]]:
    """Returns the methods of a family whose last results are of one round, and the round."""
    found: dict[tuple[str, str], list[str]] = {}
    for family, methods in plan.FAMILIES.items():
        for method in methods:
            if (name := latest_name(rounds, method, network)) is not None:
                found.setdefault((family, name), []).append(method)
    return [(name, methods) for (_, name), methods in found.items()]


def _row(rounds: Rounds, name: str, network: str, methods: Sequence[str]) -> list[str]:
    place, kind = chosen(rounds[name], network, methods[0]), plan.METHODS[methods[0]].kind
    posterior = kind not in ("deterministic", "dropout")
    ranks = find_ranks(rounds, network, kind) if kind in _LOW_RANK else ()
    return [
        " and ".join(NAMES[each] for each in methods),
        ROUNDS[name],
        epochs_cell(rounds[name], network, methods[0]),
        f"{min(ranks)} to {max(ranks)}" if ranks else "",
        f"{place['rate']:g}",
        *(f"{place[key]:g}" if posterior else "" for key in ("beta", "eta", "rho_rate")),
        f"{place['decay']:g}",
        ", ".join(f"{LETTERS.get(key, key)} {place[key]:g}" for key in ("width", "dropout") if place[key]),
        _tried(rounds, name, network, methods[0]),
        _at_edge(find_edges(rounds, name, network, methods[0])),
    ]


def _tried(rounds: Rounds, name: str, network: str, method: str) -> str:
    """Returns how many configurations the last tuning up to a round had."""
    tuned = _tuned_in(rounds, name, network, method)
    if tuned is None:
        return "none"
    every = tuning_of(rounds[tuned], network, _family(method))
    lost = sum(one["diverged"] for one in every)
    return f"{len(every)}, {ROUNDS[tuned]}{f' ({lost} diverged)' if lost else ''}"


def _at_edge(found: Mapping[str, str] | None) -> str:
    if found is None:
        return ""
    return ", ".join(f"{LETTERS.get(key, key)} {side}" for key, side in found.items()) or "none"


def find_edges(rounds: Rounds, name: str, network: str, method: str) -> dict[str, str] | None:
    """Returns the settings of the results of a round at an edge of what was tried; None where nothing was."""
    tuned = _tuned_in(rounds, name, network, method)
    if tuned is None:
        return None
    return edges(chosen(rounds[name], network, method), tried_places(rounds[tuned], tuned, network, _family(method)))


def chosen(records: Records, network: str, method: str) -> dict[str, Any]:
    """Returns the settings of the results of a method, with the plan's value of those that a record does not have."""
    own = next(
        one for one in results(records) if (one["network"], one["method"], one["held_out"]) == (network, method, False)
    )
    place = asdict(plan.Settings(0.0)) | own.get("settings", {})
    return place | {"epochs": own.get("epochs") or place["epochs"]}


def tried_places(records: Records, name: str, network: str, family: str) -> list[dict[str, Any]]:
    """Returns the settings of the configurations of a family in a round."""
    unset = asdict(plan.Settings(0.0)) | {"epochs": _SHORT_EPOCHS.get(name)}
    found = [one["settings"] for one in tuning_of(records, network, family)]
    return [unset | {key: value for key, value in each.items() if value is not None} for each in found]


def _tuned_in(rounds: Rounds, name: str, network: str, method: str) -> str | None:
    """Returns the last round up to a given one that tuned the family of a method."""
    up_to = list(rounds)[list(rounds).index(name) :]
    return next((each for each in up_to if tuning_of(rounds[each], network, _family(method))), None)


def _family(method: str) -> str:
    return next(family for family, methods in plan.FAMILIES.items() if method in methods)


def find_ranks(rounds: Rounds, network: str, kind: str) -> Sequence[int]:
    """Returns the ranks of the layers, first layer first: those that a round found, or the plan's."""
    if kind == "tied":
        return plan.TIED_RANKS.get(network, ())
    found = [one for own in rounds.values() for one in own if (one["stage"], one.get("network")) == ("ranks", network)]
    return found[0]["ranks"] if found else plan.RANKS[network]


def ranks_words(rounds: Rounds) -> str:
    """Returns all ranks, of the networks and kinds that have results."""
    found = []
    for network in NETWORKS:
        for kind, words in (("low_rank", ""), ("tied", " with tied scales")):
            methods = [name for name, method in plan.METHODS.items() if method.kind == kind]
            if any(latest_name(rounds, method, network) is not None for method in methods):
                shown = ", ".join(map(str, find_ranks(rounds, network, kind)))
                found.append(f"Ranks of {NETWORKS[network]}{words}, first layer first: {shown}.")
    return " ".join(found)


def tuning_table(records: Records) -> list[str]:
    """Returns the validation NLL of every configuration, and which is the lowest of its family."""
    rows = []
    every = [one for one in records if one["stage"] == "tuning"]
    networks = [network for network in NETWORKS if of_networks(every, [network])]
    for network in networks:
        for family, methods in plan.FAMILIES.items():
            tried = tuning_of(every, network, family)
            values = [np.inf if one["diverged"] else one["validation"]["nll"] for one in tried]
            for one, value in zip(tried, values, strict=True):
                shown = "diverged" if one["diverged"] else f"{value:.4f}"
                names = " and ".join(NAMES[name] for name in methods)
                names = f"{NETWORKS[network]}, {names}" if len(networks) > 1 else names
                rows.append([names, short(one["configuration"]), shown, "yes" if value == min(values) < np.inf else ""])
    return table_lines(["configuration", "validation NLL", "lowest"], rows)


def short(name: str) -> str:
    return name.replace("rho_rate", "ρ rate").replace("outputs 1", "outputs").replace("beta", "β").replace("eta", "η")
