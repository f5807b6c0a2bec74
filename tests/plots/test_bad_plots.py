"""Data that cannot be drawn are refused, with what is needed, what was got, and for which method."""

import math
from dataclasses import replace

import made_up_plots as made_up
import numpy as np
import pytest

from singularbayes import plots
from singularbayes.evaluation import Evaluation, compare
from singularbayes.metrics import IntervalCalibration, ReliabilityCurve, find_measure
from singularbayes.plots import BoundPanel, Measure, Point

TWO = [Measure(name, "higher") for name in "xy"]
HALVES = np.array([0.5, 0.5])
BAND = next(iter(made_up.BANDS.values()))
PANEL = BoundPanel("error rate", [1, 2, 4], {"PAC-Bayes": [0.1, 0.2, 0.3]}, vacuous=1.0)


def _bands(**changed):
    return plots.function_bands({"m": replace(BAND, **changed)}, [0.0], [0.0])


def _panel(**changed):
    return plots.bounds_against_rank([replace(PANEL, **changed)])


BAD = {
    "an axis with no better end": (
        lambda: plots.pareto([Point("5", 0.9, 1.0, "low-rank")], find_measure("picp_95_total"), TWO[0]),
        "measures of which higher or lower is better; got better=0.95 of 'picp_95_total'",
    ),
    "points of one measure": (
        lambda: plots.points_of(compare([Evaluation("m", "regression", 0, {"mae": 1.0})], ["mae"])),
        r"points_of needs a comparison of 2 measures; got 1: \['mae'\]",
    ),
    "a direction": (
        lambda: Measure("NLL", "smaller"),
        r"one of \['higher', 'lower'\], the best value or None; got 'smaller'",
    ),
    "no reliability curves": (lambda: plots.reliability({}), "reliability needs at least one of methods"),
    "NaN in a curve": (
        lambda: plots.reliability({"m": ReliabilityCurve(HALVES, np.array([0.5, np.nan]), HALVES)}),
        r"reliability of 'm' needs finite numbers; got nan in accuracy at \[1\]",
    ),
    "a share missing": (
        lambda: plots.reliability({"m": ReliabilityCurve(HALVES, HALVES, HALVES[:1])}),
        r"reliability of 'm' needs vectors of one length, not empty; got confidence \(2,\), .* share \(1,\)",
    ),
    "an empty curve": (
        lambda: plots.interval_calibration({"m": IntervalCalibration(HALVES[:0], HALVES[:0])}),
        r"interval_calibration of 'm' needs vectors of one length, not empty; got levels \(0,\)",
    ),
    "nothing against a setting": (
        lambda: plots.against_setting({}, "β"),
        "against_setting needs at least one of measures",
    ),
    "a setting of 0": (
        lambda: plots.against_setting({TWO[0]: {0.0: [1.0], 1.0: [2.0]}}, "β"),
        "against_setting needs settings above 0; got 0 of 'x'",
    ),
    "no seed at a setting": (
        lambda: plots.against_setting({TWO[0]: {1.0: []}}, "β"),
        r"against_setting of 'x' needs vectors of one length, not empty; got values at 1 \(0,\)",
    ),
    "no selective curves": (lambda: plots.selective_prediction({}, "MAE"), "selective_prediction needs at least one"),
    "nothing kept": (
        lambda: plots.selective_prediction(made_up.SELECTIVE, "MAE", least=0),
        "selective_prediction needs 0 < least < 1; got least=0",
    ),
    "no uncertainties": (lambda: plots.uncertainty_histograms({}, "MI"), "uncertainty_histograms needs at least one"),
    "nothing out-of-distribution": (
        lambda: plots.uncertainty_histograms({"m": (HALVES, HALVES[:0])}, "MI"),
        r"uncertainty_histograms of 'm' needs vectors of one length, not empty; got outside \(0,\)",
    ),
    "a negative uncertainty": (
        lambda: plots.uncertainty_histograms({"m": (HALVES, -HALVES)}, "MI"),
        "not negative; got -0.5 of 'm'",
    ),
    "no bins": (lambda: plots.uncertainty_histograms({"m": (HALVES, HALVES)}, "MI", bins=0), "got bins=0"),
    "draws of one axis": (
        lambda: plots.quartile_bands([0.0, 1.0], HALVES, 1.0),
        r"draws of shape \(draws, inputs\), not empty; got \(2,\)",
    ),
    "draws elsewhere": (
        lambda: plots.quartile_bands([0.0, 1.0, 2.0], HALVES[None], 1.0),
        r"vectors of one length, not empty; got grid \(3,\), the first draw \(2,\)",
    ),
    "no noise": (lambda: plots.quartile_bands([0.0, 1.0], HALVES[None], 0.0), "needs noise > 0 and finite; got 0"),
    "NaN in the draws": (
        lambda: plots.quartile_bands([0.0], [[math.nan]], 1.0),
        "needs finite numbers; got nan in draws",
    ),
    "no bands": (lambda: plots.function_bands({}, [0.0], [0.0]), "function_bands needs at least one of methods"),
    "points without targets": (
        lambda: plots.function_bands(made_up.BANDS, [0.0, 1.0], [0.0]),
        r"function_bands needs vectors of one length, not empty; got x \(2,\), y \(1,\)",
    ),
    "one edge": (lambda: _bands(epistemic=BAND.median), r"of 'm' needs epistemic of shape \(2, inputs\); got \(40,\)"),
    "a grid that turns": (lambda: _bands(grid=-BAND.grid), "of 'm' needs a grid of ascending inputs"),
    "NaN in a band": (lambda: _bands(median=np.full(40, np.nan)), "needs finite numbers; got nan in median"),
    "no matrices": (lambda: plots.weight_correlations({}, 1, 1), "weight_correlations needs at least one of methods"),
    "another block": (
        lambda: plots.weight_correlations({"m": np.eye(5)}, 2, 3),
        r"weight_correlations of 'm' needs a matrix of shape \(6, 6\), not empty; got \(5, 5\)",
    ),
    "covariances": (lambda: plots.weight_correlations({"m": 3 * np.eye(2)}, 1, 2), "correlations from -1 to 1; got 3"),
    "no panels": (lambda: plots.bounds_against_rank([]), "bounds_against_rank needs at least one of panels"),
    "no bounds": (lambda: _panel(values={}), "of 'error rate' needs at least one of bounds"),
    "ranks out of order": (lambda: _panel(ranks=[4, 2, 1]), r"ascending ranks from 1; got \[4, 2, 1\]"),
    "a bound missing": (lambda: _panel(values={"b": [0.1]}), r"got ranks \(3,\), values of 'b' \(1,\)"),
    "a full rank of nothing": (lambda: _panel(full_rank={"c": 1.0}), r"by the names \['PAC-Bayes'\]; got \['c'\]"),
    "an infinite bound": (lambda: _panel(values={"b": [0.1, 0.2, math.inf]}), r"got inf in values of 'b' at \[2\]"),
    "no points": (lambda: plots.pareto([], *TWO), "pareto needs at least one of points; got none"),
    "NaN in a point": (
        lambda: plots.pareto([Point("5", 1.0, math.nan, "low-rank")], *TWO),
        r"pareto_front needs finite numbers; got nan in values at \[0, 1\]",
    ),
}


@pytest.mark.parametrize("curves", [ReliabilityCurve(HALVES, HALVES, HALVES), [HALVES]])
def test_one_curve_without_a_name_is_refused(curves):
    said = f'reliability needs a dict of methods, {{"mine": …}}; got {type(curves).__name__}'
    with pytest.raises(TypeError, match=said):
        plots.reliability(curves)


@pytest.mark.parametrize("name", BAD)
def test_it_is_refused_with_what_is_needed_and_what_was_got(name):
    draw, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        draw()
