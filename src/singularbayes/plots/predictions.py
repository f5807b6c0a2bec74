"""The predictions of one model, example by example: values with their intervals, classes with their uncertainty."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from singularbayes.checks import vectors
from singularbayes.plots import style

_SHOWN = 2000  # more points than these would only cover each other


@style.for_print
def predicted_values(
    mean: np.ndarray, lower: np.ndarray, upper: np.ndarray, targets: np.ndarray | None = None, interval: str = "95 %"
) -> Figure:
    """Returns the predictions in the order of their means, with an interval each, and the targets where there are some.

    Of more than 2,000 predictions every second, third, … is shown.

    Args:
        mean, lower, upper, targets: one number per prediction.
        interval: what the intervals are called: their level, and the variance that they have.

    >>> mean = np.arange(5.0)
    >>> figure = predicted_values(mean, mean - 1, mean + 1, targets=mean + 0.5)
    >>> len(figure.axes)
    1
    """
    means, low, high = vectors("predicted_values", mean=mean, lower=lower, upper=upper)
    order = np.argsort(means, kind="stable")[:: -(-len(means) // _SHOWN)]
    figure = Figure(figsize=(style.COLUMN, 2.3))
    axes, places = figure.subplots(), np.arange(len(order))
    band = axes.fill_between(places, low[order], high[order], color=style.SKY, alpha=0.5, lw=0, label=interval)
    handles = [band, *axes.plot(places, means[order], color=style.BLUE, label="mean")]
    if targets is not None:
        _, y = vectors("predicted_values", mean=mean, targets=targets)
        outside = ((y < low) | (y > high))[order]
        for where, colour, marker, label in (
            (~outside, style.GREY, ".", "target"),
            (outside, style.VERMILION, "x", f"target outside ({100 * outside.mean():.3g} %)"),
        ):
            look: Any = {"color": colour, "marker": marker, "ls": "none", "ms": 3, "rasterized": True}
            handles += axes.plot(places[where], y[order][where], label=label, **look)
    axes.set(xlabel="examples, by predicted mean", ylabel="prediction", xlim=(-0.5, len(order) - 0.5))
    style.legend_below(figure, handles)
    return figure


@style.for_print
def predicted_classes(
    confidence: np.ndarray, uncertainty: np.ndarray, quantity: str, right: np.ndarray | None = None
) -> Figure:
    """Returns an uncertainty of each prediction against the probability of its class; wrong ones are marked.

    Of more than 2,000 predictions every second, third, … is shown.

    Args:
        confidence: the probability of the predicted class, one number per prediction.
        quantity: what the uncertainty is with its unit, "mutual information (nats)".
        right: whether each prediction is right, where that is known.

    >>> confidence, uncertainty = np.array([0.9, 0.6, 0.8]), np.array([0.1, 0.5, 0.2])
    >>> figure = predicted_classes(confidence, uncertainty, "entropy (nats)", right=np.array([True, False, True]))
    >>> figure.axes[0].get_ylabel()
    'entropy (nats)'
    """
    p, u = vectors("predicted_classes", confidence=confidence, uncertainty=uncertainty)
    step = -(-len(p) // _SHOWN)
    known = np.ones(len(p), bool) if right is None else np.asarray(right, bool)
    figure = Figure(figsize=(style.COLUMN, 2.3))
    axes, handles = figure.subplots(), []
    for where, colour, marker, label in (
        (known, style.BLUE, ".", "prediction" if right is None else "right"),
        (~known, style.VERMILION, "x", f"wrong ({100 * (~known).mean():.3g} %)"),
    ):
        if right is None and not where.any():
            continue
        look: Any = {"color": colour, "marker": marker, "ls": "none", "ms": 3.5, "alpha": 0.7, "rasterized": True}
        handles += axes.plot(p[where][::step], u[where][::step], label=label, **look)
    axes.set(xlabel="probability of the predicted class", ylabel=quantity)
    style.legend_below(figure, handles)
    return figure
