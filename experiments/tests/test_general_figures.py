"""Figures that any experiment gets which has what they show: rank ablations and singular values."""

import re

import numpy as np
import pytest
from made_up import image_record, image_records, rows_of, toy_record

pytest.importorskip("matplotlib")
from singularbayes_experiments.problems.registry import EXPERIMENTS
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import (
    chapters,
    class_pictures,
    general,
    measure_pictures,
    method_styles,
    spectrum_pictures,
)
from singularbayes_experiments.report.names import LINES, NAMES
from singularbayes_experiments.report.sections import SECTIONS, image_columns

from singularbayes.convert.spectrum import MatrixSpectrum


def elsewhere(method, seed=0, **settings):
    """A record of an experiment that has no section, whose table then shows all metrics."""
    rank = int(method.split("_")[-1]) if method[-1].isdecimal() else 8
    scores = {"accuracy": 0.9 + 0.001 * rank, "nll": 0.3, "ece": 0.01, "mean_mi": 0.1}
    return Record("elsewhere", method, seed, {"rank": 8, **settings}, scores, 100 * rank, 1.0, preset="paper")


def pictures(records):
    (chapter,) = chapters.make_chapters(records)
    found = {picture.name: picture for picture in chapter.pictures}
    assert len(found) == len(chapter.pictures)  # files are called by these names
    return found


def test_an_experiment_with_methods_of_other_ranks_has_its_ablation_and_radars():
    methods = ("low_rank", "low_rank_4", "low_rank_16", "full_rank")
    found = pictures([elsewhere(method, seed) for method in methods for seed in (0, 1)])
    assert "at ranks of 4, 8 and 16" in found["ranks"].caption
    assert "accuracy, NLL and ECE against rank, at 4, 8 and 16" in found["ranks"].panels[0].alt
    assert len(found["rank-radar"].panels) == 2 and "low-rank (rank 16)" in found["rank-radar"].panels[0].alt


def test_only_the_ranks_that_a_section_names_are_set_against_each_other():
    scores = {"accuracy": 0.8, "nll": 0.4, "ece": 0.05, "auroc_ood_mi": 0.7, "validation_nll": 0.5}
    methods = ("low_rank_4", "low_rank_16", "low_rank_auto")  # the last has the setting too, and another rank
    records = [
        Record("adaptive_rank_sst2", method, 0, {"rank": 16}, scores, 100, 1.0, preset="chosen") for method in methods
    ]
    found = pictures(records)
    assert found["ranks"].caption.startswith("The low-rank network at ranks of 4 and 16;")
    assert found["ranks"].caption.endswith("One rank for all weights.")
    assert "low-rank (rank 4) and low-rank (rank 16) by" in found["rank-radar"].panels[0].alt


@pytest.fixture(autouse=True)
def drawn(monkeypatch):
    """The matplotlib figures of all pictures that are made; writing them as SVG takes long, and test_report.py does."""
    figures = []
    for module in (class_pictures, measure_pictures, spectrum_pictures):
        monkeypatch.setattr(module, "svg", lambda figure: figures.append(figure) or "<svg></svg>")
    return figures


def legends(figures):
    """What stands in the legends: (colour, marker) by the method, without what follows its name; - is no marker."""
    found = {}
    for figure in figures:
        for handle, text in zip(figure.legends[0].legend_handles, figure.legends[0].get_texts(), strict=True):
            method = re.sub(r", ECE .*| \(× .*", "", text.get_text())
            found.setdefault(method, set()).add((handle.get_markerfacecolor(), handle.get_marker()))
    return found


def test_a_method_has_one_look_in_all_figures_and_shares_it_with_none(drawn):
    chapters.make_chapters(image_records(seeds=(0,), presets=("paper",)))  # eight methods
    assert len(drawn) > 6
    found = legends(figure for figure in drawn if figure.legends)
    del found["Pareto front"]
    marked = {method: {look for look in seen if look[1] != "None"} for method, seen in found.items()}
    assert len(marked) == 8 and all(len(seen) == 1 for seen in marked.values())
    assert len(set().union(*marked.values())) == 8
    assert all(len({colour for colour, _ in seen}) == 1 for seen in found.values())  # singular values have no markers


def test_looks_are_those_of_the_methods_whoever_is_beside_them():
    every = method_styles.row_looks(rows_of(image_records(seeds=(0,), presets=("paper",))))
    assert method_styles.row_looks(rows_of([image_record("swag")]))["SWAG"] == every["SWAG"]
    methods = [*NAMES, *(f"low_rank_{rank}" for rank in (1, 2, 4, 8, 16))]
    rows = rows_of([Record("elsewhere", method, 0, {}, {}, 1, 1.0) for method in methods])
    by = {row.method: look for row, look in zip(rows, method_styles.row_looks(rows).values(), strict=True)}
    assert len({(look.colour, look.marker) for look in by.values()}) == len(methods)
    spectra = [by[method] for method in (*LINES, "low_rank_laplace")]  # lines without markers
    assert len({(look.colour, look.line) for look in spectra}) == len(spectra)
    for lines in (LINES, image_columns._LINES):
        shown = [by[method] for method in lines]
        assert len({look.colour for look in shown}) == len({look.marker for look in shown}) == len(lines)


