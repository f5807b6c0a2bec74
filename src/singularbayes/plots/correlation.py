"""Heat maps of how the entries of a weight matrix correlate under its posterior."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from singularbayes.checks import require_finite, require_methods
from singularbayes.plots import style


@style.for_print
def weight_correlations(matrices: Mapping[str, np.ndarray], rows: int, columns: int) -> Figure:
    """Returns one heat map per method of the correlations between the entries of a block of W.

    Entries stand row by row, W₁₁ W₁₂ … W₂₁ …; lines part the rows of W. Under W = A Bᵀ the squares on the diagonal are
    entries that share a row, and the stripes beside it are entries that share a column.

    Args:
        matrices: of every method, (rows · columns, rows · columns), as `posteriors.entry_correlation` gives them.
        rows, columns: of the block.

    >>> figure = weight_correlations({"low-rank": np.eye(6), "full-rank": np.eye(6)}, rows=2, columns=3)
    >>> len(figure.axes)
    3
    """
    require_methods("weight_correlations", matrices)
    for method, matrix in matrices.items():
        _check(method, np.asarray(matrix), rows * columns)
    figure = Figure(figsize=(style.COLUMN, 0.95 + 2.7 / len(matrices)), layout="compressed")
    panels = figure.subplots(1, len(matrices), sharey=True, squeeze=False)[0]
    for axes, (method, matrix) in zip(panels, matrices.items(), strict=True):
        # Purple and orange, which every kind of colour blindness tells apart; white is 0.
        image = axes.imshow(matrix, cmap="PuOr", vmin=-1, vmax=1, interpolation="nearest")
        axes.set_title(method)
        axes.set_xlabel("row of W")
        _mark_rows(axes, rows, columns)
    panels[0].set_ylabel("row of W")
    bar = figure.colorbar(image, ax=panels, location="bottom", shrink=0.8, aspect=30, ticks=(-1, -0.5, 0, 0.5, 1))
    bar.set_label(f"correlation of two entries, {columns} columns in each row")
    bar.outline.set_visible(False)
    return figure


def _check(method: str, matrix: np.ndarray, entries: int) -> None:
    name = f"weight_correlations of {method!r}"
    if entries < 1 or matrix.shape != (entries, entries):
        raise ValueError(f"{name} needs a matrix of shape ({entries}, {entries}), not empty; got {matrix.shape}.")
    require_finite(name, **{"the matrix": matrix})
    if np.abs(matrix).max() > 1 + 1e-6:
        raise ValueError(f"{name} needs correlations from -1 to 1; got {np.abs(matrix).max():.4g}.")


def _mark_rows(axes: Axes, rows: int, columns: int) -> None:
    edges = columns * np.arange(1, rows) - 0.5
    axes.hlines(edges, -0.5, rows * columns - 0.5, color=style.GREY, lw=0.3)
    axes.vlines(edges, -0.5, rows * columns - 0.5, color=style.GREY, lw=0.3)
    step = -(-rows // 8)  # at most eight numbers fit
    places = np.arange(0, rows, step)
    middles = columns * places + (columns - 1) / 2
    axes.set_xticks(middles, [str(row + 1) for row in places])
    axes.set_yticks(middles, [str(row + 1) for row in places])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
