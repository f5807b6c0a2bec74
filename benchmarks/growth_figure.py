"""The figure of growth: time above, memory below, one column for what grows."""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator, ScalarFormatter

from singularbayes.plots import BLUE, INK, PAGE, VERMILION

PATH = Path(__file__).parent.parent / "docs" / "growth.png"
LOOKS = {
    "low_rank": ("low-rank", BLUE, "o", "-"),
    "full_rank": ("full-rank", VERMILION, "s", "--"),
    "keras": ("Keras, deterministic", INK, "^", ":"),
}
LABELS = {
    "rank": "rank (width 1024)",
    "width": "width (rank 16)",
    "length": "tokens a sentence",
    "draws": "posterior draws",
}


def write(results: dict[str, list[dict[str, Any]]], path: Path = PATH) -> Path:
    with matplotlib.rc_context(PAGE):
        figure(results).savefig(path, dpi=110)
    return path


def figure(results: dict[str, list[dict[str, Any]]]) -> Figure:
    """Returns two panels for every quantity that grows; axes are logarithmic."""
    drawn = Figure(figsize=(2.6 * len(results), 5.0), layout="constrained")
    axes = drawn.subplots(2, len(results), squeeze=False, sharex="col")
    for column, (name, rows) in enumerate(results.items()):
        unit = "prediction of 256 images" if name == "draws" else "training step"
        _draw(axes[0, column], rows, name, lambda row: row["median_ms"])
        _draw(axes[1, column], rows, name, lambda row: row["bytes"] / 1e6)
        axes[0, column].set_title(unit, fontsize=9)
        axes[1, column].set_xlabel(LABELS[name])
    axes[0, 0].set_ylabel("milliseconds")
    axes[1, 0].set_ylabel("memory, MB")
    handles, labels = axes[0, min(1, len(results) - 1)].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False)
    return drawn


def _draw(axes: Axes, rows: list[dict[str, Any]], name: str, value) -> None:
    for method, (label, colour, marker, style) in LOOKS.items():
        mine = [row for row in rows if row["method"] == method]
        if len(mine) == 1:  # it does not depend on what grows
            axes.axhline(value(mine[0]), color=colour, ls=style, lw=1.4, label=label)
        elif mine:
            xs = [row[name] for row in mine]
            axes.plot(
                xs, [value(row) for row in mine], color=colour, marker=marker, ls=style, lw=1.6, ms=4, label=label
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sorted({row[name] for row in rows if name in row}))
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda tick, _: f"{tick:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(labelsize=9)
    axes.grid(True, which="major", lw=0.4, alpha=0.5)
