"""Radars: many measures of a few methods at a glance, as they are and weighed by the number of parameters.

Every axis runs from a worse value in the centre to a better one on the rim, and both stand at the axis: a long axis may
be a small difference. Areas are not filled, because they depend on the order of the axes.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.projections.polar import PolarAxes

from singularbayes.checks import require_methods
from singularbayes.metrics import Measure, efficiency_factors
from singularbayes.plots import style


def scale_ends(values: Mapping[str, Sequence[float]], measures: Sequence[Measure]) -> np.ndarray:
    """Returns (worse, better) of every measure: its limits where they are given, else the ends of the data.

    >>> measures = [Measure("AUROC", "higher", limits=(0.5, 1)), Measure("NLL", "lower"), Measure("R²", "higher")]
    >>> scale_ends({"a": [0.9, 0.3, 0.7], "b": [0.8, 0.2, 0.6]}, measures)
    array([[0.5, 1. ],
           [0.3, 0.2],
           [0.6, 0.7]])
    """
    table = _table(values, measures)
    ends = np.array(
        [m.limits or (column.min(), column.max()) for m, column in zip(measures, table.T, strict=True)], "float64"
    )
    for measure, (least, most), column in zip(measures, ends, table.T, strict=True):
        if column.min() < least or column.max() > most:
            raise ValueError(
                f"A radar needs limits that hold every value; got limits {measure.limits} and values from "
                f"{column.min():.4g} to {column.max():.4g} of {measure.name!r}."
            )
    lower = np.array([m.sign < 0 for m in measures])
    return np.where(lower[:, None], ends[:, ::-1], ends)


def radar_scores(values: Mapping[str, Sequence[float]], measures: Sequence[Measure]) -> dict[str, np.ndarray]:
    """Returns (value − worse)/(better − worse) of every method and measure: 0 in the centre, 1 on the rim.

    A measure that is the same for all methods, and has no limits, puts all of them on the rim.

    >>> measures = [Measure("AUROC", "higher", limits=(0.5, 1)), Measure("NLL", "lower"), Measure("R²", "higher")]
    >>> radar_scores({"a": [0.9, 0.3, 0.7], "b": [0.8, 0.2, 0.6]}, measures)
    {'a': array([0.8, 0. , 1. ]), 'b': array([0.6, 1. , 0. ])}
    """
    worse, better = scale_ends(values, measures).T
    tied = worse == better
    length = np.where(tied, 1.0, np.abs(better - worse))
    scores = np.where(tied, 1.0, np.abs(_table(values, measures) - worse) / length)  # all lie on one side of `worse`
    return dict(zip(values, scores, strict=True))


def adjusted_scores(
    values: Mapping[str, Sequence[float]], measures: Sequence[Measure], parameters: Mapping[str, int]
) -> dict[str, np.ndarray]:
    """Returns the scores of a radar times √(fewest parameters / parameters)."""
    if set(parameters) != set(values):
        raise ValueError(f"A radar needs the parameters of each of {list(values)}; got those of {list(parameters)}.")
    factors = efficiency_factors(parameters)
    return {method: factors[method] * score for method, score in radar_scores(values, measures).items()}


@style.for_print
def radar(values: Mapping[str, Sequence[float]], measures: Sequence[Measure]) -> Figure:
    """Returns a radar of the methods.

    Args:
        values: of every method, one number per measure in their order; for several seeds their means. A comparison has
            both: `radar(table.values(), table.measures)`.
        measures: at least three; the two numbers at an axis are the values at its centre and on its rim.

    >>> from singularbayes.metrics import Measure
    >>> measures = [Measure("accuracy", "higher"), Measure("nll", "lower"), Measure("ece", "lower")]
    >>> figure = radar({"low-rank": [0.92, 0.31, 0.02], "ensemble": [0.93, 0.29, 0.03]}, measures)
    >>> len(figure.axes)
    1
    """
    labels = {method: method for method in values}
    return _draw(radar_scores(values, measures), scale_ends(values, measures), measures, labels, _NOTE)


@style.for_print
def efficiency_radar(
    values: Mapping[str, Sequence[float]],
    measures: Sequence[Measure],
    parameters: Mapping[str, int],
    counted: str = "parameters",
) -> Figure:
    """Returns a radar whose scores are multiplied by √(fewest parameters / parameters).

    The factor stands in the legend. Only a method with the factor 1 can reach the value on the rim.

    Args:
        counted: what the numbers count, for the legend.

    >>> from singularbayes.metrics import Measure
    >>> measures = [Measure("accuracy", "higher"), Measure("nll", "lower"), Measure("ece", "lower")]
    >>> scores = {"low-rank": [0.92, 0.31, 0.02], "ensemble": [0.93, 0.29, 0.03]}
    >>> figure = efficiency_radar(scores, measures, {"low-rank": 16_000, "ensemble": 128_000})
    >>> len(figure.axes)
    1
    """
    scores = adjusted_scores(values, measures, parameters)
    labels = {method: f"{method} (× {factor:.2f})" for method, factor in efficiency_factors(parameters).items()}
    note = f"{_NOTE};\nscores × √(fewest {counted} / {counted})"
    return _draw(scores, scale_ends(values, measures), measures, labels, note)


_NOTE = "at each axis: value in the centre → on the rim"


def _table(values: Mapping[str, Sequence[float]], measures: Sequence[Measure]) -> np.ndarray:
    require_methods("A radar", values)
    if len(measures) < 3:
        raise ValueError(f"A radar needs at least 3 measures; got {len(measures)}.")
    for method, row in values.items():
        if len(row) != len(measures):
            raise ValueError(f"A radar needs one value per measure; got {len(row)} of {method!r} for {len(measures)}.")
        wrong = [m.name for m, value in zip(measures, row, strict=True) if not np.isfinite(value)]
        if wrong:
            raise ValueError(
                f"A radar needs finite values; got NaN or infinity of {method!r} for {wrong}. Leave one out."
            )
    return np.array(list(values.values()), "float64")


def _draw(
    scores: Mapping[str, np.ndarray],
    ends: np.ndarray,
    measures: Sequence[Measure],
    labels: dict[str, str],
    note: str,
) -> Figure:
    figure = Figure(figsize=(style.COLUMN, 2.75 + style.legend_height(labels.values()) + 0.12 * note.count("\n")))
    axes = figure.add_subplot(projection="polar", theta_offset=np.pi / 2, theta_direction=-1)
    assert isinstance(axes, PolarAxes)
    angles = 2 * np.pi * np.arange(len(measures)) / len(measures)
    handles = []
    for method, look in style.looks(scores).items():
        closed = np.append(scores[method], scores[method][0])
        handles += axes.plot(np.append(angles, 0.0), closed, label=labels[method], clip_on=False, zorder=3, **look.plot)
    axes.set(ylim=(0, 1), yticks=(0.25, 0.5, 0.75, 1), yticklabels=[], xticks=angles, xticklabels=[])
    axes.grid(color="#CCCCCC", lw=0.5)
    axes.spines["polar"].set_visible(False)
    for angle, measure, (worse, better) in zip(angles, measures, ends, strict=True):
        _label(axes, angle, f"{measure.label} {measure.arrow}\n{worse:.3g} → {better:.3g}{_after(measure)}")
    style.legend_below(figure, handles, title=note)
    return figure


def _after(measure: Measure) -> str:
    return f" {measure.unit}" if measure.unit else ""


def _label(axes: PolarAxes, angle: float, text: str) -> None:
    across, up = (
        np.round(np.sin(angle), 6),
        np.round(np.cos(angle), 6),
    )  # the first axis points up, the next follow the clock
    axes.annotate(
        text,
        (angle, 1.0),
        (5 * across, 5 * up),
        textcoords="offset points",
        ha="left" if across > 0.2 else "right" if across < -0.2 else "center",
        va="bottom" if up > 0.2 else "top" if up < -0.2 else "center",
        fontsize=7,
        multialignment="center",
    )
