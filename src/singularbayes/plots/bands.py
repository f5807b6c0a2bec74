"""Bands of a regression on a line: the middle half of the functions, and the middle half of new targets."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy import special

from singularbayes.checks import require_finite, require_methods, require_positive, vectors
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
        grid: the inputs, ascending, at least two.
        draws: (draws, inputs), the functions' values there.
        noise: standard deviation of the noise, one number or one per input, above 0.

    >>> grid = np.linspace(0, 1, 3)
    >>> draws = np.array([-1.0, 0.0, 1.0])[:, None] + grid
    >>> quartile_bands(grid, draws, noise=0.1).median
    array([0. , 0.5, 1. ])
    """
    name, f, x = "quartile_bands", np.asarray(draws, "float64"), np.asarray(grid, "float64")
    if f.ndim != 2 or not f.size or x.shape != f.shape[1:] or len(x) < 2 or not (np.diff(x) > 0).all():
        raise ValueError(
            f"{name} needs draws of shape (draws, inputs) on a grid of ascending inputs, at least two; got draws "
            f"{f.shape} and grid {x.shape}."
        )
    require_finite(name, draws=f)
    require_positive(name, noise=noise)
    scale = np.broadcast_to(np.asarray(noise, "float64"), x.shape)
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
        bands: of every method, as `quartile_bands` returns them.
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
    edges = np.concatenate([np.ravel(band.predictive) for band in bands.values()] + [targets])
    margin = 0.04 * float(np.ptp(edges))
    widest = 1.1 * max(float(np.ptp(band.predictive, axis=0).max()) for band in bands.values())
    figure = Figure(figsize=(style.COLUMN, 0.7 + 1.95 * len(bands)))
    panels = figure.subplots(2 * len(bands), sharex=True, height_ratios=(2.4, 1) * len(bands))
    for above, below, (method, band) in zip(panels[::2], panels[1::2], bands.items(), strict=True):
        points: Any = {"color": "#666666", "ms": 2.2, "mew": 0.4, "alpha": 0.6, "rasterized": True, "zorder": 1}
        marks = above.plot(inputs, targets, "x", label="training points", **points)
        handles: list = []
        for pair, look in zip((band.predictive, band.epistemic), _LOOKS, strict=True):
            handles.append(above.fill_between(band.grid, *pair, lw=0.6, **look))
            below.fill_between(band.grid, np.ptp(pair, axis=0), lw=0.6, **look)
        handles += above.plot(band.grid, band.median, color=style.VERMILION, lw=0.8, zorder=4, label="median")
        above.set(title=method, ylabel=ylabel, ylim=(edges.min() - margin, edges.max() + margin))
        below.set(ylabel="IQR", ylim=(0, widest))
    panels[-1].set(xlabel=xlabel, xlim=(band.grid[0], band.grid[-1]))
    panels[-1].xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    figure.align_ylabels()
    style.legend_below(figure, [*handles, *marks])
    return figure


# Edges tell the bands apart where their colours do not.
_LOOKS: Any = (
    {"fc": (style.PURPLE, 0.45), "ec": style.PURPLE, "ls": (0, (2, 1)), "zorder": 2, "label": "predictive IQR"},
    {"fc": (style.BLUE, 0.55), "ec": style.BLUE, "ls": "-", "zorder": 3, "label": "epistemic IQR"},
)
