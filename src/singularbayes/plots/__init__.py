"""Every figure, one function each: data in, a matplotlib figure for print out.

List the methods in one order, those that some figures lack last: then each has the same colour, line and mark in all.
"""

from singularbayes.metrics import Measure
from singularbayes.plots import style
from singularbayes.plots.bands import Bands, function_bands, quartile_bands
from singularbayes.plots.bounds import BoundPanel, bounds_against_rank, panels_of
from singularbayes.plots.calibration import interval_calibration, reliability
from singularbayes.plots.correlation import weight_correlations
from singularbayes.plots.curves import against_setting, selective_prediction, wealth_paths
from singularbayes.plots.histograms import draw_shares, percentages, uncertainty_histograms
from singularbayes.plots.pareto import Point, pareto, points_of
from singularbayes.plots.predictions import predicted_classes, predicted_values
from singularbayes.plots.spectra import spectra
from singularbayes.plots.style import BLUE, COLOURS, INK, PAGE, PALE, SKY, VERMILION, Look, look, write

__all__ = [
    "BLUE",
    "COLOURS",
    "INK",
    "PAGE",
    "PALE",
    "SKY",
    "VERMILION",
    "Bands",
    "BoundPanel",
    "Look",
    "Measure",
    "Point",
    "against_setting",
    "bounds_against_rank",
    "draw_shares",
    "function_bands",
    "interval_calibration",
    "look",
    "panels_of",
    "pareto",
    "percentages",
    "points_of",
    "predicted_classes",
    "predicted_values",
    "quartile_bands",
    "reliability",
    "selective_prediction",
    "spectra",
    "style",
    "uncertainty_histograms",
    "wealth_paths",
    "weight_correlations",
    "write",
]
