"""Lines of measures against one setting, such as the weight of the KL or the rank, with their standard errors."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from singularbayes.metrics import Measure
from singularbayes.plots import checks, style

Seeds = Mapping[float, Sequence[float]]  # the values of every seed, by the setting


@style.for_print
def against_setting(curves: Mapping[Measure, Seeds], setting: str, *, marks: Sequence[float] = ()) -> Figure:
    """Returns a panel a measure, mean and standard error over seeds, against a setting on a logarithmic axis.

    Args:
        curves: of every measure, the values of all seeds at every value of the setting, which is above 0.
        setting: what the axis is, with its unit.
        marks: values of the setting with a line through all panels, such as the paper's.
    """
    checks.some("against_setting", list(curves), "measures")
    figure = Figure(figsize=(style.COLUMN, 0.5 + 1.15 * len(curves)))
    panels = figure.subplots(len(curves), sharex=True, squeeze=False)[:, 0]
    looks = style.looks(measure.name for measure in curves)
    for axes, (measure, seeds) in zip(panels, curves.items(), strict=True):
        _draw(axes, measure, seeds, looks[measure.name])
        for mark in marks:
            axes.axvline(mark, color=style.GREY, lw=0.8, ls=(0, (4, 3)), zorder=1)
    panels[-1].set(xlabel=setting, xscale="log")
    settings = sorted({x for seeds in curves.values() for x in seeds})
    if len(settings) <= 6:  # few enough to be named
        panels[-1].set_xticks(settings, [f"{x:g}" for x in settings])
        panels[-1].xaxis.set_minor_locator(NullLocator())
    figure.align_ylabels()
    return figure


def _draw(axes: Axes, measure: Measure, seeds: Seeds, look: style.Look) -> None:
    name = f"against_setting of {measure.name!r}"
    (settings,) = checks.vectors(name, settings=sorted(seeds))
    if settings[0] <= 0:
        raise ValueError(f"against_setting needs settings above 0; got {settings[0]:.3g} of {measure.name!r}.")
    values = [checks.vectors(name, **{f"values at {x:g}": seeds[x]})[0] / measure.scale for x in settings]
    means = [v.mean() for v in values]
    errors = [v.std(ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0 for v in values]
    axes.errorbar(settings, means, errors, capsize=1.5, elinewidth=0.8, **{**look.plot, "ls": "-"})
    axes.set_ylabel(f"{measure.label}{_direction(measure)}", fontsize=7)
    axes.margins(y=0.15)


def _direction(measure: Measure) -> str:
    return f" {measure.arrow}" if measure.arrow in ("↑", "↓") else ""
