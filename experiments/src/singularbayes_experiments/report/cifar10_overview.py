"""CIFAR-10 at a glance: one sentence, a table per network with the last result of every method, and a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from singularbayes.plots import style
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.report.cifar10_scores import (
    LEAST_SEEDS,
    NAMES,
    NETWORKS,
    OURS,
    count_seeds,
    find_pairs,
    latest_round,
    mean_cell,
    parameters,
    round_of,
    scores,
    standard_error,
)
from singularbayes_experiments.report.picture import Panel, panel

FIGURE = "cifar10-nll.svg"
ENSEMBLE = "deep_ensemble"
COUNTED = ("no", "one", "two", "three", "four", "five", "six")
PARTS = {"test": "test NLL", "corrupted": "corrupted NLL"}
COLUMNS = (
    "round",
    "stored parameters",
    "accuracy, %",
    "NLL",
    "less the ensemble's [95 %]",
    "ECE",
    "corrupted NLL",
    "less the ensemble's [95 %]",
    "seeds",
)
# Colours and markers are those of the figure of the summary.
_FIRST = ("deterministic", ENSEMBLE, "full_rank", "low_rank", "mixture", "mixture_svd")
_LOOKS = {method: style.look(i) for i, method in enumerate([*_FIRST, *(name for name in NAMES if name not in _FIRST)])}


def sentence(folder: Path) -> str:
    """Returns how far the mixtures are from the deep ensemble on every network; "" without results of both."""
    parts = [each for network in NETWORKS if (each := _against_ensemble(folder, network))]
    return f"**In one sentence:** {'; '.join(parts)}." if parts else ""


def _against_ensemble(folder: Path, network: str) -> str:
    found = {}  # mixture → its mean NLL, the ensemble's of the same seeds, and its share of the parameters
    for ours in OURS:
        records = latest_round(folder, ours, network)
        if pairs := find_pairs(records, network, ours, ENSEMBLE, "test"):
            sizes = [parameters(records, network, method) or 1 for method in (ours, ENSEMBLE)]
            found[ours] = (*np.mean(pairs, axis=0), 100 * sizes[0] / sizes[1])
    if not found:
        return ""
    behind = [mine - base for mine, base, _ in found.values() if mine > base]
    far = f", by {_range([f'{each:.3f}' for each in behind])}" if behind else ""
    mine, base, _ = found[best := min(found, key=lambda ours: found[ours][0])]
    share = _range([f"{each:.0f}" for *_, each in found.values()])
    full = find_pairs(latest_round(folder, best, network), network, best, "full_rank", "test")
    beside = f" (one full-rank network: {np.mean(full, axis=0)[1]:.3f})" if full else ""
    return (
        f"on {NETWORKS[network]} {_count(len(behind), len(found))} a higher test NLL than the {NAMES[ENSEMBLE]}{far}, "
        f"with {share} % of its parameters; the best, the {NAMES[best]}, has {mine:.3f} against {base:.3f}{beside}"
    )


def _count(some: int, every: int) -> str:
    """Returns how many mixtures of how many, and the verb.

    >>> _count(4, 4), _count(2, 2), _count(1, 1)
    ('all four low-rank mixtures of 4 have', 'both low-rank mixtures of 4 have', 'the low-rank mixture of 4 has')
    >>> _count(0, 4), _count(1, 4)
    ('no low-rank mixture of 4 has', 'one of four low-rank mixtures of 4 has')
    """
    words = f"all {COUNTED[every]}" if every > 2 else "both" if every == 2 else "the"
    words = words if some == every else f"{COUNTED[some]} of {COUNTED[every]}" if some else "no"
    several = every > 1 and some > 0
    return f"{words} low-rank mixture{'s' if several else ''} of 4 {'have' if some > 1 else 'has'}"


def _range(values: Sequence[str]) -> str:
    return " to ".join(dict.fromkeys((min(values, key=float), max(values, key=float))))


def overview_table(folder: Path, network: str) -> list[str]:
    """Returns a row per method, from the last round in which it has results on a network."""
    rows = []
    for method, name in NAMES.items():
        records = latest_round(folder, method, network)

        def values(score: str, part: str = "test", records=records, method=method) -> list[float]:
            return list(scores(records, network, method, part, score).values())

        if nll := values("nll"):
            cells = [
                round_of(folder, records),
                f"{parameters(records, network, method):,}",
                mean_cell([100 * each for each in values("accuracy")], 2),
                mean_cell(nll, 3),
                beside(folder, network, method, "test"),
                mean_cell(values("ece"), 3),
                mean_cell(values("nll", "corrupted"), 3),
                beside(folder, network, method, "corrupted"),
                str(len(nll)),
            ]
            rows.append(f"| {' | '.join([name, *cells])} |")
    return [f"| | {' | '.join(COLUMNS)} |", f"|---|{'---:|' * len(COLUMNS)}", *rows] if rows else []


def beside(folder: Path, network: str, method: str, part: str) -> str:
    """Returns the NLL of a method less that of the deep ensemble of the same round, seed by seed, and how sure it is.

    Of fewer than three seeds there is no interval. One that reaches 0 though every seed is on one side says so.
    """
    pairs = find_pairs(latest_round(folder, method, network), network, method, ENSEMBLE, part)
    if method == ENSEMBLE or not pairs:
        return ""
    mean = _signed(float(np.mean([mine - base for mine, base in pairs])))
    if len(pairs) < LEAST_SEEDS:
        return f"{mean} ({count_seeds(len(pairs))})"
    found = protocol.paired(*map(list, zip(*pairs, strict=True)))
    interval = f"{mean} [{_signed(found.low)}, {_signed(found.high)}]"
    if found.low > 0 or found.high < 0:
        return f"{interval} {'worse' if found.low > 0 else 'better'}"
    sides = {mine > base for mine, base in pairs}
    return f"{interval}, {'higher' if sides == {True} else 'lower'} with every seed" if len(sides) == 1 else interval


def figure(folder: Path) -> Panel:
    """Returns the NLL of test and corrupted images against the stored parameters, a column per network."""

    def draw(page: Figure) -> None:
        axes = page.subplots(len(PARTS), len(NETWORKS), squeeze=False)
        shown: dict[str, Any] = {}
        for column, (network, title) in enumerate(NETWORKS.items()):
            for row, (part, label) in enumerate(PARTS.items()):
                own = axes[row][column]
                for method, seen in _LOOKS.items():
                    records = latest_round(folder, method, network)
                    values = list(scores(records, network, method, part, "nll").values())
                    if values:
                        size = parameters(records, network, method)
                        error = standard_error(values) if len(values) > 1 else 0.0
                        shown[NAMES[method]] = own.errorbar(
                            size, np.mean(values), error, fmt=seen.marker, color=seen.colour, capsize=2
                        )
                own.set(xscale="log", ylabel=f"{label}, lower is better" if column == 0 else "")
                own.set_title(title if row == 0 else "")
            axes[-1][column].set_xlabel("stored parameters")
        page.legend(list(shown.values()), list(shown), loc="outside lower center", ncols=3)

    networks = " and ".join(NETWORKS.values())
    alt = f"NLL of test and of corrupted images of {networks} against stored parameters, as in the tables."
    return panel(draw, alt, (7.2, 7.2))


def _signed(value: float) -> str:
    return ("−" if round(value, 3) < 0 else "+") + f"{abs(value):.3f}"
