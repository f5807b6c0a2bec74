"""Made-up data for every figure, with the longest names of the paper, and what is written in a drawn figure."""

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from singularbayes import metrics, plots
from singularbayes.convert.spectrum import MatrixSpectrum, Spectrum
from singularbayes.metrics import Measure
from singularbayes.plots import Point

METHODS = (
    "low-rank Gaussian (r = 15)",
    "low-rank SVD start (r = 15)",
    "full-rank",
    "rank-1 multiplicative",
    "deep ensemble of 5",
    "SWAG",
    "deterministic",
)
MEASURES = (
    Measure("accuracy", "higher", "%"),
    Measure("NLL", "lower", "nats"),
    Measure("ECE", "lower"),
    Measure("AUROC-OOD (MI)", "higher"),
    Measure("AUPR-OOD (MI)", "higher"),
)
_RNG = np.random.default_rng(0)
PROBABILITIES = {method: _RNG.dirichlet(np.full(5, 0.3), 200) for method in METHODS}
LABELS = {method: p.argmax(axis=1) * (_RNG.random(200) < 0.8) for method, p in PROBABILITIES.items()}
RELIABILITY = {m: metrics.reliability_curve(PROBABILITIES[m], LABELS[m], 8, "equal_width") for m in METHODS}
TARGETS = _RNG.normal(size=300)
SELECTIVE = {m: metrics.selective_curve(1 - PROBABILITIES[m].max(axis=1), _RNG.random(200) < 0.2) for m in METHODS}
GRID = np.linspace(-0.5, 1.5, 40)
DRAWS = np.sin(3 * GRID) + _RNG.normal(0, 0.1, (50, 40)) * (1 + GRID**2)
BANDS = {m: plots.quartile_bands(GRID, DRAWS * (1 + i / 7), 0.1) for i, m in enumerate(METHODS[:3])}
POINTS_X, POINTS_Y = _RNG.uniform(0, 0.6, 90), _RNG.normal(size=90)
CORRELATIONS = {m: np.corrcoef(_RNG.normal(size=(12, 20))) for m in METHODS[2:4]}
POINTS = [
    Point(f"{rank}, {rank}", *xy, f"KL weight {group}")
    for group in (0.05, 0.1, 0.25)
    for rank, xy in zip((5, 10, 15, 20, 25), _RNG.uniform(0.2, 0.9, (5, 2)).tolist(), strict=True)
]
SPECTRUM = Spectrum(
    "model",
    tuple(MatrixSpectrum(f"dense_{i}", "Dense", "kernel", (9, 9), np.exp(-np.arange(9.0) / i)) for i in range(1, 4)),
)

# The figures of a column's width, made anew at every call.
FIGURES = {
    "reliability": lambda: plots.reliability(RELIABILITY),
    "selective_prediction": lambda: plots.selective_prediction(SELECTIVE, "mean absolute error (µg/m³)"),
    "function_bands": lambda: plots.function_bands(BANDS, POINTS_X, POINTS_Y, "time (h)", "PM2.5 (µg/m³)"),
    "weight_correlations": lambda: plots.weight_correlations(CORRELATIONS, rows=4, columns=3),
    "predicted_values": lambda: plots.predicted_values(GRID, GRID - 1, GRID + 1, TARGETS[:40], "95 %, total variance"),
    "predicted_classes": lambda: plots.predicted_classes(
        PROBABILITIES["SWAG"].max(axis=1),
        metrics.entropy(PROBABILITIES["SWAG"]),
        "entropy (nats)",
        PROBABILITIES["SWAG"].argmax(axis=1) == LABELS["SWAG"],
    ),
    "pareto": lambda: plots.pareto(POINTS, MEASURES[1], MEASURES[3]),
}


def written(figure) -> list[Text]:
    """Returns all text that can be seen, after drawing the figure."""
    FigureCanvasAgg(figure).draw()
    unseen = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            drawn = {id(tick) for tick in axis._update_ticks()}  # ticks outside the limits are kept but not drawn
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if id(tick) not in drawn:
                    unseen |= {id(tick.label1), id(tick.label2)}
    texts = figure.findobj(lambda artist: isinstance(artist, Text) and artist.get_visible())
    return [text for text in texts if id(text) not in unseen and text.get_text().strip()]


def legend_labels(figure) -> list[str]:
    legends = [*figure.legends, *(axes.get_legend() for axes in figure.axes if axes.get_legend())]
    return [text.get_text() for legend in legends for text in legend.get_texts()]
