"""The three figures of the page, each for a wide and for a narrow window."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from singularbayes.metrics import ReliabilityCurve
from singularbayes.plots import style

_LOOK = {**style.PRINT, "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "legend.fontsize": 9}
_LOOK |= {"xtick.labelsize": 8, "ytick.labelsize": 8, "lines.linewidth": 1.6}
_drawn = style.drawn_in(_LOOK)


@dataclass(frozen=True)
class Bands:
    """Points (x, y), the true function on a grid, and of every method the mean, lower and upper end there."""

    x: np.ndarray
    y: np.ndarray
    grid: np.ndarray
    truth: np.ndarray
    methods: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Refusals:
    """Error rates of the shares that are kept, and per seed the share of unseen classes it is sure of, by method."""

    kept: np.ndarray
    errors: Mapping[str, np.ndarray]
    refused: float  # the share of the sentence
    sure: dict[str, list[float]]
    title: str  # of that panel


@dataclass(frozen=True)
class Conversion:
    """Numbers of parameters and reliability by method; the first is the trained model."""

    parameters: dict[str, int]
    curves: Mapping[str, ReliabilityCurve]


@_drawn
def bands(data: Bands, wide: bool) -> Figure:
    """Returns one panel per method: points, truth, mean and interval."""
    panels, figure = _panels(len(data.methods), (8.4, 2.7), (3.6, 5.8), wide, share=True)
    low, high = data.x.min(), data.x.max()
    for axes, (method, (mean, lower, upper)) in zip(panels, data.methods.items(), strict=True):
        axes.axvspan(low, high, color=style.PALE, lw=0)
        axes.fill_between(data.grid, lower, upper, color=style.BLUE, alpha=0.3, lw=0, label="95 % interval")
        axes.plot(data.grid, mean, color=style.BLUE, label="prediction")
        axes.plot(data.grid, data.truth, color=style.VERMILION, ls=(0, (4, 2)), label="truth")
        axes.plot(data.x, data.y, ".", color=style.INK, markersize=2, alpha=0.5, label="data")
        axes.set(title=method, ylim=(-2.6, 3.1), xlim=(data.grid[0], data.grid[-1]))
    for axes in panels if wide else panels[-1:]:
        axes.set_xlabel("x")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4 if wide else 2, markerscale=3)
    return figure


@_drawn
def refusals(data: Refusals, wide: bool) -> Figure:
    """Returns how often each method is sure of unseen classes, and its error rate against the share that is refused."""
    (unseen, errors), figure = _panels(2, (8.4, 3.0), (3.6, 5.6), wide)
    looks = style.looks(data.errors)
    for method, risk in data.errors.items():
        errors.plot(1 - data.kept, risk, label=method, markevery=10, **looks[method].plot)
    errors.axvline(data.refused, color=style.GREY, lw=0.8, ls=":")
    errors.set(
        title="errors among those kept",
        xlabel="refused, the least certain first",
        ylabel="error rate",
    )
    errors.set_ylim(bottom=0)
    for axis in (errors.xaxis, errors.yaxis):
        axis.set_major_formatter(style.percent())
    for row, (method, values) in enumerate(reversed(data.sure.items())):
        look = looks[method]
        unseen.barh(row, np.mean(values), color=look.colour, height=0.55)
        unseen.plot(values, [row] * len(values), ls="", marker=".", color=style.INK, markersize=5)
        unseen.text(max(values), row, f"  {100 * np.mean(values):.0f} %", va="center", color=style.INK)
    unseen.set_yticks(range(len(data.sure)), list(reversed(data.sure)))
    unseen.set(
        title=data.title,
        xlabel="share of them; dots: seeds",
        xlim=(0, max(0.05, 1.2 * max(map(max, data.sure.values())))),
    )
    unseen.xaxis.set_major_formatter(style.percent())
    errors.legend(loc="upper right")
    return figure


@_drawn
def conversion(data: Conversion, wide: bool) -> Figure:
    """Returns the numbers of parameters, and accuracy against confidence, before and after."""
    (sizes, reliability), figure = _panels(2, (8.4, 3.0), (3.6, 5.6), wide)
    looks = style.looks(data.curves)
    for row, (method, count) in enumerate(reversed(data.parameters.items())):
        sizes.barh(row, count, color=looks[method].colour, height=0.55)
        sizes.text(count, row, f" {count:,}", va="center", color=style.INK)
    sizes.set_yticks(range(len(data.parameters)), list(reversed(data.parameters)))
    sizes.set(title="parameters", xlim=(0, 1.3 * max(data.parameters.values())), xticks=[])
    reliability.plot([0, 1], [0, 1], color=style.GREY, lw=0.8, ls=":")
    for method, curve in data.curves.items():
        reliability.plot(curve.confidence, curve.accuracy, label=method, **looks[method].plot)
    least = min(min(curve.confidence.min(), curve.accuracy.min()) for curve in data.curves.values())
    reliability.set(title="calibration: dotted is perfect", xlabel="confidence", ylabel="accuracy")
    reliability.set(xlim=(least - 0.03, 1.01), ylim=(least - 0.03, 1.02))
    reliability.legend(loc="upper left")
    return figure


def _panels(
    count: int, wide_size: tuple[float, float], narrow_size: tuple[float, float], wide: bool, share: bool = False
) -> tuple[list[Axes], Figure]:
    """Returns panels side by side, or below each other where the window is narrow."""
    figure = Figure(figsize=wide_size if wide else narrow_size)
    grid = figure.subplots(*((1, count) if wide else (count, 1)), sharex=share, sharey=share, squeeze=False)
    return list(grid.flat), figure
