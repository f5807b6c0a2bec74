"""The page of intensive care: five runs of a seed are one row, and the paper's numbers stand beside MIMIC-III alone."""

import math
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up import Record
from singularbayes_experiments.problems import icu, mimic3, mimic3_features
from singularbayes_experiments.records import record
from singularbayes_experiments.records.record import plain
from singularbayes_experiments.report import chapters, index
from singularbayes_experiments.report.sections import SECTIONS
from singularbayes_experiments.report.sections.icu import SHIFTS, gathered
from singularbayes_experiments.report.sections.mortality_columns import DEPARTURES

from singularbayes.metrics import aupr_err

RESULTS = Path(__file__).parents[2] / "experiments" / "results"
RECORDS = [one for path in sorted(RESULTS.glob("icu*.jsonl")) for one in record.read(path, arrays=False)]
committed = pytest.mark.skipif(not RECORDS, reason="no records are committed")
NUMBERS = dict(zip(icu.SHIFTS, (0.5, 0.6, 0.7, 0.8, 0.9), strict=True))


def run(shift, method="low_rank", seed=42, preset="chosen", better=0.0):
    settings = replace(icu.TUNED[method], shift=shift)
    metrics = {"auroc_ood_mi": NUMBERS[shift] + better, "nll": 0.3, "auroc": 0.85, "validation_nll": 0.3}
    arrays = {"test_mean": np.full((2, 2), 0.5), "test_mi": np.arange(2.0)}
    arrays["singular_values/hidden_1/kernel"] = np.array([NUMBERS[shift]])
    return Record("icu", method, seed, plain(settings), metrics, 13_612, 2.0, preset=preset, arrays=arrays)


def test_the_shifts_of_the_page_are_those_of_the_experiment():
    assert list(SHIFTS) == list(icu.SHIFTS)


def test_five_shifts_become_their_mean_and_each_keeps_its_own():
    (one,) = gathered([run(shift) for shift in reversed(SHIFTS)])
    assert one.metrics["auroc_ood_mi"] == pytest.approx(0.7) and one.metrics["eicu/auroc_ood_mi"] == 0.9
    assert one.seconds == 10 and "shift" not in one.settings
    assert one.arrays["singular_values/hidden_1/kernel"] == 0.5  # of coronary care, the first
    assert one.arrays["test_mean"].shape == (10, 2) and one.arrays["cardiac_test_mi"].tolist() == [0, 1]


def test_a_mean_over_fewer_shifts_is_none():
    (one,) = gathered([run("coronary"), run("eicu")])
    assert "auroc_ood_mi" not in one.metrics and one.metrics["coronary/auroc_ood_mi"] == 0.5


def test_seeds_methods_and_presets_are_kept_apart_and_trials_as_they_are():
    records = [run(s, method, seed) for s in SHIFTS for method in ("low_rank", "swag") for seed in (1, 2)]
    trial = run("coronary", preset="trial")
    assert len(gathered(records)) == 4
    assert gathered([trial]) == [trial]


def test_a_row_of_the_table_has_all_five_and_no_number_of_the_paper_which_is_of_other_data():
    records = [
        run(shift, method, seed, better=gain)
        for shift in SHIFTS
        for seed in (1, 2)
        for method, gain in (("low_rank", 0.02), ("deep_ensemble", 0.0))
    ]
    (chapter,) = chapters.make_chapters(records)
    overview, each = chapter.parts[0].tables[:2]
    low, deep = overview.rows
    column = [measure.name for measure in overview.measures].index("auroc_ood_mi")
    assert (low.name, low.seeds, low.cells[column].ours, low.cells[column].best) == ("low-rank", 2, "0.720", True)
    every = [cell for part in chapter.parts for table in part.tables for row in table.rows for cell in row.cells]
    assert deep.cells[column].ours == "0.700" and not any(cell.paper for cell in every)
    assert [cell.ours for cell in each.rows[0].cells] == ["0.720", "0.520", "0.620", "0.720", "0.820", "0.920"]
    assert "detected best by the mutual information of low-rank (AUROC 0.720)" in chapter.finding
    assert "--preset chosen" in chapter.parts[0].commands[0] and "shift" not in chapter.parts[0].commands[0]
    assert chapter.parts[0].made_with.startswith("20 runs, ")  # five shifts, two seeds, two methods


