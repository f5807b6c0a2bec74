"""CIFAR-10 at a glance: one sentence, a table per network with the last result of every method, and a figure."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
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
    """Returns the NLL of test and corrupted images, a row per method and a panel per network and kind of images."""
    found = {network: rows for network in NETWORKS if (rows := _rows(folder, network))}

    def draw(page: Figure) -> None:
        ratios = [len(rows) for rows in found.values()]
        axes = page.subplots(len(found), len(PARTS), squeeze=False, height_ratios=ratios)
        for own, (network, rows) in zip(axes, found.items(), strict=True):
            for one, (part, label) in zip(own, PARTS.items(), strict=True):
                _draw_nll(one, folder, network, list(rows), part)
                one.set_xlabel(label)
            own[0].set_title(NETWORKS[network])
            own[0].set_yticks(range(len(rows)), [f"{NAMES[one]} · {size / 1e6:.2g} M" for one, size in rows.items()])

    networks = " and ".join(NETWORKS.values())
    return panel(draw, f"NLL of test and of corrupted images of {networks}, as in the tables.", (7.2, 7.6))


def _draw_nll(axes: Axes, folder: Path, network: str, methods: Sequence[str], part: str) -> None:
    """Draws the mean and the standard error of every method from top to bottom, and a line at the deep ensemble."""
    for row, method in enumerate(methods):
        values = list(scores(latest_round(folder, method, network), network, method, part, "nll").values())
        colour = style.BLUE if "low_rank" in method or "mixture" in method else style.INK
        error = standard_error(values) if len(values) > 1 else 0.0
        axes.errorbar(np.mean(values), row, xerr=error, fmt="o", color=colour, capsize=2)
        if method == ENSEMBLE:
            axes.axvline(float(np.mean(values)), color=style.GREY, linewidth=1)
    axes.set_yticks([])
    axes.set_ylim(len(methods) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def _rows(folder: Path, network: str) -> dict[str, int]:
    """Returns the methods with results and their stored parameters, the lowest test NLL first."""
    found = {}
    for method in NAMES:
        records = latest_round(folder, method, network)
        if values := list(scores(records, network, method, "test", "nll").values()):
            found[method] = (float(np.mean(values)), parameters(records, network, method) or 0)
    return {method: size for method, (_, size) in sorted(found.items(), key=lambda each: each[1])}


def _signed(value: float) -> str:
    return ("−" if round(value, 3) < 0 else "+") + f"{abs(value):.3f}"
