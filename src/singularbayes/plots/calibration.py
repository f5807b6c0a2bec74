"""Calibration curves: do predictions with confidence p come true in p of the cases, and do intervals of level p?"""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from singularbayes.checks import require_methods, vectors
from singularbayes.metrics import IntervalCalibration, ReliabilityCurve
from singularbayes.plots import style


@style.for_print
def reliability(curves: Mapping[str, ReliabilityCurve]) -> Figure:
    """Returns accuracy against confidence, one point per bin; below it, the share of examples of each point.

    Below the diagonal a method is overconfident. The legend gives the expected calibration error of the same bins.

    >>> from singularbayes import metrics
    >>> probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.3, 0.7]])
    >>> curve = metrics.reliability_curve(probabilities, np.array([0, 1, 1]), bins=2)
    >>> len(reliability({"network": curve}).axes)
    2
    """
    require_methods("reliability", curves)
    for method, c in curves.items():
        name = f"reliability of {method!r}"
        vectors(name, confidence=c.confidence, accuracy=c.accuracy, share=c.share)
    labels = {method: f"{method}, ECE {curve.error:.3f}" for method, curve in curves.items()}
    figure = Figure(figsize=(style.COLUMN, 3.5 + style.legend_height(labels.values())))
    above, below = figure.subplots(2, sharex=True, height_ratios=(3.4, 1))
    handles = []
    for method, look in style.looks(curves).items():
        curve = curves[method]
        handles += above.plot(curve.confidence, curve.accuracy, label=labels[method], **look.plot)
        below.plot(curve.confidence, curve.share, **look.plot)
    least = min(float(np.min([c.confidence, c.accuracy])) for c in curves.values())
    _diagonal(above, max(0.0, np.floor(10 * least - 0.2) / 10))
    above.set_ylabel("accuracy (below the line: overconfident)")
    below.set(xlabel="confidence", ylabel="share of\nexamples")
    below.set_ylim(0, 1.15 * max(float(np.max(curve.share)) for curve in curves.values()))
    _percent(above.yaxis, below.yaxis, below.xaxis)
    figure.align_ylabels()
    style.legend_below(figure, handles)
    return figure


@style.for_print
def interval_calibration(curves: Mapping[str, IntervalCalibration]) -> Figure:
    """Returns the share of targets in central intervals against the intervals' level.

    Below the diagonal intervals are too narrow. The legend gives the mean distance from it over the levels.

    >>> from singularbayes import metrics
    >>> curve = metrics.interval_calibration_curve(np.zeros(3), np.ones(3), np.array([-1.0, 0.2, 2.0]))
    >>> figure = interval_calibration({"mixture": curve})
    >>> figure.axes[0].get_ylabel()
    'targets inside (below the line: too narrow)'
    """
    require_methods("interval_calibration", curves)
    for method, c in curves.items():
        vectors(f"interval_calibration of {method!r}", levels=c.levels, observed=c.observed)
    labels = {m: f"{m}, error {np.abs(c.observed - c.levels).mean():.3f}" for m, c in curves.items()}
    figure = Figure(figsize=(style.COLUMN, 3.0 + style.legend_height(labels.values())))
    axes, handles = figure.subplots(), []
    for method, look in style.looks(curves).items():
        handles += axes.plot(curves[method].levels, curves[method].observed, label=labels[method], **look.plot)
    _diagonal(axes, 0.0)
    axes.set(xlabel="level of the interval", ylabel="targets inside (below the line: too narrow)")
    _percent(axes.yaxis, axes.xaxis)
    style.legend_below(figure, handles)
    return figure


def _diagonal(axes: Axes, least: float) -> None:
    axes.plot([least, 1], [least, 1], color=style.GREY, lw=0.8, ls=(0, (4, 3)), zorder=1)
    axes.set(xlim=(least, 1.02), ylim=(least, 1.02))


def _percent(*axes) -> None:
    for axis in axes:
        axis.set_major_formatter(style.percent())