def test_manual_overrides_of_all_shifts_are_one_row_and_of_some_are_never_ranked():
    weighed = [
        replace(one, settings=one.settings | {"beta": 3.0 + i}, paper={"beta": 32.0}, preset="hand")
        for i, shift in enumerate(SHIFTS)
        for one in (run(shift), run(shift, "full_rank"))
    ]
    (chapter,) = chapters.make_chapters(weighed)
    low = next(row for row in chapter.parts[0].group.rows if row.method == "low_rank")
    assert low.name == "low-rank" and low.mean("auroc_ood_mi") == pytest.approx(0.7)
    assert "--set beta=3.0" in chapter.parts[0].commands[0] and len(chapter.parts[0].commands) == 5
    (chapter,) = chapters.make_chapters(weighed[:4])  # two shifts: four rows
    table = chapter.parts[0].tables[0]
    assert len(table.rows) == 4 and not any(cell.best for row in table.rows for cell in row.cells)
    assert "None is marked best" in table.reading and "bold" not in table.reading


def mimic_record(tables, method="swag", auroc=0.9):
    settings = plain(replace(mimic3.TUNED[method], tables=tables))
    options = {"stored": 470_421, "preset": "chosen"}
    return Record("mimic3", method, 0, settings, {"auroc": auroc, "nll": 0.3}, 22_401, 2.0, **options)


def test_mimic_stands_beside_the_papers_table():
    (chapter,) = chapters.make_chapters([mimic_record("own")])
    table = chapter.parts[0].tables[0]
    paper = {m.name: cell.printed for m, cell in zip(table.measures, table.rows[0].cells, strict=True)}
    assert (paper["auroc"], paper["num_stored"]) == ("0.922 ± 0.001", "470.42K")


def test_no_number_of_the_paper_stands_beside_the_demo_even_where_the_full_tables_have_theirs():
    (alone,) = chapters.make_chapters([mimic_record("demo")])
    assert not any(cell.paper or cell.difference for t in alone.parts[0].tables for row in t.rows for cell in row.cells)
    assert not any("paper's value" in table.reading for table in alone.parts[0].tables)
    assert not any(entry.places for entry in index.make_entries([alone]) if "mimic" in entry.label)
    assert alone.finding.startswith("All runs here use the open demo")
    (both,) = chapters.make_chapters([mimic_record("demo", auroc=0.8), mimic_record("own")])
    table = both.parts[0].tables[0]
    cells = {row.name: row.cells[0] for row in table.rows}
    assert {name: (cell.ours, cell.printed) for name, cell in cells.items()} == {
        "SWAG: tables demo": ("0.800", ""),
        "SWAG: tables own": ("0.900", "0.922 ± 0.001"),
    }
    assert "paper's value (tab:swag_mimic)" in table.reading and "demo" not in both.finding


def test_the_number_of_features_is_that_of_the_presets():
    counts = {
        name: {len(mimic3_features.names(each.length_of_stay)) for each in _each(preset)}
        for name, preset in mimic3.EXPERIMENT.presets.items()
    }
    assert counts == {"paper": {44}, "chosen": {43}, "quick": {43}}
    assert "43 features of the first 48 hours (44 with the paper's settings)" in SECTIONS["mimic3"].description


def _each(preset):
    return preset.values() if isinstance(preset, dict) else [preset]


def means(preset, names, method="low_rank", seeds=None):
    """Means of a method over seeds and shifts."""
    found = [one for one in RECORDS if (one.method, one.preset) == (method, preset)]
    chosen = [one for one in found if seeds is None or one.seed in seeds]
    return [float(np.mean([one.metrics[name] for one in chosen])) for name in names]


