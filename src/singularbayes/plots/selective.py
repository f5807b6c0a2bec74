"""Selective prediction: what is gained when a method may leave out what it is least certain about."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from singularbayes.checks import require_methods, vectors
from singularbayes.metrics import SelectiveCurve
from singularbayes.plots import style


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
    """
    require_methods("selective_prediction", curves)
    if not 0 < least < 1:
        raise ValueError(f"selective_prediction needs 0 < least < 1; got least={least!r}.")
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
