"""Every figure, one function each: data in, a matplotlib figure for print out.

List the methods in one order, those that some figures lack last: then each has the same colour, line and mark in all.
"""

from singularbayes.plots import style
from singularbayes.plots.bands import Bands, function_bands, quartile_bands
from singularbayes.plots.correlation import weight_correlations
from singularbayes.plots.curves import reliability, selective_prediction
from singularbayes.plots.pareto import Point, pareto, points_of
from singularbayes.plots.predictions import predicted_classes, predicted_values
from singularbayes.plots.spectra import spectra
from singularbayes.plots.style import write

__all__ = [
    "Bands",
    "Point",
    "function_bands",
    "pareto",
    "points_of",
    "predicted_classes",
    "predicted_values",
    "quartile_bands",
    "reliability",
    "selective_prediction",
    "spectra",
    "style",
    "weight_correlations",
    "write",
]
