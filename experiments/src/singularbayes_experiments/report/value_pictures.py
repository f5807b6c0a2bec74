"""Figures of networks that predict numbers, drawn from the arrays of records."""

from collections.abc import Callable, Sequence

import numpy as np

from singularbayes.metrics import interval_calibration_curve, selective_curve
from singularbayes.plots import interval_calibration, selective_prediction
from singularbayes_experiments.report.class_pictures import histogram_picture
from singularbayes_experiments.report.picture import Panel, Picture, svg
from singularbayes_experiments.report.rows import Row, listed

ARRAYS = ("test_mean", "test_std", "test_noise", "test_targets")
Draw = Callable[[Sequence[Row]], Picture]


def calibration(variance: str) -> Draw:
    """Returns what draws the share of test targets in central intervals of the "epistemic" or "total" variance."""

    def draw(rows: Sequence[Row]) -> Picture:
        drawn = [row for row in rows if _std(row, variance).min() > 0]
        if not drawn:
            raise ValueError("no prediction has a spread.")
        curves = {
            row.name: interval_calibration_curve(_of(row, "mean"), _std(row, variance), _of(row, "targets"))
            for row in drawn
        }
        errors = {name: float(np.abs(curve.observed - curve.levels).mean()) for name, curve in curves.items()}
        best, worst = min(errors, key=errors.__getitem__), max(errors, key=errors.__getitem__)
        caption = (
            f"Share of test targets inside central intervals of the {variance} variance, seed {rows[0].first.seed}; "
            f"below the line intervals are too narrow. The mean distance is {errors[best]:.3f} for {best} and "
            f"{errors[worst]:.3f} for {worst}."
        )
        alt = f"Observed coverage against the level of intervals, {variance} variance, for {listed(list(curves))}."
        panels = (Panel(svg(interval_calibration(curves)), alt),)
        return Picture(f"intervals-{variance}", f"Interval calibration, {variance} variance", caption, panels)

    return draw


def selective(unit: str) -> Draw:
    """Returns what draws the mean absolute error of what is kept when the least certain predictions are left out."""

    def draw(rows: Sequence[Row]) -> Picture:
        drawn = [row for row in rows if _of(row, "std").max() > 0]
        if not drawn:
            raise ValueError("no prediction has a spread.")
        curves = {r.name: selective_curve(_of(r, "std"), np.abs(_of(r, "mean") - _of(r, "targets"))) for r in drawn}
        risks = {name: float(curve.at(0.8)) for name, curve in curves.items()}
        best, worst = min(risks, key=risks.__getitem__), max(risks, key=risks.__getitem__)
        caption = (
            "Mean absolute error of the test predictions kept when those of largest epistemic standard deviation are "
            f"left out, seed {rows[0].first.seed}. With 80 % kept it is {risks[best]:.2f} {unit} for {best} and "
            f"{risks[worst]:.2f} for {worst}."
        )
        alt = f"Mean absolute error against the share of predictions kept, for {listed(list(curves))}."
        figure = selective_prediction(curves, "MAE", unit)
        return Picture("selective", "Selective prediction", caption, (Panel(svg(figure), alt),))

    return draw


def histograms(ood: str, label: str, unit: str) -> Draw:
    """Returns what draws one panel per method: its epistemic spread on test examples and on out-of-distribution ones.

    Args:
        ood: what the names of the arrays begin with, "guangzhou" for guangzhou_std; label: what readers call them.
    """

    def draw(rows: Sequence[Row]) -> Picture:
        drawn = [row for row in rows if _of(row, "std").max() > 0]
        if not drawn:
            raise ValueError("no prediction has a spread.")
        pairs = {row.name: (_of(row, "std"), row.arrays[f"{ood}_std"].astype("float64")) for row in drawn}
        most = float(np.quantile(np.concatenate([values for pair in pairs.values() for values in pair]), 0.99))
        name = "epistemic standard deviation"
        return histogram_picture(pairs, f"std-{ood}", label, name, rows[0].first.seed, unit, most)

    return draw


def _of(row: Row, what: str) -> np.ndarray:
    return row.arrays[f"test_{what}"].astype("float64")


def _std(row: Row, variance: str) -> np.ndarray:
    return _of(row, "std") if variance == "epistemic" else np.hypot(_of(row, "std"), _of(row, "noise"))
