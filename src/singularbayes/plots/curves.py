"""Curves of classifiers and regressions: reliability, and selective prediction."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from singularbayes.checks import require_methods, require_share, vectors
from singularbayes.metrics import ReliabilityCurve, SelectiveCurve
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
    least = max(0.0, np.floor(10 * least - 0.2) / 10)
    above.plot([least, 1], [least, 1], color=style.GREY, lw=0.8, ls=(0, (4, 3)), zorder=1)
    above.set(xlim=(least, 1.02), ylim=(least, 1.02), ylabel="accuracy (below the line: overconfident)")
    below.set(xlabel="confidence", ylabel="share of\nexamples")
    below.set_ylim(0, 1.15 * max(float(np.max(curve.share)) for curve in curves.values()))
    for axis in (above.yaxis, below.yaxis, below.xaxis):
        axis.set_major_formatter(style.percent())
    figure.align_ylabels()
    style.legend_below(figure, handles)
    return figure


@style.for_print
def selective_prediction(
    curves: Mapping[str, SelectiveCurve], loss: str, least: float = 0.5, percent: bool = False
) -> Figure:
    """Returns the loss of the kept examples against the share kept; lower is better, and a flat curve has no use.

    Args:
        curves: of every method.
        loss: what the curves' losses are, with their unit: "error rate" or "MAE (µg/m³)".
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
    axes.set(xlabel="examples kept, the most certain first", ylabel=f"{loss},\nlower is better")
    style.legend_below(figure, handles)
    return figure
