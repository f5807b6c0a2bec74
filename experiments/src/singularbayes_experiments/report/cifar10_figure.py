"""The figure of CIFAR-10: the NLL of every method less that of the deep ensemble of its round."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from singularbayes.plots import style
from singularbayes_experiments.report.cifar10_differences import Difference, latest_difference
from singularbayes_experiments.report.cifar10_scores import (
    ENSEMBLE,
    NAMES,
    NETWORKS,
    ROUNDS,
    Rounds,
    in_millions,
    latest_name,
    latest_round,
    parameters,
)
from singularbayes_experiments.report.picture import Panel, panel, signed_tick

FIGURE = "cifar10-nll.svg"
PARTS = {"test": "test images", "corrupted": "corrupted images"}
CAPTION = (
    "Each method less the deep ensemble of 4 of its round: filled where the paired 95 % interval over seeds excludes "
    "0, without an interval where there are fewer than three seeds. Low-rank networks are blue. Behind a name are its "
    "round and its stored parameters. The lowest test NLL less the ensemble's is on top."
)


def figure(rounds: Rounds) -> Panel:
    """Returns the paired differences in NLL: a row per method, a panel per network and kind of images."""
    found = {network: rows for network in NETWORKS if (rows := figure_rows(rounds, network))}

    def draw(page: Figure) -> None:
        ratios = [len(rows) + 1 for rows in found.values()]
        axes = page.subplots(len(found), len(PARTS), squeeze=False, height_ratios=ratios)
        for own, (network, rows) in zip(axes, found.items(), strict=True):
            for one, (part, label) in zip(own, PARTS.items(), strict=True):
                _draw_differences(one, rows, part)
                one.set_title(f"{NETWORKS[network]}, {label}", fontsize=11, loc="left")
            own[0].set_yticks(range(len(rows)), [_title(rounds, network, method) for method in rows], fontsize=9)
        for one in axes[-1]:
            one.set_xlabel("NLL less the ensemble's\n← better        worse →", fontsize=10)

    count = sum(len(rows) + 1 for rows in found.values())
    networks = " and ".join(NETWORKS[network] for network in found)
    alt = f"NLL less that of the {NAMES[ENSEMBLE]}, for test and corrupted images of {networks}, as in the tables."
    return panel(draw, alt, (7.6, 1.4 + 0.32 * count))


def figure_rows(rounds: Rounds, network: str) -> Mapping[str, Mapping[str, Difference]]:
    """Returns the differences of test and corrupted images by method, the lowest on test images first."""
    found = {
        method: {part: each for part in PARTS if (each := latest_difference(rounds, network, method, part))}
        for method in NAMES
        if method != ENSEMBLE
    }
    rows = {method: parts for method, parts in found.items() if "test" in parts}
    return dict(sorted(rows.items(), key=lambda row: row[1]["test"].mean))


def _draw_differences(axes: Axes, rows: Mapping[str, Mapping[str, Difference]], part: str) -> None:
    axes.axvline(0, color=style.GREY, linewidth=1)
    for row, (method, parts) in enumerate(rows.items()):
        if found := parts.get(part):
            colour = style.BLUE if "low_rank" in method or "mixture" in method else style.INK
            if found.interval is not None:
                axes.plot([found.interval.low, found.interval.high], [row, row], color=colour)
            axes.plot(found.mean, row, "o", color=colour, mfc=colour if found.verdict else "white", ms=6)
    axes.set_yticks([])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=9)
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.xaxis.set_major_formatter(FuncFormatter(signed_tick))
    axes.grid(axis="x", color=style.PALE)
    axes.set_axisbelow(True)


def _title(rounds: Rounds, network: str, method: str) -> str:
    size = in_millions(parameters(latest_round(rounds, method, network), network, method) or 0)
    return f"{NAMES[method]} · {ROUNDS[latest_name(rounds, method, network) or '']} · {size}"
