"""Curves: measures against a setting, selective prediction, and the evidence of a monitor as inputs arrive."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from singularbayes.checks import require_methods, require_share, require_some, vectors
from singularbayes.metrics import Measure, SelectiveCurve
from singularbayes.plots import style

Seeds = Mapping[float, Sequence[float]]  # the values of every seed, by the setting


@style.for_print
def against_setting(curves: Mapping[Measure, Seeds], setting: str, *, marks: Sequence[float] = ()) -> Figure:
    """Returns one panel per measure, mean and standard error over seeds, against a setting on a logarithmic axis.

    Args:
        curves: of every measure, the values of all seeds at every value of the setting, which is above 0.
        setting: what the axis is, with its unit.
        marks: values of the setting with a line through all panels, such as the paper's.

    >>> from singularbayes.metrics import Measure
    >>> figure = against_setting({Measure("nll", "lower"): {1: [0.5, 0.52], 8: [0.4, 0.41], 64: [0.45, 0.44]}}, "rank")
    >>> len(figure.axes)
    1
    """
    require_some("against_setting", list(curves), "measures")
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
    (settings,) = vectors(name, settings=sorted(seeds))
    if settings[0] <= 0:
        raise ValueError(f"against_setting needs settings above 0; got {settings[0]:.3g} of {measure.name!r}.")
    values = [vectors(name, **{f"values at {x:g}": seeds[x]})[0] / measure.scale for x in settings]
    means = [v.mean() for v in values]
    errors = [v.std(ddof=1) / np.sqrt(len(v)) if len(v) > 1 else 0.0 for v in values]
    axes.errorbar(settings, means, errors, capsize=1.5, elinewidth=0.8, **{**look.plot, "ls": "-"})
    axes.set_ylabel(f"{measure.label}{_direction(measure)}", fontsize=7)
    axes.margins(y=0.15)


def _direction(measure: Measure) -> str:
    return f" {measure.arrow}" if measure.arrow in ("↑", "↓") else ""


@style.for_print
def selective_prediction(
    curves: Mapping[str, SelectiveCurve], loss: str, unit: str = "", least: float = 0.5, percent: bool = False
) -> Figure:
    """Returns the loss of the kept examples against the share kept; lower is better, and a flat curve has no use.

    Args:
        curves: of every method.
        loss: what the curves' losses are, "error rate" or "MAE".
        unit: of the loss, "µg/m³".
        least: the smallest share drawn; few examples make a curve noisy.
        percent: write losses in %, for an error rate.

    >>> from singularbayes import metrics
    >>> curve = metrics.selective_curve(np.array([0.1, 0.4, 0.2, 0.9]), np.array([0, 1, 0, 1]))
    >>> figure = selective_prediction({"mixture": curve}, "error rate")
    >>> figure.axes[0].get_xlabel()
    'examples kept, the most certain first'
    """
    require_methods("selective_prediction", curves)
    require_share("selective_prediction", least=least)
    figure = Figure(figsize=(style.COLUMN, 2.3 + style.legend_height(curves)))
    axes, handles = figure.subplots(), []
    kept = np.linspace(least, 1, 101)
    for method, look in style.looks(curves).items():
        (risk,) = vectors(f"selective_prediction of {method!r}", risk=curves[method].at(kept))
        handles += axes.plot(kept, risk, markevery=10, label=method, **look.plot)
    axes.xaxis.set_major_formatter(style.percent())
    if percent:
        axes.yaxis.set_major_formatter(style.percent())
    axes.set_xlim(least - 0.01, 1.01)
    axes.set_ylim(bottom=0)
    label = f"{loss} ({unit})" if unit else loss
    axes.set(xlabel="examples kept, the most certain first", ylabel=f"{label},\nlower is better")
    style.legend_below(figure, handles)
    return figure


@style.for_print
def wealth_paths(paths: Mapping[str, np.ndarray], threshold: float) -> Figure:
    """Returns the wealth of bets that nothing has changed, on a logarithmic axis, and the threshold of an alarm.

    Args:
        paths: of every watched stream, (points, 2): the inputs so far and the wealth, above 0.

    >>> path = np.array([[1, 1.0], [2, 3.0], [3, 120.0]])
    >>> figure = wealth_paths({"entropy": path}, threshold=100)
    >>> figure.axes[0].texts[0].get_text()
    'alarm at 100'
    """
    require_some("wealth_paths", paths, "streams")
    figure = Figure(figsize=(style.COLUMN, 2.1 + style.legend_height(paths)))
    axes, handles = figure.subplots(), []
    for name, look in style.looks(paths).items():
        seen, wealth = np.asarray(paths[name], "float64").T
        handles += axes.plot(seen, wealth, markevery=max(1, len(seen) // 8), label=name, **look.plot)
    axes.axhline(threshold, color=style.INK, lw=0.8, ls=(0, (4, 3)))
    axes.text(0.01, threshold, f"alarm at {threshold:g}", va="bottom", transform=axes.get_yaxis_transform())
    axes.set(yscale="log", xlabel="inputs", ylabel="evidence of a change")
    style.legend_below(figure, handles)
    return figure