@committed
def test_what_is_said_of_the_collapse_is_so_in_the_records():
    said = " ".join(SECTIONS["icu"].notes)
    nll, undone, accuracy, auroc = means("paper", ["nll", "unweighted_nll", "accuracy", "auroc"])
    assert f"collapse here: an NLL of {nll:.3f}, where equal probabilities have ln 2 = {math.log(2):.3f}" in said
    assert f"an accuracy of {100 * accuracy:.1f} % and an AUROC of {auroc:.3f}; with the class weight undone" in said
    assert f"undone the NLL is {undone:.3f}." in said


@committed
@pytest.mark.parametrize(("method", "label"), [("low_rank", "Low-rank"), ("full_rank", "Full-rank")])
def test_what_is_said_of_the_papers_weight_of_the_kl_is_so_in_the_records(method, label):
    pattern = r": NLL with the class weight undone ([\d.]+) \(([\d.]+)\), as it comes ([\d.]+) \(([\d.]+)\), "
    pattern += r"accuracy ([\d.]+) % \(([\d.]+) %\), AUROC ([\d.]+) \(([\d.]+)\), "
    found = re.search(
        label + pattern + r"out-of-distribution stays ([\d.]+) \(([\d.]+)\)\.", " ".join(SECTIONS["icu"].notes)
    )
    said = [float(number) for number in found.groups()]

    def shown(preset):
        names = ["unweighted_nll", "nll", "accuracy", "auroc", "auroc_ood_mi"]
        undone, nll, accuracy, *more = means(preset, names, method, seeds=(42, 123))
        return [round(undone, 3), round(nll, 3), round(100 * accuracy, 1), *(round(each, 3) for each in more)]

    assert said[1::2] == shown("paper")
    page = " ".join((RESULTS.parents[1] / "docs" / "intensive_care.md").read_text(encoding="utf-8").split())
    if method == "low_rank":
        assert f"an AUROC of {said[7]} and an NLL of {said[3]}, where" in page
        assert f"with the weight undone it is {said[1]} and {said[0]}." in page
        assert f"they have {said[6]} and {said[2]} (means over the shifts and seeds 42 and 123;" in page
    by_hand = [one for one in RECORDS if (one.method, one.preset) == (method, "hand")]
    if not by_hand:
        pytest.skip("the runs by hand are not committed")
    assert {(one.seed, one.settings["shift"]) for one in by_hand} == {(s, name) for s in (42, 123) for name in SHIFTS}
    assert said[::2] == shown("hand")


@committed
def test_a_run_has_no_temperature_only_where_equal_probabilities_are_better_on_validation():
    tested = [one for one in RECORDS if one.preset != "trial"]
    none = [one for one in tested if "recalibrated_temperature" not in one.metrics]
    assert none and all(one.metrics["validation_nll"] > math.log(2) for one in none)


@pytest.mark.skipif("SINGULARBAYES_DATA" not in os.environ, reason="needs $SINGULARBAYES_DATA")
def test_the_numbers_of_stays_that_train_are_those_of_the_note():
    counts = {shift: len(icu.split(shift).train[1]) for shift in icu.SHIFTS}
    least, most, paper = min(counts.values()), max(counts.values()), 40_406
    said = f"N is {least:,} to {most:,} stays here and {paper:,} in the paper, so that the same β weighs "
    assert said + f"{paper / most:.0f} to {paper / least:.0f} times as much" in " ".join(SECTIONS["icu"].notes)
    assert 32 * counts["coronary"] / paper == pytest.approx(4.32649, abs=1e-5)  # of docs/intensive_care.md


def test_both_chapters_of_intensive_care_warn_of_aupr_err_and_tell_departures():
    for name in ("icu", "mimic3"):
        section = SECTIONS[name]
        assert "aupr_err_mi" in [measure.name for measure in section.tables[0].measures]
        assert "a random score has an AUPR-Err equal to the error rate" in section.tables[0].note
        assert DEPARTURES in section.notes
    wrong = np.arange(1000) < 415
    chance = np.mean([aupr_err(np.random.default_rng(i).random(1000), wrong) for i in range(50)])
    assert chance == pytest.approx(0.415, abs=0.01)
