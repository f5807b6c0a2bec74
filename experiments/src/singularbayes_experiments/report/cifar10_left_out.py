"""What the experiment on CIFAR-10 planned and has no results of: it was not reached, or it diverged."""

from collections.abc import Collection, Iterator

from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.problems.cifar10 import Piece
from singularbayes_experiments.report.cifar10_scores import (
    ENSEMBLE,
    FIFTH,
    FOURTH,
    NAMES,
    NETWORKS,
    ROUNDS,
    SECOND,
    THIRD,
    Records,
    Rounds,
    latest_name,
    scores,
    tuning_of,
)
from singularbayes_experiments.report.rows import listed

_ENTROPY = "auroc_entropy"
PLANS = {FIFTH: plan.WORK, FOURTH: plan.FOURTH, THIRD: plan.THIRD, SECOND: plan.SECOND, "": plan.FIRST}


def missing_methods(rounds: Rounds, name: str, network: str) -> dict[str, str]:
    """Returns the methods that a round planned on a network without a result there, and why there is none."""
    records, found = rounds[name], {}
    if not records:
        return {}
    planned = {method for piece, method in _planned(name) if (piece.network, piece.held_out) == (network, False)}
    for family, methods in plan.FAMILIES.items():
        tried = tuning_of(records, network, family)
        lost = [one for one in records if one["stage"] == "result" and one["diverged"] and one["network"] == network]
        for method in methods:
            if scores(records, network, method, "test", "nll"):
                continue
            if _all_lost(tried):
                found[method] = f"all {len(tried)} configurations diverged"
            elif any((one["method"], one["held_out"]) == (method, False) for one in lost):
                found[method] = "every run diverged"
            elif method in planned:
                found[method] = "not reached"
    return found


def never_planned(network: str) -> str:
    """Returns the methods that no round planned on a network."""
    planned = {method for name in PLANS for piece, method in _planned(name) if piece.network == network}
    names = [NAMES[method] for method in NAMES if method not in planned]
    return f"No round planned on {NETWORKS[network]}: {listed(names)}." if names else ""


def all_diverged(rounds: Rounds) -> str:
    """Returns the families all of whose configurations diverged in a round."""
    found = []
    for name, records in rounds.items():
        for family, methods in plan.FAMILIES.items():
            for network in NETWORKS:
                tried = tuning_of(records, network, family)
                if _all_lost(tried):
                    rates = sorted({one["settings"]["rate"] for one in tried})
                    names = " and ".join(NAMES[each] for each in methods)
                    found.append(
                        f"All {len(tried)} configurations of {names} on {NETWORKS[network]} diverged in the "
                        f"{ROUNDS[name]} round, with rates from {rates[0]:g} to {rates[-1]:g}."
                    )
    return " ".join(found)


def diverged(records: Records) -> str:
    """Returns the runs with result seeds that diverged."""
    lost = [one for one in records if one["stage"] == "result" and one["diverged"]]
    names = ", ".join(f"{NAMES[one['method']]} on {NETWORKS[one['network']]} with seed {one['seed']}" for one in lost)
    return f"Diverged, and not in the tables: {names}." if lost else "No result run diverged."


def cut_by_time(rounds: Rounds) -> str:
    """Returns the methods that the last round of a network did not reach, and those with fewer seeds than planned.

    Of networks without the held-out classes it returns those that no round reached.
    """
    parts = []
    for network, title in NETWORKS.items():
        last = latest_name(rounds, ENSEMBLE, network)
        if last is None:
            continue
        missing = [each for each, why in missing_methods(rounds, last, network).items() if why == "not reached"]
        count = {method: len(_latest(rounds, network, method)) for method in NAMES}
        few = [method for method, seeds in count.items() if 0 < seeds < len(plan.RESULT_SEEDS)]
        every = (each for name in PLANS for each in _planned(name))
        planned = {method for piece, method in every if piece.network == network and piece.held_out}
        there = {each for each in NAMES for own in rounds.values() if scores(own, network, each, "ood", _ENTROPY)}
        words = {
            "the last round did not reach {}": missing,
            "fewer than three seeds: {}": few,
            "networks without the held-out classes were planned and not run for {}": [
                each for each in NAMES if each in planned - there
            ],
        }
        said = [text.format(listed([NAMES[each] for each in methods])) for text, methods in words.items() if methods]
        parts += [f"On {title}, {'; '.join(said)}."] if said else []
    return f"**CIFAR-10 was cut by time, too.** {' '.join(parts)} [All](cifar10.md#everything-else)." if parts else ""


def _latest(rounds: Rounds, network: str, method: str) -> dict[int, float]:
    name = latest_name(rounds, method, network)
    return {} if name is None else scores(rounds[name], network, method, "test", "nll")


def unreached(name: str, records: Records) -> str:
    """Returns what the plan of a round has and the time did not allow; on a network without any result too.

    Families all of whose configurations diverged are those of `all_diverged`.
    """
    there = {_key(one) for one in records if one["stage"] != "tuning" and "method" in one}
    lost: dict[str, dict[int | None, None]] = {}
    for piece, method in _planned(name):
        stage = "result" if piece.epochs is None else "reproduction"
        tried = tuning_of(records, piece.network, piece.family)
        if (stage, piece.network, method, piece.held_out, piece.seed) not in there and not _all_lost(tried):
            more = f" with {piece.epochs} epochs" if piece.epochs else ""
            more += " without the held-out classes" if piece.held_out else ""
            lost.setdefault(f"{NAMES[method]} on {NETWORKS[piece.network]}{more}", {})[piece.seed] = None
    parts = [f"{title} ({', '.join(map(str, sorted(seeds)))})" for title, seeds in lost.items()]  # type: ignore[type-var]
    return f"Planned and not reached, with their seeds: {'; '.join(parts)}." if parts else ""


def _planned(name: str) -> Iterator[tuple[Piece, str]]:
    """Yields the results that a round planned: a piece, and each of its methods."""
    for piece in PLANS[name]:
        if piece.seed is not None:
            yield from ((piece, method) for method in _methods(piece))


def _methods(piece: Piece) -> Collection[str]:
    return [method for method, own in plan.FAMILIES[piece.family].items() if own.members <= piece.members]


def _key(one: dict) -> tuple:
    return tuple(one[name] for name in ("stage", "network", "method", "held_out", "seed"))


def _all_lost(tried: Collection[dict]) -> bool:
    return bool(tried) and all(one["diverged"] for one in tried)
