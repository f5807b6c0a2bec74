"""The list of the paper's tables: every one is there, with the tables of ours that have its numbers, and how many."""

import re

from made_up import Record, bare, image_record, toy_record
from singularbayes_experiments.report import chapters, index, markdown_page, page
from singularbayes_experiments.report.published import TABLES


def entries(records):
    return {entry.label: entry for entry in index.make_entries(chapters.make_chapters(records))}


def text_record(method, preset="paper", **metrics):
    scores = {"accuracy": 0.8, "nll": 0.4, **metrics}
    return Record("sst2", method, 42, {"epochs": 20}, scores, 1_470_340, 60.0, preset=preset)


def test_every_table_has_a_line_whatever_the_records():
    for records in ([], [text_record("low_rank")]):
        assert [entry.label for entry in index.make_entries(chapters.make_chapters(records))] == [
            table.label for table in TABLES
        ]


def test_a_table_without_records_says_what_to_type():
    found = entries([])
    assert found["tab:swag_sst2"].places == ()
    assert found["tab:swag_sst2"].elsewhere.endswith("singularbayes-experiments run sst2 --preset paper --methods swag")
    assert found["tab:sst2_rank_sweep"].elsewhere == "docs/performance.md, SST-2 on a GPU"


def test_numbers_are_counted_where_a_table_shows_them():
    """Of its 42 numbers tab:sst2 has here those of two methods: 2 scores and a size each, and one more score of one."""
    records = [text_record("low_rank", auroc_ood_mi=0.7), text_record("deep_ensemble")]
    found = entries([*records, text_record("low_rank_svd", "trial")])
    (place,) = found["tab:sst2"].places
    assert (place.count, found["tab:sst2"].printed) == (7, 42)
    assert place.titles == ("Predictions on reviews, and detection of news", "Detection of news by three uncertainties")
    (times,) = found["tab:training_times"].places
    assert times.text(6) == "Errors, a temperature, and what it costs, 2 of 6 numbers"
    assert found["tab:swag_sst2"].places == ()


def test_a_metric_that_no_table_shows_is_not_counted():
    (place,) = entries(bare([toy_record()]))["tab:toy_iqr"].places
    assert place.count == 1  # the size; the paper's own regions are not among the metrics of this record


def test_a_stand_in_of_other_data_is_no_place_of_the_papers_table():
    metrics = {"auroc": 0.8, "nll": 0.3}
    one = Record("icu", "low_rank", 0, {"shift": "eicu", "epochs": 9}, metrics, 13_612, 9.0, preset="hand")
    assert entries([one])["tab:mimic"].places == ()


def test_settings_are_where_a_table_without_numbers_is():
    one = Record("beijing", "low_rank", 0, {"epochs": 9}, {"mae": 10.0}, 47_144, 9.0, preset="paper")
    (place,) = entries([one])["tab:lstm_models"].places
    assert place.text(0) == "its settings"


def test_what_cannot_be_right_is_named_as_printed():
    found = entries([])
    assert found["tab:mimic_models"].remark.startswith("Cannot be right: 112.7K. Five networks of 22,401")
    assert found["tab:results_mnist"].remark.startswith("Cannot be right: 0.0048, 0.0059, 0.0043 and 0.0071. The paper")
    assert found["tab:lstm_results"].remark.count("Cannot be right: ") == 2
    assert found["tab:sst2_rank_sweep"].remark == ""


def test_tables_of_easy_pairs_say_what_detects_them_without_a_network():
    detectors = [
        Record("sst2", name, 0, {}, {"auroc_ood": value}, 0, 1.0, preset="simple")
        for name, value in (("text_length", 0.9), ("word_rarity", 0.95), ("mahalanobis", 0.99))
    ]
    found = entries([text_record("low_rank"), *detectors])
    said = "Its detection means little. AUROC without any network: longer text 0.900 and rarer words 0.950."
    for label in ("tab:sst2", "tab:ood_std_vs_mi", "tab:sst2_lowrank_ensemble"):
        assert found[label].remark.endswith(said)
    assert "age or weight alone tells newborns from adults (not measured here)" in found["tab:mimic"].remark
    assert all("means little" not in found[label].remark for label in ("tab:sst2_models", "tab:results_mnist"))
    assert "means little" not in entries([text_record("low_rank")])["tab:sst2"].remark


def test_pages_end_in_the_list():
    made = chapters.make_chapters(bare([image_record()]))
    html = page.render(made, page.results("x"))
    markdown = markdown_page.render(made, "Results", "x")
    for label in (table.label for table in TABLES if table.label.startswith("tab:")):
        assert f"| {label} |" in markdown and f"<strong>{label}</strong>" in html
    assert index.TITLE in html and index.TITLE in markdown
    assert '<a href="#mnist">MNIST</a>: Test images' in html and "[MNIST](#mnist): Test images" in markdown
    lines = re.findall(r"^\| tab:.*$", markdown, re.MULTILINE)
    assert {line.count("|") for line in lines} == {5}
