"""Every figure can be read at print size: text is large enough, inside, and apart; nothing touches the global state."""

import itertools
import sys

import made_up_plots as made_up
import matplotlib
import numpy as np
import pytest
from made_up_plots import FIGURES, METHODS, legend_labels, written
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from singularbayes import plots
from singularbayes.plots import style


@pytest.fixture(scope="module", params=FIGURES)
def drawn(request):
    """A figure, and all that can be read in it with its box in pixels: drawing takes long, and is done once."""
    figure = FIGURES[request.param]()
    return figure, [(text, Text.get_window_extent(text)) for text in written(figure)]


@pytest.fixture
def figure(drawn):
    return drawn[0]


def test_a_figure_is_a_column_wide_and_no_text_is_below_7_points(drawn):
    figure, texts = drawn
    assert figure.get_figwidth() == 3.3
    assert min(text.get_fontsize() for text, _ in texts) >= 7


def test_all_text_is_inside_the_figure(drawn):
    figure, texts = drawn
    width, height = figure.bbox.size
    assert [t for t, b in texts if b.x0 < 0 or b.y0 < 0 or b.x1 > width or b.y1 > height] == []


def test_no_text_covers_another(drawn):
    # Boxes hold room for letters above and below the line, which may overlap by a little.
    boxes = [(text.get_text(), box.padded(-1.5)) for text, box in drawn[1]]
    pairs = itertools.combinations(boxes, 2)
    assert [(a, b) for (a, one), (b, other) in pairs if one.overlaps(other)] == []


def test_axes_say_what_they_show(figure):
    for axes in figure.axes:
        if not axes.get_subplotspec():
            continue  # the bar of colours is checked with its figure
        lowest = axes.get_subplotspec().is_last_row()
        assert axes.get_xlabel() or not lowest
        assert axes.get_ylabel() or figure.get_supylabel() or not axes.get_subplotspec().is_first_col()


@pytest.mark.parametrize("name", ["reliability", "selective_prediction"])
def test_the_legend_names_every_method_in_order(name):
    labels = legend_labels(FIGURES[name]())
    assert len(labels) == len(METHODS) and all(map(str.startswith, labels, METHODS))


def test_methods_are_distinguished_without_colour():
    looks = list(style.looks(map(str, range(35))).values())
    assert (
        len({(str(look.line), look.marker) for look in looks})
        == len({(look.colour, look.marker) for look in looks})
        == 35
    )
    for first, second in itertools.combinations(looks[:5], 2):
        assert first.line != second.line and first.marker != second.marker and first.colour != second.colour


# Machado et al. 2009, on linear RGB: no cones for green (deuteranopia), and none for red (protanopia).
SIGHT = {
    "all cones": np.eye(3),
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def _lab(colour, sight):
    """Returns CIE L*a*b* of a colour as it is seen."""
    rgb = np.array(to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(XYZ @ np.clip(SIGHT[sight] @ linear, 1e-3, 1) / XYZ.sum(axis=1))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("sight", SIGHT)
def test_the_first_five_colours_and_white_are_apart_for_colour_blind_people(sight):
    seen = [_lab(colour, sight) for colour in (*style.COLOURS[:5], "white")]
    # A distance of 2.3 can just be seen; 20 cannot be missed on a thin line.
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2)) > 20


def test_drawing_changes_no_setting_of_matplotlib_and_needs_no_pyplot():
    before, loaded = dict(matplotlib.rcParams), "matplotlib.pyplot" in sys.modules
    with matplotlib.rc_context({"font.size": 30, "legend.fontsize": 2}):
        drawn = plots.reliability(made_up.RELIABILITY)
    assert dict(matplotlib.rcParams) == before and ("matplotlib.pyplot" in sys.modules) == loaded
    assert {text.get_fontsize() for text in written(drawn)} == {7, 8}


def test_a_file_has_the_format_of_its_ending_and_the_same_data_give_the_same_file(tmp_path):
    for ending, start in ((".png", b"\x89PNG"), (".pdf", b"%PDF"), (".svg", b"<?xml")):
        assert plots.write(FIGURES["pareto"](), tmp_path / f"figure{ending}").read_bytes().startswith(start)
    again = plots.write(FIGURES["pareto"](), tmp_path / "again.png")
    assert again.read_bytes() == (tmp_path / "figure.png").read_bytes()


def test_the_spectra_are_drawn_in_the_style_of_pages():
    with matplotlib.rc_context({"font.size": 30}):
        drawn = plots.spectra(made_up.SPECTRUM)
    # Across both columns of a paper, 6.75 inches, its smallest text has 7 points.
    assert min(text.get_fontsize() for text in written(drawn)) * 6.75 / drawn.get_figwidth() >= 7
    assert np.max([text.get_fontsize() for text in written(drawn)]) <= 12
    assert len({line._unscaled_dash_pattern for line in drawn.axes[0].lines[::2]}) == 3
