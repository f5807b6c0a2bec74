"""Bounds against the rank: where a guarantee is not vacuous."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from singularbayes.checks import require_some, vectors
from singularbayes.plots import style

if TYPE_CHECKING:
    from singularbayes.evaluation import BoundsReport


@dataclass(frozen=True)
class BoundPanel:
    """What one panel shows; lower is better.

    Attributes:
        quantity: what is bounded, with its unit: "error rate".
        ranks: ascending.
        values: of every bound, one number per rank.
        observed: what they are compared with, such as the error on test data; may be empty.
        vacuous: from here on a bound is vacuous; None where there is no such value.
        full_rank: values and observed ones of a full-rank network, by their names; may be empty.

    >>> BoundPanel("error rate", [1, 2, 4], {"PAC-Bayes": [0.3, 0.4, 0.6]}, vacuous=1.0).ranks
    [1, 2, 4]
    """

    quantity: str
    ranks: Sequence[int]
    values: Mapping[str, Sequence[float]]
    observed: Mapping[str, Sequence[float]] = field(default_factory=dict)
    vacuous: float | None = None
    full_rank: Mapping[str, float] = field(default_factory=dict)


def last_useful_rank(ranks: Sequence[int], values: Sequence[float], vacuous: float) -> int | None:
    """Returns the largest of these ranks before the first whose bound is vacuous; None if already the first is.

    >>> last_useful_rank([2, 4, 8, 16], [0.5, 0.8, 1.2, 0.9], vacuous=1.0)
    4
    """
    useful = np.logical_and.accumulate(np.asarray(values) < vacuous)
    return int(np.asarray(ranks)[useful][-1]) if useful.any() else None


@style.for_print
def bounds_against_rank(panels: Sequence[BoundPanel]) -> Figure:
    """Returns one panel per quantity: bounds at every rank, open marks for full rank, grey where they are vacuous.

    >>> figure = bounds_against_rank([BoundPanel("error rate", [1, 2, 4], {"PAC-Bayes": [0.3, 0.4, 0.6]}, vacuous=1.0)])
    >>> len(figure.axes)
    1
    """
    require_some("bounds_against_rank", panels, "panels")
    for panel in panels:
        _check(panel)
    looks = style.looks(dict.fromkeys(name for panel in panels for name in _curves(panel)))
    legends = sum(len(_curves(panel)) for panel in panels)
    figure = Figure(figsize=(style.COLUMN, 1.75 * len(panels) + 0.13 * legends))
    for axes, panel in zip(figure.subplots(len(panels), squeeze=False)[:, 0], panels, strict=True):
        _draw(axes, panel, looks)
    figure.align_ylabels()
    return figure


def panels_of(report: "BoundsReport") -> list[BoundPanel]:
    """Returns panels for `bounds_against_rank`: the PAC-Bayes bound of a model, and Gaussian complexity.

    What they would be if every number cost the KL, and every factor had the norm, that it has at the model's own rank.
    Where the theorem behind Gaussian complexity does not cover the model, the panel has the published index.

    docs/certify.md has an example.
    """
    curves = report.curves
    if curves is None or not (curves.pac_bayes or curves.complexity):
        raise ValueError(f"panels_of needs a model with weight matrices that a bound is about; got {report.model!r}.")
    at = "" if curves.own is None else f", from rank {curves.own}"
    panels = []
    if curves.pac_bayes:
        values, risk = {f"PAC-Bayes{at}": curves.pac_bayes}, [float(curves.risk or 0.0)] * len(curves.ranks)
        panels.append(BoundPanel("0-1 risk of a draw", curves.ranks, values, {"on the examples": risk}, vacuous=1.0))
    if curves.complexity and curves.covered:
        values = {f"Gaussian complexity{at}": curves.complexity}
        panels.append(BoundPanel("half Brier score of the mean", curves.ranks, values, vacuous=1.0))
    elif curves.complexity:
        values = {f"published index, no certificate{at}": curves.complexity}
        panels.append(BoundPanel("Gaussian complexity", curves.ranks, values))
    return panels


def _curves(panel: BoundPanel) -> dict[str, Sequence[float]]:
    return {**panel.values, **panel.observed}


def _check(panel: BoundPanel) -> None:
    name = f"bounds_against_rank of {panel.quantity!r}"
    require_some(name, panel.values, "bounds")
    for bound, values in _curves(panel).items():
        ranks, _ = vectors(name, **{"ranks": panel.ranks, f"values of {bound!r}": values})
    if ranks[0] < 1 or (np.diff(ranks) <= 0).any():
        raise ValueError(f"{name} needs ascending ranks from 1; got {list(panel.ranks)}.")
    unknown = set(panel.full_rank) - set(_curves(panel))
    if unknown:
        raise ValueError(f"{name} needs full_rank by the names {list(_curves(panel))}; got {sorted(unknown)}.")
    vectors(name, full_rank=[0.0, *panel.full_rank.values()])


def _draw(axes: Axes, panel: BoundPanel, looks: Mapping[str, style.Look]) -> None:
    for name, values in _curves(panel).items():
        axes.plot(panel.ranks, values, label=_label(name, panel), zorder=3, **looks[name].plot)
    axes.set_xscale("log")
    beside = panel.ranks[-1] * max(2.0, panel.ranks[-1] / panel.ranks[0]) ** 0.15
    for name, value in panel.full_rank.items():
        marker, colour = looks[name].marker, looks[name].colour
        axes.plot([beside], [value], ls="", marker=marker, mfc="white", mec=colour, mew=0.9, ms=4.5, zorder=4)
    ticks = list(panel.ranks[:: -(-len(panel.ranks) // 8)])  # at most eight
    labels = [str(rank) for rank in ticks]
    axes.set_xticks([*ticks, *([beside] if panel.full_rank else [])], [*labels, *(["full"] if panel.full_rank else [])])
    axes.minorticks_off()
    _shade_vacuous(axes, panel.vacuous)
    axes.set(xlabel="rank", ylabel=f"{panel.quantity},\nlower is better")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)


def _label(name: str, panel: BoundPanel) -> str:
    if panel.vacuous is None or name in panel.observed:
        return name
    rank = last_useful_rank(panel.ranks, panel.values[name], panel.vacuous)
    return f"{name} (below {panel.vacuous:g} {'at no rank' if rank is None else f'to rank {rank}'})"


def _shade_vacuous(axes: Axes, vacuous: float | None) -> None:
    axes.set_ylim(bottom=0)
    if vacuous is None:
        return
    top = max(axes.get_ylim()[1], 1.25 * vacuous)
    axes.set_ylim(0, top)
    axes.axhspan(vacuous, top, color=style.PALE, lw=0, zorder=0)
    axes.axhline(vacuous, color=style.INK, lw=0.8, ls=(0, (4, 3)), zorder=1)
