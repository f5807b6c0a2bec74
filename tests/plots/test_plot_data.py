"""What a figure shows is what it was given: curves, bars, bands and maps hold the data, or their summaries."""

import made_up_plots as made_up
import numpy as np
import pytest
from made_up_plots import FIGURES
from matplotlib.text import Text

from singularbayes import plots
from singularbayes.evaluation import Evaluation, compare
from singularbayes.metrics import Measure, pareto_front
from singularbayes.plots import Point


def _drawn(line):
    return np.array(line.get_data())


# -- comparisons -----------------------------------------------------------------------------------------------------


def _compared(*names):
    scores = {"a": (0.9, 0.3, 4e6), "b": (0.8, 0.2, 2e6), "c": (0.7, 0.4, 3e6)}
    return compare(
        [
            Evaluation(m, "classification", seed, {"accuracy": a + seed / 100, "nll": n}, num_stored=int(p))
            for m, (a, n, p) in scores.items()
            for seed in (0, 2)
        ],
        names,
    )


def test_a_comparison_of_two_measures_goes_into_a_pareto_figure():
    table = _compared("num_stored", "accuracy")
    assert plots.points_of(table)[1] == Point("b", 2e6, pytest.approx(0.81), "b")
    (axes,) = plots.pareto(plots.points_of(table), *table.measures).axes
    assert sorted(text.get_text() for text in axes.texts) == ["a", "b"]  # b beats c in both
    assert axes.get_xlabel() == "parameters, lower is better"


# -- curves -----------------------------------------------------------------------------------------------------------


def test_reliability_draws_every_bin_its_share_and_the_diagonal():
    above, below = FIGURES["reliability"]().axes
    for curve, upper, lower in zip(made_up.RELIABILITY.values(), above.lines[:-1], below.lines, strict=True):
        np.testing.assert_array_equal(_drawn(upper), [curve.confidence, curve.accuracy])
        np.testing.assert_array_equal(_drawn(lower), [curve.confidence, curve.share])
        assert upper.get_label().endswith(f"ECE {curve.error:.3f}")
        assert above.get_xlim()[0] <= curve.confidence.min() and above.get_ylim()[0] <= curve.accuracy.min()
    x, y = _drawn(above.lines[-1])
    np.testing.assert_array_equal(x, y)


def test_selective_prediction_draws_the_risk_at_every_share_kept():
    (axes,) = FIGURES["selective_prediction"]().axes
    for curve, line in zip(made_up.SELECTIVE.values(), axes.lines, strict=True):
        kept, risk = _drawn(line)
        assert kept[0] == 0.5 and kept[-1] == 1 and risk[-1] == pytest.approx(curve.risk[-1])
        np.testing.assert_allclose(risk, curve.at(kept))
    assert axes.get_ylabel() == "mean absolute error (µg/m³),\nlower is better" and axes.get_ylim()[0] == 0


# -- bands, maps, fronts ---------------------------------------------------------------------------------------------


def test_the_quartiles_of_new_targets_are_those_of_functions_with_noise():
    rng = np.random.default_rng(1)
    noise = np.linspace(0.05, 0.5, 40)
    bands = plots.quartile_bands(made_up.GRID, made_up.DRAWS, noise)
    np.testing.assert_allclose(bands.epistemic, np.quantile(made_up.DRAWS, [0.25, 0.75], axis=0))
    sampled = (made_up.DRAWS[:, None] + noise * rng.normal(size=(50, 2000, 40))).reshape(-1, 40)
    below = (sampled[:, None] < bands.predictive).mean(axis=0)  # each is a share of 100,000
    assert np.abs(below - [[0.25], [0.75]]).max() < 5 * np.sqrt(0.25 * 0.75 / 100_000)


