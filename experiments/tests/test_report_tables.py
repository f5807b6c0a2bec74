"""The tables of a report: mean ± standard error beside the paper's numbers, in Markdown and in LaTeX."""

import math

import numpy as np
import pytest
from made_up import image_record, rows_of
from singularbayes_experiments.report import published, tables
from singularbayes_experiments.report.names import OWN_MEASURES
from singularbayes_experiments.report.section import TRAINING, Columns
from singularbayes_experiments.report.sections import SECTIONS
from singularbayes_experiments.report.sections.image_columns import QUALITY
from singularbayes_experiments.report.table_latex import latex
from singularbayes_experiments.report.table_markdown import markdown

from singularbayes.metrics import MEASURES, Measure

NLL = Columns("T", (Measure("nll", "lower", label="NLL", decimals=4),), sort="nll")
PAPER = published.numbers("mnist")


def table_of(records, columns=NLL, numbers=PAPER):
    made = tables.make(rows_of(records), columns, numbers)
    assert made is not None
    return made


def cell_of(table, row, measure):
    (place,) = [i for i, m in enumerate(table.measures) if m.name == measure]
    (cells,) = [r.cells for r in table.rows if r.name == row]
    return cells[place]


def test_every_measure_of_a_section_is_in_one_catalogue_with_its_direction():
    known = {**OWN_MEASURES, **MEASURES}
    assert len(known) == len(OWN_MEASURES) + len(MEASURES)
    shown = [measure for section in SECTIONS.values() for table in section.tables for measure in table.measures]
    assert len(shown) > 100
    for measure in shown:
        best, scale = known[measure.name.rpartition("/")[2]].better, measure.scale
        assert measure.better == (best if isinstance(best, str) or best is None else best / scale), measure


def test_a_cell_is_mean_and_standard_error_beside_the_papers_number():
    values = (0.08, 0.09, 0.13)
    table = table_of([image_record(seed=seed, nll=nll) for seed, nll in enumerate(values)])
    (row,) = table.rows
    error = np.std(values, ddof=1) / math.sqrt(3)
    assert (row.name, row.seeds) == ("low-rank", 3)
    expected = tables.Cell("0.1000", f"± {error:.4f}", pytest.approx(0.1), False, "0.0924", difference="+0.0076")
    assert row.cells[0] == expected


def test_one_seed_has_no_standard_error():
    (row,) = table_of([image_record(nll=0.0924)]).rows
    assert row.cells[0].error == "" and row.cells[0].difference == "0.0000" and row.seeds == 1


def test_the_order_of_records_does_not_matter():
    records = [image_record(method, seed) for method in ("swag", "low_rank", "full_rank") for seed in (0, 1, 2)]
    assert table_of(records[::-1]) == table_of(records) == table_of(records[4:] + records[:4])


def test_percentages_and_counts_are_written_as_the_paper_does():
    table = table_of([image_record(accuracy=0.9755)], QUALITY)
    accuracy, count = cell_of(table, "low-rank", "accuracy"), cell_of(table, "low-rank", "num_trained")
    assert (accuracy.ours, accuracy.paper, accuracy.difference) == ("97.55", "97.32", "+0.23")
    assert (count.ours, count.paper, count.difference) == ("245,810", "245,810", "0")


def test_a_count_that_rounds_to_the_printed_one_does_not_differ():
    number = published.Number("22.4k", None, "tab:mimic")
    column = Columns("T", (Measure("num_trained", whole=True),))
    for count, expected in ((22_401, "0"), (22_451, "+51")):
        record = image_record()
        object.__setattr__(record, "parameters", count)
        table = table_of([record], column, {("low_rank", "num_trained"): number})
        assert (table.rows[0].cells[0].paper, table.rows[0].cells[0].difference) == ("22.4k", expected)


def test_stored_parameters_are_those_that_predictions_need_and_not_the_trained_ones():
    record = image_record("swag")
    object.__setattr__(record, "parameters", 1_000)
    object.__setattr__(record, "stored", 21_000)
    columns = Columns("T", (Measure("num_trained", whole=True), Measure("num_stored", whole=True)))
    assert [cell.ours for cell in table_of([record], columns, {}).rows[0].cells] == ["1,000", "21,000"]


def test_a_number_that_cannot_be_right_is_marked_and_has_no_difference():
    table = table_of([image_record("full_rank"), image_record("low_rank")], QUALITY)
    brier, nll = cell_of(table, "full-rank", "brier"), cell_of(table, "full-rank", "nll")
    assert (brier.paper, brier.difference, brier.mark) == ("0.0048", "", "†")
    assert (nll.mark, nll.difference) == ("", "+0.0105")
    assert list(table.footnotes) == ["†"] and "means over the ten classes" in table.footnotes["†"]


def test_methods_that_the_paper_lacks_have_no_number_of_it():
    table = table_of([image_record("swag"), image_record("low_rank")])
    assert [bool(row.cells[0].paper) for row in sorted(table.rows, key=lambda r: r.name)] == [False, True]


