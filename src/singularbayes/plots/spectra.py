"""The figure of a model's spectra: how fast singular values fall, and the rank that keeps a share of ‖W‖²."""

from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from singularbayes.plots.style import COLOURS, INK, PAGE, PALE, drawn_in, looks

if TYPE_CHECKING:
    from singularbayes.convert import MatrixSpectrum, Spectrum

_LONGEST = 44  # characters of a name
_FLOOR = 1e-6  # smaller singular values are rounding


@drawn_in(PAGE)
def spectra(spectrum: "Spectrum", explained: float = 0.9) -> Figure:
    """Returns three panels: log decay, share of ‖W‖² by rank, and for each matrix the chosen rank of its full rank.

    The rows of the last panel are the legend of the others.

    >>> import keras, singularbayes as sb
    >>> model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(6), keras.layers.Dense(2)])
    >>> len(spectra(sb.spectrum(model)).axes)
    3
    """
    rows, lines = spectrum.rows, _lines(spectrum.rows)
    height = 0.75 + 0.24 * len(rows)
    drawn = Figure(figsize=(8.6, 3.4 + height), layout="constrained")
    upper, lower = drawn.subfigures(2, height_ratios=(3.4, height)).flat  # type: ignore[union-attr]
    decay, kept = upper.subplots(1, 2)
    chosen = lower.subplots()
    _draw_decay(decay, rows, lines, explained)
    _draw_kept(kept, rows, lines, explained)
    _draw_chosen(chosen, rows, lines, explained)
    upper.suptitle(f"Singular values of {spectrum.model!r}", x=0.01, ha="left", fontsize=12)
    return drawn


def _lines(rows: "tuple[MatrixSpectrum, ...]") -> list[dict[str, Any]]:
    """Returns the arguments of every matrix's curves; many matrices are coloured by their depth."""
    if len(rows) <= len(COLOURS):
        return [{"color": look.colour, "ls": look.line, "lw": 1.8} for look in looks(row.name for row in rows).values()]
    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, len(rows)))
    return [{"color": shade, "lw": 1.0, "alpha": 0.75} for shade in shades]


def _ranks(row: "MatrixSpectrum") -> np.ndarray:
    return np.arange(1, len(row.values) + 1)


def _mark(axes: Axes, x: int, y: float, colour: Any, number: int) -> None:
    few = number <= len(COLOURS)
    axes.plot([x], [y], "o", color=colour, ms=6 if few else 3.5, mec="white", mew=0.8 if few else 0.3, zorder=4)


def _draw_decay(axes: Axes, rows: "tuple[MatrixSpectrum, ...]", lines: list[dict[str, Any]], explained: float) -> None:
    for row, line in zip(rows, lines, strict=True):
        relative = np.maximum(row.values / (row.values[0] or 1.0), _FLOOR)
        axes.plot(_ranks(row), relative, **line)
        _mark(axes, row.rank_for(explained), relative[row.rank_for(explained) - 1], line["color"], len(rows))
    axes.set_yscale("log")
    _log_ranks(axes, rows)
    smallest = min(float(np.maximum(row.values[-1] / (row.values[0] or 1.0), _FLOOR)) for row in rows)
    axes.set_ylim(max(_FLOOR, 0.6 * min(smallest, 0.1)), 1.5)
    axes.set(xlabel="singular value number", ylabel="singular value / largest")


def _draw_kept(axes: Axes, rows: "tuple[MatrixSpectrum, ...]", lines: list[dict[str, Any]], explained: float) -> None:
    axes.axhline(explained, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1)
    for row, line in zip(rows, lines, strict=True):
        axes.plot(_ranks(row), row.explained, **line)
        _mark(axes, row.rank_for(explained), row.explained[row.rank_for(explained) - 1], line["color"], len(rows))
    _log_ranks(axes, rows)
    axes.set_ylim(0, 1.03)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set(xlabel="rank", ylabel=f"share of ‖W‖² kept (line: {100 * explained:.6g} %)")


def _draw_chosen(axes: Axes, rows: "tuple[MatrixSpectrum, ...]", lines: list[dict[str, Any]], explained: float) -> None:
    for place, (row, line) in enumerate(zip(rows, lines, strict=True)):
        rank, full = row.rank_for(explained), len(row.values)
        axes.barh(place, full, color=PALE, height=0.62)
        axes.barh(place, rank, color=line["color"], height=0.62)
        axes.annotate(
            f"{rank} of {full}", (full, place), (5, 0), textcoords="offset points", va="center", fontsize=9, color=INK
        )
    axes.set_yticks(range(len(rows)), [_short(row.name) for row in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, 1.12 * max(len(row.values) for row in rows))
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(f"rank for {100 * explained:.6g} % of ‖W‖², of the full rank")


def _log_ranks(axes: Axes, rows: "tuple[MatrixSpectrum, ...]") -> None:
    largest = max(len(row.values) for row in rows)
    axes.set_xscale("log")
    axes.set_xlim(0.9, max(2.0, 1.1 * largest))
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if largest < 300 else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