def test_two_settings_of_a_method_look_apart():
    rows = rows_of([image_record(preset="hand", changes={"beta": beta}) for beta in (0.1, 0.3, 1.0)])
    assert len(set(method_styles.row_looks(rows).values())) == 3


def test_radars_are_weighed_by_the_numbers_stored_and_say_so(drawn):
    records = [image_record("low_rank"), image_record("swag")]
    sizes = {"low_rank": 100, "swag": 400}  # SWAG trains fewer than it stores
    for made in records:
        object.__setattr__(made, "stored", sizes[made.method])
    found = pictures(records)["radar"]
    assert "√(fewest stored parameters / stored parameters)" in found.caption and found.panels[1].alt.endswith(
        "stored parameters."
    )
    (legend,) = [f.legends[0] for f in drawn if f.legends and "×" in f.legends[0].get_title().get_text()]
    assert legend.get_title().get_text().endswith("scores × √(fewest stored parameters / stored parameters)")
    assert [text.get_text() for text in legend.get_texts()] == ["low-rank (× 1.00)", "SWAG (× 0.50)"]


def test_one_rank_is_no_ablation():
    assert not pictures([elsewhere("low_rank"), elsewhere("full_rank")])


@pytest.mark.parametrize(
    ("method", "settings", "rank"),
    [
        ("low_rank", {"rank": 16}, 16),
        ("low_rank", {"ranks": [25, 25, 10]}, 25),
        ("low_rank_50", {"ranks": [25, 25, 10]}, 50),
        ("low_rank_svd", {"rank": 16}, None),
        ("full_rank", {"rank": 16}, None),
    ],
)
def test_the_rank_of_a_row_is_its_methods_or_its_settings(method, settings, rank):
    (row,) = rows_of([Record("elsewhere", method, 0, settings, {}, 1, 1.0)])
    assert general.rank_of(row) == rank


def test_the_images_ablation_shows_what_their_section_says():
    found = pictures([made for made in image_records(presets=("paper",)) if made.method.startswith("low_rank")])
    assert "at ranks of 10, 25 and 50" in found["ranks"].caption
    ranked = [measure.label for measure in SECTIONS["mnist"].ranked]
    assert all(label in found["ranks"].panels[0].alt for label in ranked)


def test_a_head_of_one_output_has_no_decay_to_draw():
    made = image_record()
    made.arrays["singular_values/head/kernel"] = np.array([2.0])
    panels = pictures([made])["singular-values"].panels
    assert len(panels) == 2 and not any("head" in panel.alt for panel in panels)
    options = {"preset": "paper", "arrays": {"singular_values/head/kernel": np.array([2.0])}}
    (chapter,) = chapters.make_chapters([Record("elsewhere", "low_rank", 0, {}, {"nll": 0.3}, 9, 1.0, **options)])
    assert chapter.left_out == ("Singular values: no matrix has 3 singular values.",)


def test_singular_values_are_drawn_of_single_networks_at_the_rank_of_the_settings():
    records = [image_record(m) for m in ("low_rank", "low_rank_50", "full_rank", "swag")]
    found = pictures(records)["singular-values"]
    assert len(found.panels) == 2 and "hidden_1/kernel" in found.panels[0].alt
    assert "low-rank" in found.caption and "rank 50" not in found.caption and "SWAG" not in found.caption
    assert "singular-values" not in pictures([toy_record()])


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_page_says_that_singular_values_are_absent_where_runs_leave_them(experiment):
    leaves = experiment != "uci"  # `Comparison` keeps them, and so does the one that `kl_study` wraps
    assert SECTIONS[experiment].spectra == leaves
    one = Record(experiment, "low_rank", 0, {}, {"nll": 0.3, "validation_nll": 0.3}, 9, 1.0, preset="paper")
    (chapter,) = chapters.make_chapters([one])
    assert any("Singular values" in line for line in chapter.left_out) == leaves


@pytest.mark.parametrize("explained", [0.1, 0.5, 0.9, 0.999])
def test_the_rank_for_a_share_is_the_librarys(explained):
    values = np.sort(np.random.default_rng(0).exponential(size=40))[::-1]
    expected = MatrixSpectrum("layer", "Dense", "kernel", (40, 50), values).rank_for(explained)
    assert spectrum_pictures.rank_for(values, explained) == expected


def test_lines_are_the_singular_values_divided_by_the_largest():
    values = np.array([4.0, 2.0, 1.0, 1e-9])
    (axes,) = spectrum_pictures.decay("hidden", {"a": values, "b": np.zeros(2)}).axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [1.0, 0.5, 0.25])  # rounding is left out
    assert len(axes.lines[1].get_ydata()) == 0