def test_a_deviation_of_the_paper_is_shown():
    number = published.Number(".895", 0.004, "tab:mimic")
    column = Columns("T", (Measure("nll", "lower", decimals=3),))
    table = table_of([image_record()], column, {("low_rank", "nll"): number})
    assert table.rows[0].cells[0].printed == "0.895 ± 0.004"
    assert table.reading.startswith(
        "The paper's ± is the standard deviation over its seeds. Second line of a cell: the paper's"
    )
    assert "deviation" not in table_of([image_record()], column).reading  # MNIST's numbers have none
    ours = table_of([image_record(seed=seed) for seed in (0, 1)], column).reading
    assert ours.startswith("± is the standard error over seeds. Second line of a cell:")


def test_a_measure_that_is_not_ranked_has_no_direction_unless_it_is_a_cost():
    runs = [image_record(method, seed, accuracy=0.9) for method in ("low_rank", "full_rank") for seed in (0, 1, 2)]
    table = table_of(runs, Columns("T", (Measure("accuracy", "higher", ranked=False), TRAINING)))
    assert table.heads == ("accuracy", f"{TRAINING.label} ↓") and not any(row.cells[0].best for row in table.rows)


def test_seeds_without_a_value_are_counted_and_a_column_without_any_is_left_out():
    records = [image_record(seed=0, nll=0.1), image_record(seed=1, nll=math.nan), image_record(seed=2, nll=0.3)]
    columns = Columns("T", (*NLL.measures, Measure("never", "lower")))
    table = table_of(records, columns)
    assert [m.name for m in table.measures] == ["nll"]
    assert table.rows[0].cells[0].ours == "0.2000" and table.rows[0].cells[0].error == "± 0.1000 (2 of 3)"
    only = [image_record(seed=0, nll=math.nan)]
    assert tables.make(rows_of(only), NLL, PAPER) is None


def test_a_method_without_a_value_is_last_and_has_a_dash():
    records = [
        image_record("low_rank", nll=math.nan),
        image_record("swag", nll=0.2),
        image_record("full_rank", nll=0.1),
    ]
    table = table_of(records)
    assert [row.name for row in table.rows] == ["full-rank", "SWAG", "low-rank"]
    assert [row.cells[0].ours for row in table.rows] == ["0.1000", "0.2000", "–"]
    assert table.rows[2].cells[0].paper == ""


def test_rows_are_sorted_best_first_whichever_end_is_better():
    records = [image_record("low_rank", accuracy=0.9), image_record("swag", accuracy=0.95)]
    columns = Columns("T", (Measure("accuracy", "higher", decimals=3),), sort="accuracy")
    assert [row.name for row in table_of(records, columns).rows] == ["SWAG", "low-rank"]


def test_a_time_of_another_machine_has_no_difference_and_the_table_says_why():
    number = {("low_rank", "train_seconds"): published.Number("8.22", None, "tab:training_times", unit=60)}
    table = table_of([image_record()], Columns("T", (TRAINING,)), number)
    (cell,) = table.rows[0].cells
    assert (cell.ours, cell.paper, cell.difference) == ("100", "493", "")
    assert "(tab:training_times). Times cannot be compared" in table.reading  # and no difference
    assert "(tab:results_mnist) and, in brackets, ours minus the paper's." in table_of([image_record()]).reading
    assert "Times" not in table_of([image_record()]).reading


def test_a_number_that_does_not_stand_there_has_no_footnote():
    number = {("low_rank", "mi_ratio"): published.Number(".000", None, "tab:x", "0/0.")}
    columns = Columns("T", (*NLL.measures, Measure("mi_ratio")))
    rows = [image_record(), image_record("full_rank", mi_ratio=1.5)]
    assert table_of(rows, columns, number).footnotes == {}
    rows[0] = image_record(mi_ratio=1.2)
    table = table_of(rows, columns, number)
    assert table.footnotes == {"†": "0/0."} and cell_of(table, "low-rank", "mi_ratio").mark == "†"


def test_markdown_has_ours_the_papers_the_difference_and_the_footnote():
    text = markdown(table_of([image_record("full_rank", nll=0.05), image_record("low_rank", nll=0.1)], QUALITY))
    lines = text.splitlines()
    heads, rule, first = lines[2:5]
    assert heads.startswith("| method | seeds | trainable parameters ↓ | accuracy % ↑ | NLL ↓ |")
    assert heads.count("|") == rule.count("|") == first.count("|")
    assert "| full-rank | 1 |" in first and "0.0500<br>paper 0.0795 (−0.0295)" in first
    assert "<br>paper 0.0048† |" in first and lines[-1].startswith("† The paper defines the Brier score")


def test_latex_has_a_line_for_the_paper_and_one_for_the_difference():
    text = latex(table_of([image_record("low_rank", nll=0.1), image_record("swag", nll=0.2)], QUALITY), "tab:x")
    body = [line.strip() for line in text.splitlines() if line.strip().endswith(r"\\")]
    assert [line.split(" & ")[0] for line in body] == [
        "method",
        "low-rank",
        r"\quad paper",
        r"\quad difference",
        "SWAG",
    ]
    assert len({line.count(" & ") for line in body}) == 1
    assert r"0.0059\textdagger{}" in body[2] and "$+0.0076$" in body[3] and r"$\mathbf{245{,}810}$" in body[1]
    assert r"accuracy \% $\uparrow$" in body[0] and r"\label{tab:x}" in text
    text.encode("ascii")
