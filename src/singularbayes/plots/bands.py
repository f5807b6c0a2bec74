"""Bands of a regression on a line: the middle half of the functions, and the middle half of new targets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import special

from singularbayes.checks import require_finite, require_methods, vectors
from singularbayes.plots import style


@dataclass(frozen=True)
class Bands:
    """A median and two interquartile ranges along a line.

    Attributes:
        grid: the inputs, ascending.
        median: of the functions.
        epistemic: (2, inputs), the quartiles of the functions.
        predictive: (2, inputs), the quartiles of new targets: functions and noise.

    >>> bands = Bands(np.arange(3.0), np.zeros(3), np.array([[-1.0] * 3, [1.0] * 3]), np.array([[-2.0] * 3, [2.0] * 3]))
    >>> bands.predictive.shape
    (2, 3)
    """

    grid: np.ndarray
    median: np.ndarray
    epistemic: np.ndarray
    predictive: np.ndarray


def quartile_bands(grid: np.ndarray, draws: np.ndarray, noise: float | np.ndarray) -> Bands:
    """Returns the bands of drawn functions whose targets have Gaussian noise.

    New targets follow F(t) = mean_s Φ((t − f_s)/noise); its quartiles are solved for, not sampled.

    Args:
        grid: the inputs, ascending.
        draws: (draws, inputs), the functions' values there.
        noise: standard deviation of the noise, one number or one per input, above 0.

    >>> grid = np.linspace(0, 1, 3)
    >>> draws = np.array([-1.0, 0.0, 1.0])[:, None] + grid
    >>> quartile_bands(grid, draws, noise=0.1).median
    array([0. , 0.5, 1. ])
    """
    name, f = "quartile_bands", np.asarray(draws, "float64")
    if f.ndim != 2 or not f.size:
        raise ValueError(f"{name} needs draws of shape (draws, inputs), not empty; got {f.shape}.")
    require_finite(name, draws=f)
    (x, _) = vectors(name, **{"grid": grid, "the first draw": f[0]})
    scale = np.broadcast_to(np.asarray(noise, "float64"), x.shape)
    if not (np.isfinite(scale).all() and scale.min() > 0):
        raise ValueError(f"{name} needs noise > 0 and finite; got {scale.min():.3g}.")
    lower, median, upper = np.quantile(f, [0.25, 0.5, 0.75], axis=0)
    return Bands(x, median, np.stack([lower, upper]), np.stack([_mixture_quantile(f, scale, q) for q in (0.25, 0.75)]))


def _mixture_quantile(centres: np.ndarray, scale: np.ndarray, q: float) -> np.ndarray:
    """Returns the q-quantile of the mixture of N(centre, scale²), by halving an interval that holds it."""
    z = special.ndtri(q) * scale
    low, high = centres.min(axis=0) + z, centres.max(axis=0) + z  # each part's own quantile lies between
    for _ in range(60):
        middle = (low + high) / 2
        below = special.ndtr((middle - centres) / scale).mean(axis=0) < q
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return (low + high) / 2


@style.for_print
def function_bands(
    bands: Mapping[str, Bands], x: np.ndarray, y: np.ndarray, xlabel: str = "x", ylabel: str = "y"
) -> Figure:
    """Returns two panels per method: training points, median and both interquartile ranges; below, the ranges' widths.

    All methods are on the same axes. The widths show what is too thin to be seen beside the data.

    Args:
        bands: of every method.
        x, y: the training points, one number each.
        xlabel, ylabel: what the axes are, with their units.

    >>> grid = np.linspace(-1, 1, 20)
    >>> draws = grid + np.random.default_rng(0).normal(0, 0.1, (30, 1))
    >>> bands = {"one network": quartile_bands(grid, draws, noise=0.2)}
    >>> figure = function_bands(bands, np.array([-0.5, 0.5]), np.array([-0.4, 0.6]))
    >>> len(figure.axes)  # the bands, and their widths below
    2
    """
    require_methods("function_bands", bands)
    inputs, targets = vectors("function_bands", x=x, y=y)
    for method, band in bands.items():
        _check(method, band)
    edges = np.concatenate([np.ravel(band.predictive) for band in bands.values()] + [targets])
    margin = 0.04 * float(np.ptp(edges))
    widest = 1.1 * max(float(np.ptp(band.predictive, axis=0).max()) for band in bands.values())
    figure = Figure(figsize=(style.COLUMN, 0.7 + 1.95 * len(bands)))
    panels = figure.subplots(2 * len(bands), sharex=True, height_ratios=(2.4, 1) * len(bands))
    for above, below, (method, band) in zip(panels[::2], panels[1::2], bands.items(), strict=True):
        handles = _draw_bands(above, band, inputs, targets)
        _draw_widths(below, band)
        above.set_title(method)
        above.set(ylabel=ylabel, ylim=(edges.min() - margin, edges.max() + margin))
        below.set(ylabel="IQR", ylim=(0, widest))
    panels[-1].set(xlabel=xlabel, xlim=(band.grid[0], band.grid[-1]))
    panels[-1].xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    figure.align_ylabels()
    style.legend_below(figure, handles)
    return figure


def _check(method: str, band: Bands) -> None:
    name = f"function_bands of {method!r}"
    rows = {"grid": band.grid, "median": band.median}
    for what, pair in (("epistemic", band.epistemic), ("predictive", band.predictive)):
        if np.ndim(pair) != 2 or len(pair) != 2:
            raise ValueError(f"{name} needs {what} of shape (2, inputs); got {np.shape(pair)}.")
        rows |= {f"{what} lower": pair[0], f"{what} upper": pair[1]}
    grid = vectors(name, **rows)[0]
    if len(grid) < 2 or (np.diff(grid) <= 0).any():
        raise ValueError(f"{name} needs a grid of ascending inputs, at least two; got {len(grid)} from {grid[0]:.4g}.")


def _draw_bands(axes: Axes, band: Bands, x: np.ndarray, y: np.ndarray) -> list:
    points = axes.plot(
        x, y, "x", color="#666666", ms=2.2, mew=0.4, alpha=0.6, rasterized=True, zorder=1, label="training points"
    )
    drawn = [
        axes.fill_between(band.grid, *edges, **look)
        for edges, look in zip((band.predictive, band.epistemic), _LOOKS, strict=True)
    ]
    median = axes.plot(band.grid, band.median, color=style.VERMILION, lw=0.8, zorder=4, label="median")
    return [*drawn, *median, *points]


def _draw_widths(axes: Axes, band: Bands) -> None:
    for edges, look in zip((band.predictive, band.epistemic), _LOOKS, strict=True):
        axes.fill_between(band.grid, np.ptp(edges, axis=0), **look)


# Edges tell the bands apart where their colours do not.
_LOOKS: Any = (
    {
        "fc": (style.PURPLE, 0.45),
        "ec": style.PURPLE,
        "ls": (0, (2, 1)),
        "lw": 0.6,
        "zorder": 2,
        "label": "predictive IQR",
    },
    {"fc": (style.BLUE, 0.55), "ec": style.BLUE, "ls": "-", "lw": 0.6, "zorder": 3, "label": "epistemic IQR"},
)
