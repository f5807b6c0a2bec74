"""Every figure, one function each: data in, a matplotlib figure for print out.

List the methods in one order, those that some figures lack last: then each has the same colour, line and mark in all.
"""

from singularbayes.assess.measure import Measure
from singularbayes.report.bands import Bands, function_bands, quartile_bands
from singularbayes.report.bounds import BoundPanel, bounds_against_rank, panels_of
from singularbayes.report.calibration import interval_calibration, reliability
from singularbayes.report.correlation import weight_correlations
from singularbayes.report.curves import against_setting
from singularbayes.report.histograms import uncertainty_histograms
from singularbayes.report.pareto import Point, pareto, points_of
from singularbayes.report.radar import efficiency_radar, radar
from singularbayes.report.selective import selective_prediction
from singularbayes.report.spectra import figure as spectra
from singularbayes.report.style import write
from singularbayes.report.sweeps import trade_offs

__all__ = [
    "Bands",
    "BoundPanel",
    "Measure",
    "Point",
    "against_setting",
    "bounds_against_rank",
    "efficiency_radar",
    "function_bands",
    "interval_calibration",
    "panels_of",
    "pareto",
    "points_of",
    "quartile_bands",
    "radar",
    "reliability",
    "selective_prediction",
    "spectra",
    "trade_offs",
    "uncertainty_histograms",
    "weight_correlations",
    "write",
]
