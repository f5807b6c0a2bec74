"""Data that cannot be drawn are refused, with what is needed, what was got, and for which method."""

import math

import made_up_plots as made_up
import numpy as np
import pytest

from singularbayes import plots
from singularbayes.evaluation import Evaluation, compare
from singularbayes.metrics import Measure, ReliabilityCurve, find_measure
from singularbayes.plots import Point

TWO = [Measure(name, "higher") for name in "xy"]
HALVES = np.array([0.5, 0.5])


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
    "no selective curves": (lambda: plots.selective_prediction({}, "MAE"), "selective_prediction needs at least one"),
    "nothing kept": (
        lambda: plots.selective_prediction(made_up.SELECTIVE, "MAE", least=0),
        "selective_prediction needs 0 < least < 1; got least=0",
    ),
    "draws of one axis": (lambda: plots.quartile_bands([0.0, 1.0], HALVES, 1.0), r"draws \(2,\) and grid \(2,\)"),
    "draws elsewhere": (
        lambda: plots.quartile_bands([0.0, 1.0, 2.0], HALVES[None], 1.0),
        r"draws \(1, 2\) and grid \(3,\)",
    ),
    "a grid that turns": (lambda: plots.quartile_bands([1.0, 0.0], HALVES[None], 1.0), "a grid of ascending inputs"),
    "no noise": (
        lambda: plots.quartile_bands([0.0, 1.0], HALVES[None], 0.0),
        "noise > 0 and finite; got noise=0",
    ),
    "NaN in the draws": (
        lambda: plots.quartile_bands([0.0, 1.0], [[math.nan, 0.0]], 1.0),
        "needs finite numbers; got nan in draws",
    ),
    "no bands": (lambda: plots.function_bands({}, [0.0], [0.0]), "function_bands needs at least one of methods"),
    "points without targets": (
        lambda: plots.function_bands(made_up.BANDS, [0.0, 1.0], [0.0]),
        r"function_bands needs vectors of one length, not empty; got x \(2,\), y \(1,\)",
    ),
    "no matrices": (lambda: plots.weight_correlations({}, 1, 1), "weight_correlations needs at least one of methods"),
    "another block": (
        lambda: plots.weight_correlations({"m": np.eye(5)}, 2, 3),
        r"weight_correlations of 'm' needs a matrix of shape \(6, 6\), not empty; got \(5, 5\)",
    ),
    "covariances": (lambda: plots.weight_correlations({"m": 3 * np.eye(2)}, 1, 2), "correlations from -1 to 1; got 3"),
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