def test_bands_hold_the_quartiles_the_median_and_the_training_points():
    panels = FIGURES["function_bands"]().axes
    for axes, widths, bands in zip(panels[::2], panels[1::2], made_up.BANDS.values(), strict=True):
        points, median = axes.lines
        np.testing.assert_array_equal(_drawn(points), [made_up.POINTS_X, made_up.POINTS_Y])
        np.testing.assert_array_equal(_drawn(median), [bands.grid, bands.median])
        for band, width, (lower, upper) in zip(
            axes.collections, widths.collections, (bands.predictive, bands.epistemic), strict=True
        ):
            corners, below = ({tuple(c) for c in drawn.get_paths()[0].vertices.tolist()} for drawn in (band, width))
            assert {*zip(bands.grid, lower, strict=True), *zip(bands.grid, upper, strict=True)} <= corners
            assert {*zip(bands.grid, upper - lower, strict=True)} <= below
        low, high = axes.get_ylim()
        assert low < min(bands.predictive.min(), made_up.POINTS_Y.min())
        assert high > max(bands.predictive.max(), made_up.POINTS_Y.max())
        assert axes.get_ylim() == panels[0].get_ylim() and widths.get_ylim() == panels[1].get_ylim()


def test_a_heat_map_holds_the_matrix_on_a_scale_from_minus_1_to_1_and_parts_the_rows():
    figure = FIGURES["weight_correlations"]()
    for axes, matrix in zip(figure.axes[:2], made_up.CORRELATIONS.values(), strict=True):
        (image,) = axes.images
        np.testing.assert_array_equal(image.get_array(), matrix)
        assert image.get_clim() == (-1, 1) and [t.get_text() for t in axes.get_xticklabels()] == list("1234")
        assert [segment[0, 1] for segment in axes.collections[0].get_segments()] == [2.5, 5.5, 8.5]
    assert figure.axes[2].get_xlabel() == "correlation of two entries, 3 columns in each row"


@pytest.mark.parametrize("better", [("lower", "higher"), ("higher", "higher"), ("lower", "lower"), ("higher", "lower")])
def test_a_pareto_figure_fills_labels_and_joins_exactly_the_front(better):
    x, y = Measure("x", better[0]), Measure("y", better[1])
    (axes,) = plots.pareto(made_up.POINTS, x, y).axes
    stairs, *marks = axes.lines
    front = pareto_front(np.array([[p.x, p.y] for p in made_up.POINTS]), (x.sign, y.sign))
    for point, mark, best in zip(made_up.POINTS, marks, front, strict=True):
        np.testing.assert_array_equal(_drawn(mark), [[point.x], [point.y]])
        assert (mark.get_markerfacecolor() != "white") == best
    ordered = sorted((p for p, best in zip(made_up.POINTS, front, strict=True) if best), key=lambda p: -x.sign * p.x)
    np.testing.assert_array_equal(_drawn(stairs), np.transpose([[p.x, p.y] for p in ordered]))
    assert stairs.get_drawstyle() == "steps-post"  # first x is given up, then y gained: no corner beats another
    assert sorted(text.get_text() for text in axes.texts) == sorted(p.label for p in ordered)
    assert axes.get_xlabel() == f"x, {better[0]} is better" and axes.get_ylabel() == f"y,\n{better[1]} is better"
    for text in axes.texts:
        offset = np.array(text.get_position())
        assert (np.sign(offset) == (x.sign, y.sign)).all()  # towards where no point can be


def test_labels_of_points_that_nearly_coincide_are_moved_apart():
    points = [Point(f"{i}, {i}", 0.5 + 1e-4 * i, 0.5 + 1e-4 * i, "low-rank") for i in range(4)]
    points += [Point("far", 0.9, 0.1, "low-rank"), Point("low", 0.1, 0.1, "low-rank")]
    figure = plots.pareto(points, made_up.MEASURES[1], made_up.MEASURES[3])
    made_up.written(figure)  # draws it
    (axes,) = figure.axes
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    assert len(boxes) == 5 and not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
