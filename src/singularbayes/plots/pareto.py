"""Pareto fronts: which settings are not beaten in both of two measures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from singularbayes.metrics import Measure, pareto_front
from singularbayes.plots import style

if TYPE_CHECKING:
    from singularbayes.evaluation import Comparison


@dataclass(frozen=True)
class Point:
    """One setting: a short label such as "15, 15" for its ranks, its two numbers, and the group it belongs to.

    Args:
        errors: the standard errors of the two numbers, drawn as bars where they are not 0.

    >>> Point("rank 8", x=0.31, y=0.94, group="low-rank").label
    'rank 8'
    """

    label: str
    x: float
    y: float
    group: str
    errors: tuple[float, float] = (0.0, 0.0)


def points_of(comparison: "Comparison") -> list[Point]:
    """Returns one point per method from a comparison of two measures: `pareto(points_of(table), *table.measures)`.

    >>> from singularbayes.evaluation import Evaluation, compare
    >>> scores = {"a": {"rmse": 2.0, "mae": 1.0}, "b": {"rmse": 3.0, "mae": 1.0}}
    >>> runs = [Evaluation(name, "regression", 0, found) for name, found in scores.items()]
    >>> points = points_of(compare(runs, ["rmse", "mae"]))
    >>> [(point.label, point.x, point.y) for point in points]
    [('a', 2.0, 1.0), ('b', 3.0, 1.0)]
    """
    if len(comparison.columns) != 2:
        names = [measure.name for measure in comparison.measures]
        raise ValueError(f"points_of needs a comparison of 2 measures; got {len(names)}: {names}.")
    return [Point(method, x, y, method) for method, (x, y) in comparison.values().items()]


@style.for_print
def pareto(points: Sequence[Point], x: Measure, y: Measure, recommended: Point | None = None) -> Figure:
    """Returns all settings, those on the front filled and labelled, the others open; a line joins the front.

    Groups, such as KL weights or methods, have their own marks. The line is a staircase: what lies on its worse side is
    beaten in both measures by a corner of it. A ring is around the point that is recommended, if one is.

    >>> from singularbayes.metrics import Measure
    >>> points = [Point("rank 4", 0.40, 0.90, "low-rank"), Point("rank 16", 0.33, 0.93, "low-rank")]
    >>> figure = pareto(points, Measure("nll", "lower"), Measure("auroc_ood", "higher"))
    >>> len(figure.axes)
    1
    """
    if not points:
        raise ValueError("pareto needs at least one of points; got none.")
    table = np.array([[point.x, point.y] for point in points], "float64")
    front = pareto_front(table, (x.sign, y.sign))
    looks = style.looks(dict.fromkeys(point.group for point in points))
    others = [Line2D([], [], **_LINE, label="Pareto front")]
    if recommended is not None:
        others.append(Line2D([], [], **_RING, label="recommended"))
    texts = [*looks, *(str(line.get_label()) for line in others)]
    figure = Figure(figsize=(style.COLUMN, 2.5 + style.legend_height(texts)))
    axes = figure.subplots()
    # Along the front from its best x to its best y; every step first gives up x, then gains y.
    corners = table[front][np.argsort(-x.sign * table[front][:, 0], kind="stable")]
    axes.step(corners[:, 0], corners[:, 1], where="post", zorder=2, **_LINE)
    for point, best in zip(points, front, strict=True):
        look = looks[point.group]
        fill = look.colour if best else "white"
        axes.plot([point.x], [point.y], ls="", marker=look.marker, ms=4.5, mfc=fill, mec=look.colour, mew=0.9, zorder=3)
        if any(point.errors):
            xerr, yerr = point.errors
            axes.errorbar(point.x, point.y, yerr, xerr, fmt="none", ecolor=look.colour, elinewidth=0.7, zorder=2)
    if recommended is not None:
        axes.plot([recommended.x], [recommended.y], zorder=3, **_RING)
    axes.margins(0.18)
    axes.set(xlabel=x.axis, ylabel=y.axis.replace(", ", ",\n"))
    marks: Any = {"ls": "", "ms": 4.5}
    groups = [
        Line2D([], [], marker=look.marker, mfc=look.colour, mec=look.colour, label=group, **marks)
        for group, look in looks.items()
    ]
    style.legend_below(figure, [*groups, *others])
    _label_front(figure, axes, [point for point, best in zip(points, front, strict=True) if best], x, y)
    return figure


_LINE: Any = {"color": style.GREY, "lw": 0.8, "ls": "-"}
_RING: Any = {"ls": "", "marker": "o", "ms": 9, "mfc": "none", "mec": style.INK, "mew": 0.8}


def _label_front(figure: Figure, axes: Axes, front: list[Point], x: Measure, y: Measure) -> None:
    """Writes labels on the better side of the front, where no point can be, further off where another label is."""
    figure.draw_without_rendering()
    taken: list[Bbox] = []
    for point in sorted(front, key=lambda point: x.sign * point.x):
        for away in _PLACES:
            text = axes.annotate(
                point.label,
                (point.x, point.y),
                (x.sign * _NEAR, y.sign * away),
                textcoords="offset points",
                ha="left" if x.sign > 0 else "right",
                va="bottom" if y.sign > 0 else "top",
                fontsize=7,
                arrowprops={"arrowstyle": "-", "lw": 0.4, "color": style.GREY} if away > _NEAR else None,
            )
            text.set_in_layout(False)  # it is inside the frame, which must not move after the labels are placed
            box = Text.get_window_extent(text).padded(1.5)
            if away == _PLACES[-1] or not any(box.overlaps(other) for other in taken):
                break
            text.remove()
        taken.append(box)


_NEAR = 3  # points between a mark and its label
_PLACES = range(_NEAR, 100, 6)
