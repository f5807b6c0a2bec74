"""Ours against the paper's numbers: which differences are clear, which numbers count, and that every page says it."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import Record, bare, image_record
from singularbayes_experiments.report import against, chapters, index, markdown_page, page
from singularbayes_experiments.report.against import Found
from singularbayes_experiments.report.published import Number

from singularbayes.metrics.measure import Measure

LOWER, HIGHER = Measure("nll", "lower"), Measure("nll", "higher")
SEEDS = [0.40, 0.42, 0.44, 0.46]  # mean 0.43, deviation 0.0258, standard error 0.0129


def error_of(values, deviation=None):
    """Two standard errors of ours and the paper's, written out a second time."""
    ours = np.var(values, ddof=1) / len(values)
    theirs = np.var(values, ddof=1) if deviation is None else deviation**2 / 4
    return 2 * (ours + theirs) ** 0.5


@pytest.mark.parametrize("deviation", [None, 0.01, 0.1])
def test_a_difference_is_clear_beyond_two_standard_errors_and_the_rounding(deviation):
    limit = error_of(SEEDS, deviation) + 0.000005
    for sign in (1, -1):
        near, far = (f"{0.43 + sign * share * limit:.5f}" for share in (0.999, 1.001))
        assert against.verdict(LOWER, SEEDS, Number(near, deviation, "")) == 0
        assert against.verdict(LOWER, SEEDS, Number(far, deviation, "")) == sign
        assert against.verdict(HIGHER, SEEDS, Number(far, deviation, "")) == -sign


def test_a_number_that_is_printed_short_may_be_half_a_place_off():
    values = [0.5301, 0.5302, 0.5303]
    assert against.verdict(LOWER, values, Number("0.53", 0.0, "")) == 0
    assert against.verdict(LOWER, values, Number("0.5300", 0.0, "")) == -1


@pytest.mark.parametrize("deviation", [0.01, None])
def test_of_one_seed_of_ours_nothing_is_said(deviation):
    assert against.verdict(LOWER, [0.1], Number("0.44", deviation, "")) is None


def test_a_run_that_diverged_is_worse():
    assert against.verdict(LOWER, [0.4, math.inf], Number("0.44", 0.01, "")) == -1


def test_nearer_to_the_best_value_is_better():
    coverage = Measure("coverage", 95.0, scale=0.01)
    for ours, side in (([0.94, 0.941], 1), ([0.80, 0.801], -1), ([0.996, 0.9961], 1), ([0.999, 0.9991], 0)):
        assert against.verdict(coverage, ours, Number("0.9000", 0.002, "")) == side


@given(st.lists(st.floats(-9, 9), min_size=2, max_size=6), st.floats(0, 1), st.integers(-900, 900))
def test_turning_the_measure_round_turns_the_answer_round(values, deviation, printed):
    number = Number(f"{abs(printed) / 100:.2f}", deviation, "")
    assert against.verdict(LOWER, values, number) == -against.verdict(HIGHER, values, number)


@pytest.mark.parametrize(
    ("measure", "values", "number"),
    [
        (Measure("mi"), SEEDS, Number("9.0", 0.01, "")),
        (LOWER, SEEDS, Number("9.0", 0.01, "", wrong="0/0.")),
        (LOWER, [], Number("9.0", 0.01, "")),
    ],
    ids=["neither end is better", "cannot be right", "none of ours"],
)
def test_what_cannot_be_compared_is_not_counted(measure, values, number):
    assert against.verdict(measure, values, number) is None


def mnist(preset="paper", method="low_rank"):
    """Accuracy and NLL are far above the paper's 0.9732 and 0.0924, ECE near its 0.0104; its Brier cannot be right."""
    means = {"accuracy": 0.99, "nll": 0.2, "ece": 0.01039}
    seeds = [{name: mean * (1 + 1e-3 * seed) for name, mean in means.items()} for seed in range(3)]
    return [image_record(method, seed, preset, **metrics) for seed, metrics in enumerate(seeds)]


def test_a_chapter_says_it_of_the_headline_measures_without_costs():
    (chapter,) = chapters.make_chapters(bare([*mnist(), *mnist(method="swag"), *mnist("quick")]))
    paper, quick = chapter.parts
    assert paper.against == (against.Line("low-rank", (Found("accuracy %"),), (Found("ECE"),), (Found("NLL"),)),)
    assert quick.against == ()  # and SWAG has no number of the paper


def test_pages_have_the_list_after_the_tables_and_the_counts_at_the_end():
    made = chapters.make_chapters(bare([*mnist(), *mnist("chosen"), *mnist("trial")]))
    text, html = markdown_page.render(made, "Results", "x"), page.render(made, page.results("x"))
    line = "| low-rank | accuracy % | ECE | NLL |"
    assert text.count(line) == text.count(f"**{against.TITLE}**") == html.count(f"<h4>{against.TITLE}</h4>") == 2
    assert text.index("Calibration error under all binnings") < text.index(line) < text.index("```")
    assert [(o.label, o.counts) for o in index.overview(made)] == [
        ("Paper's settings", (1, 1, 1)),
        ("Tuned settings", (1, 1, 1)),
    ]
    assert "| [MNIST](#mnist) | Tuned settings | 1 | 1 | 1 |" in text
    assert re.search(r'<a href="#mnist">MNIST</a></th><td class="words">Tuned settings</td><td>1</td>', html)
    assert against.HOW in text and text.index(index.TITLE) < text.index(index.OVERVIEW)


def test_measures_that_share_a_label_name_their_table():
    metrics = {"mae": 10.0, "picp_95_epistemic": 0.6, "calibration_error_epistemic": 0.3}
    records = [Record("beijing", "low_rank", s, {"epochs": 9}, metrics, 47_144, 9.0, preset="paper") for s in (0, 1)]
    ((part,),) = [chapter.parts for chapter in chapters.make_chapters(records)]
    assert part.against[0].cells == ("MAE", "–", "ECE, PICP (Intervals of the epistemic variance)")


def test_numbers_of_other_data_are_set_against_nothing():
    metrics = {"auroc": 0.8, "nll": 0.3}
    records = [Record("icu", "low_rank", s, {"shift": "eicu"}, metrics, 13_612, 9.0, preset="paper") for s in (0, 1)]
    made = chapters.make_chapters(records)
    assert index.overview(made) == [] and against.TITLE not in markdown_page.render(made, "Results", "x")
