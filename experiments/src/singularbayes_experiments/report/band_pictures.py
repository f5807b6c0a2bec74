"""Figures of a regression on a line, drawn from the arrays of records."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from singularbayes.metrics import IntervalCalibration, interval_calibration_curve
from singularbayes.plots import BLUE, INK, PALE, SKY, interval_calibration
from singularbayes_experiments.report.picture import Key, Panel, Picture, panel, svg
from singularbayes_experiments.report.rows import Row, listed

ARRAYS = ("x", "y", "grid", "mean", "epistemic", "total")
NEAR = ("y_near", "mean_near", "std_near")  # on new points of the training range
_DOTS = "#555555"


def bands(rows: Sequence[Row]) -> Picture:
    """Returns one panel per method, all on the same axes: data, mean and 95 % bands; below, half the bands' widths."""
    arrays = [row.arrays for row in rows]
    edges = np.concatenate([a["total"].ravel() for a in arrays] + [arrays[0]["y"]])
    room = 0.05 * float(np.ptp(edges))
    limits = float(edges.min()) - room, float(edges.max()) + room
    widest = 1.1 * max(float(np.ptp(a["total"], axis=0).max()) for a in arrays) / 2

    def one(row: Row) -> Panel:
        return panel(lambda figure: _draw(figure, row, limits, widest), _alt(row), (5.2, 5.0))

    noise = _noise(rows[0])
    key = (
        Key("dots", _DOTS, "training data"),
        Key("line", INK, "mean"),
        Key("fill", BLUE, "95 % epistemic band: doubt about the function", 0.6),
        Key("fill", SKY, f"95 % total band: with the assumed noise, sd {noise:g}", 0.5),
        Key("fill", PALE, "range of the training data"),
    )
    caption = (
        f"Functions and their bands at seed {rows[0].first.seed}, all on the same axes; below each, half the widths of "
        "its bands. A band that does not widen outside the grey range does not know that there are no data."
    )
    return Picture("bands", "Bands", caption, tuple(map(one, rows)), key)


def calibration(rows: Sequence[Row]) -> Picture:
    """Returns the share of new targets in central intervals of the total variance against the intervals' level."""
    curves = {row.name: curve_of(row) for row in rows}
    caption = (
        f"Share of new targets of the training range inside central intervals, seed {rows[0].first.seed}; below the "
        "line intervals are too narrow. The noise also acts inside the sines, where the assumed one does not reach."
    )
    alt = f"Observed coverage against the level of intervals, for {listed(list(curves))}."
    return Picture("intervals", "Interval calibration", caption, (Panel(svg(interval_calibration(curves)), alt),))


def curve_of(row: Row) -> IntervalCalibration:
    """Returns how often intervals of the functions' variance and the assumed noise hold new targets."""
    targets, mean, std = (row.arrays[name].astype("float64") for name in NEAR)
    return interval_calibration_curve(mean, np.hypot(std, _noise(row)), targets)


def _noise(row: Row) -> float:
    settings = row.first.settings
    return settings.get("likelihood_scale", settings["noise"])


def _draw(figure: Figure, row: Row, limits: tuple[float, float], widest: float) -> None:
    a = row.arrays
    above, below = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    for axes in (above, below):
        axes.axvspan(*row.first.settings["train_range"], color=PALE, lw=0)
    above.scatter(a["x"], a["y"], s=5, color=_DOTS, alpha=0.5, lw=0, rasterized=True, zorder=2)
    above.fill_between(a["grid"], *a["total"], color=SKY, alpha=0.45, lw=0, zorder=3)
    above.fill_between(a["grid"], *a["epistemic"], color=BLUE, alpha=0.45, lw=0, zorder=4)
    above.plot(a["grid"], a["mean"], color=INK, lw=1.6, zorder=5)
    below.fill_between(a["grid"], np.ptp(a["total"], axis=0) / 2, color=SKY, alpha=0.45, lw=0, zorder=3)
    below.fill_between(a["grid"], np.ptp(a["epistemic"], axis=0) / 2, color=BLUE, alpha=0.45, lw=0, zorder=4)
    above.set_title(f"{_capital(row.name)}, {row.parameters:,} parameters", loc="left", fontsize=12)
    above.set(ylabel="y", xlim=(a["grid"][0], a["grid"][-1]), ylim=limits)
    below.set(xlabel="x", ylabel="half width", ylim=(0, widest))
    figure.align_ylabels()


def _alt(row: Row) -> str:
    text = f"{_capital(row.name)} regression: data, mean and 95 % bands; below, half their widths."
    m = row.first.metrics
    if "iqr_inside" not in m or "iqr_outside" not in m:
        return f"{text} It is deterministic and has no epistemic band."
    return (
        f"{text} The interquartile range of the functions is {m['iqr_inside']:.3f} inside the training range and "
        f"{m['iqr_outside']:.3f} outside."
    )


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]
