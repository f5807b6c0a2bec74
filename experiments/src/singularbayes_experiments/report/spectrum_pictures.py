"""Singular values of trained networks, method by method, drawn from the arrays of records."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from singularbayes.checks import vectors
from singularbayes.plots import style
from singularbayes_experiments.methods.posterior_scores import SINGULAR_VALUES
from singularbayes_experiments.report.names import rank_in
from singularbayes_experiments.report.picture import Panel, Picture, svg
from singularbayes_experiments.report.rows import Row, listed

SHARE = 0.9  # the share of ‖W‖² that a rank is named for
_FLOOR = 1e-4  # relative; what lies below is left out
_MATRICES = 6  # panels; of a deep network those with the most singular values
_FEWEST = 3  # singular values of a matrix that is drawn: fewer, as those of a head, are no decay


def shown(rows: Sequence[Row]) -> tuple[str, ...]:
    """Returns the methods whose lines can be distinguished: no members of ensembles, no other ranks."""
    single = [row.method for row in rows if "ensemble" not in row.method and rank_in(row.method) is None]
    return tuple(dict.fromkeys(single))[: len(style.COLOURS)]


def draw(rows: Sequence[Row]) -> Picture:
    """Returns a panel a weight matrix: the singular values of its mean, for every method at its first seed."""
    values: dict[str, dict[str, np.ndarray]] = {}
    for row in rows:
        for name in row.arrays:
            if name.startswith(SINGULAR_VALUES):
                values.setdefault(name.removeprefix(SINGULAR_VALUES), {})[row.name] = row.arrays[name].astype("float64")
    length = {matrix: max(map(len, of.values())) for matrix, of in values.items()}
    longest = sorted((matrix for matrix in values if length[matrix] >= _FEWEST), key=lambda matrix: -length[matrix])
    longest = longest[:_MATRICES]
    if not longest:
        raise ValueError(f"no matrix has {_FEWEST} singular values.")
    panels = [_panel(matrix, values[matrix]) for matrix in values if matrix in longest]
    ranks = {method: rank_for(of, SHARE) for method, of in values[longest[0]].items()}
    text = listed([f"{rank} for {method}" for method, rank in ranks.items()])
    caption = (
        f"Singular values of the mean weights, divided by the largest, seed {rows[0].first.seed}; those below "
        f"{_FLOOR:g} are left out. The rank that keeps {100 * SHARE:g} % of ‖W‖² of {longest[0]} is {text}."
    )
    return Picture("singular-values", "Singular values", caption, tuple(panels))


def rank_for(values: np.ndarray, explained: float) -> int:
    """Returns the smallest rank that keeps this share of Σ s².

    >>> rank_for(np.array([3.0, 1.0, 1.0]), 0.9)
    2
    """
    kept = np.cumsum(values**2)
    return int(np.searchsorted(kept, explained * kept[-1])) + 1


def _panel(matrix: str, values: Mapping[str, np.ndarray]) -> Panel:
    alt = f"Singular values of {matrix}: " + listed(
        [f"{method} needs a rank of {rank_for(of, SHARE)} of {len(of)}" for method, of in values.items()]
    )
    return Panel(svg(decay(matrix, values)), f"{alt} for {100 * SHARE:g} % of ‖W‖².")


@style.for_print
def decay(matrix: str, values: Mapping[str, np.ndarray]) -> Figure:
    """Returns singular values by their number, both on logarithmic axes, divided by the largest of the method."""
    figure = Figure(figsize=(style.COLUMN, 2.4 + style.legend_height(values)))
    axes, handles = figure.subplots(), []
    for method, look in style.looks(values).items():
        (found,) = vectors(f"singular values of {method!r}", values=values[method])
        relative = found / (found[0] or 1.0)
        there = relative[relative >= _FLOOR]
        line = {"color": look.colour, "ls": look.line, "label": method}
        handles += axes.plot(np.arange(1, len(there) + 1), there, **line)
    axes.set(xscale="log", yscale="log", xlabel="singular value number", ylabel="divided by the largest", title=matrix)
    style.legend_below(figure, handles)
    return figure
