"""The figure of a model's spectra: how fast singular values fall, and the rank that keeps a share of ‖W‖²."""

from typing import TYPE_CHECKING, Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from singularbayes.plots.style import COLOURS, INK, PAGE, PALE, drawn_in, looks, percent

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
    rows, share = spectrum.rows, f"{100 * explained:.6g} %"
    height = 0.75 + 0.24 * len(rows)
    drawn = Figure(figsize=(8.6, 3.4 + height), layout="constrained")
    upper, lower = drawn.subfigures(2, height_ratios=(3.4, height)).flat  # type: ignore[union-attr]
    upper.suptitle(f"Singular values of {spectrum.model!r}", x=0.01, ha="left", fontsize=12)
    (decay, kept), chosen = upper.subplots(1, 2), lower.subplots()
    kept.axhline(explained, color=INK, lw=0.8, ls=(0, (4, 3)), zorder=1)
    small: Any = {"ms": 6, "mew": 0.8} if len(rows) <= len(COLOURS) else {"ms": 3.5, "mew": 0.3}
    for place, (row, line) in enumerate(zip(rows, _lines(rows), strict=True)):
        rank, full = row.rank_for(explained), len(row.values)
        for axes, heights in ((decay, _relative(row)), (kept, row.explained)):
            axes.plot(np.arange(1, full + 1), heights, **line)
            axes.plot([rank], [heights[rank - 1]], "o", color=line["color"], mec="white", zorder=4, **small)
        chosen.barh(place, full, color=PALE, height=0.62)
        chosen.barh(place, rank, color=line["color"], height=0.62)
        beside: Any = {"textcoords": "offset points", "va": "center", "fontsize": 9, "color": INK}
        chosen.annotate(f"{rank} of {full}", (full, place), (5, 0), **beside)
    largest = max(len(row.values) for row in rows)
    for axes in (decay, kept):
        _log_ranks(axes, largest)
    smallest = min(float(_relative(row)[-1]) for row in rows)
    decay.set(xlabel="singular value number", ylabel="singular value / largest", yscale="log")
    decay.set_ylim(max(_FLOOR, 0.6 * min(smallest, 0.1)), 1.5)
    kept.set(xlabel="rank", ylabel=f"share of ‖W‖² kept (line: {share})", ylim=(0, 1.03))
    kept.yaxis.set_major_formatter(percent())
    chosen.set_yticks(range(len(rows)), [_short(row.name) for row in rows], fontsize=9)
    chosen.set(xlabel=f"rank for {share} of ‖W‖², of the full rank", xlim=(0, 1.12 * largest))
    chosen.set_ylim(len(rows) - 0.5, -0.5)
    chosen.tick_params(axis="y", length=0)
    chosen.spines["left"].set_visible(False)
    return drawn


def _lines(rows: "tuple[MatrixSpectrum, ...]") -> list[dict[str, Any]]:
    """Returns the arguments of every matrix's curves; many matrices are coloured by their depth."""
    if len(rows) <= len(COLOURS):
        return [{"color": look.colour, "ls": look.line, "lw": 1.8} for look in looks(row.name for row in rows).values()]
    shades = matplotlib.colormaps["viridis"](np.linspace(0.0, 0.9, len(rows)))
    return [{"color": shade, "lw": 1.0, "alpha": 0.75} for shade in shades]


def _relative(row: "MatrixSpectrum") -> np.ndarray:
    return np.maximum(row.values / (row.values[0] or 1.0), _FLOOR)


def _log_ranks(axes: Axes, largest: int) -> None:
    axes.set_xscale("log")
    axes.set_xlim(0.9, max(2.0, 1.1 * largest))
    axes.xaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0) if largest < 300 else (1.0,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
