"""Every figure, one function each: data in, a matplotlib figure for print out.

List the methods in one order, those that some figures lack last: then each has the same colour, line and mark in all.
"""

from singularbayes.metrics.measure import Measure
from singularbayes.plots.bands import Bands, function_bands, quartile_bands
from singularbayes.plots.bounds import BoundPanel, bounds_against_rank, panels_of
from singularbayes.plots.calibration import interval_calibration, reliability
from singularbayes.plots.correlation import weight_correlations
from singularbayes.plots.curves import against_setting
from singularbayes.plots.histograms import uncertainty_histograms
from singularbayes.plots.pareto import Point, pareto, points_of
from singularbayes.plots.radar import efficiency_radar, radar
from singularbayes.plots.selective import selective_prediction
from singularbayes.plots.spectra import spectra
from singularbayes.plots.style import write
from singularbayes.plots.sweeps import trade_offs

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
