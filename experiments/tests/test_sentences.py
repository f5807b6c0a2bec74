"""What a page says of an experiment in a sentence is true whatever the numbers."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import (
    Record,
    image_record,
    kl_record,
    rows_of,
    toy_record,
)
from singularbayes_experiments.data.files import SETS, find
from singularbayes_experiments.problems import simple_detectors
from singularbayes_experiments.report import chapters, sentences
from singularbayes_experiments.report.names import SIMPLE_NAMES
from singularbayes_experiments.report.sections import SECTIONS


def bands_sentence(records):
    rows = rows_of(records)
    return sentences.bands(rows, rows)


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [
        (1.8, "the low-rank band widens to 1.80 times its width inside"),
        (0.6, "the low-rank band narrows to 0.60 times its width inside"),
        (1.02, "the low-rank band is as wide as inside (1.02 times)"),
    ],
)
def test_the_toy_sentence_says_what_the_band_does(ratio, expected):
    assert expected in bands_sentence([toy_record("low_rank", ratio), toy_record("full_rank")])


def test_the_toy_sentence_is_of_the_mean_over_seeds():
    records = [toy_record("low_rank", ratio, seed) for seed, ratio in enumerate((1.0, 2.0, 3.0))]
    assert "widens to 2.00 times" in bands_sentence(records)


def test_the_toy_sentence_of_many_methods_is_a_list():
    ratios = {"low_rank": 1.5, "full_rank": 1.25, "swag": 4.0, "deep_ensemble": 3.0}
    records = [replace(toy_record(ratio=ratio), method=method) for method, ratio in ratios.items()]
    said = "divided by that inside: 1.50 for low-rank, 1.25 for full-rank, 3.00 for deep ensemble and 4.00 for SWAG"
    assert said in bands_sentence(records)


def test_the_toy_sentence_counts_parameters_both_ways():
    records = [toy_record("low_rank", parameters=25), toy_record("full_rank", parameters=100)]
    assert "25 parameters against 100 of the full-rank one, 75 % fewer" in bands_sentence(records)
    records = [toy_record("low_rank", parameters=150), toy_record("full_rank", parameters=100)]
    assert "150 parameters against 100 of the full-rank one, 50 % more" in bands_sentence(records)
    assert "against" not in bands_sentence(records[:1])


def test_the_classifiers_sentence_names_who_is_best_in_what():
    records = [image_record("low_rank", nll=0.05, accuracy=0.97), image_record("full_rank", nll=0.06, accuracy=0.98)]
    of_two = sentences.classifiers(rows_of(records), "notmnist/auroc_ood_entropy", "notMNIST")
    assert "Highest" not in of_two and "Lowest" not in of_two  # of two methods none is the best of all
    records.append(image_record("rank_one", nll=0.07, accuracy=0.96))
    said = sentences.classifiers(rows_of(records), "notmnist/auroc_ood_entropy", "notMNIST")
    assert said.startswith("Low-rank: 97.00 % and an NLL of 0.0500; the low-rank network has 245,810 parameters")
    assert "Highest accuracy: full-rank (98.00 %). Lowest NLL: low-rank (0.0500)." in said


def test_the_headline_of_reviews_goes_by_mutual_information_as_the_paper_does():
    """By mutual information the deep ensemble detects news best, by entropy SWAG would."""
    by = {"low_rank": (0.7, 0.6), "deep_ensemble": (0.8, 0.5), "swag": (0.6, 0.9)}
    scores = {"accuracy": 0.8, "nll": 0.4}
    records = [
        Record("sst2", m, 0, {}, scores | {"auroc_ood_mi": mi, "auroc_ood_entropy": h}, 9, 1.0, preset="paper")
        for m, (mi, h) in by.items()
    ]
    (chapter,) = chapters.make_chapters(records)
    assert chapter.finding.endswith("Best detection of news by mutual information: deep ensemble (AUROC 0.8000).")
    assert any(SECTIONS["adaptive_rank_sst2"].title in note for note in chapter.section.notes)


def test_the_study_of_the_kl_weight_says_where_the_posterior_collapses():
    section = SECTIONS["kl_study"]
    rows = rows_of([kl_record(beta) for beta in (0.01, 0.1, 1.0, 10.0, 100.0)], section.methods)
    assert [row.name for row in rows] == ["β = 0.01", "β = 0.1", "β = 1", "β = 10", "β = 100"]
    rate = "Every β has the same learning rate, 0.001, which was not tuned here."
    assert section.finding(rows) == (
        "The NLL is lowest at β = 0.1 (0.0500); from β = 10 on the accuracy is near chance: the posterior has "
        f"collapsed. {rate}"
    )
    assert "; at β = 10 the accuracy" in section.finding(rows[:4])
    assert section.finding(rows[:3]).endswith(f"nowhere in the range does the posterior collapse. {rate}")


def test_what_is_said_of_rows_that_differ_in_more_than_the_posterior_is_so_in_the_records():
    folder = Path(__file__).parents[1] / "results"
    runs = {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        for name in ("beijing", "uci", "toy")
    }
    change = {run["method"] for run in runs["beijing"] if run["settings"]["from_last"]}
    value = {run["method"] for run in runs["beijing"] if not run["settings"]["from_last"] and run["preset"] == "chosen"}
    ranks = {"low_rank_4", "low_rank_8", "low_rank_12", "low_rank_32"}
    assert change == {"low_rank", "low_rank_ensemble"} | ranks and not change & value
    assert "their other ranks and their ensemble predict the change" in SECTIONS["beijing"].notes[0]
    noise = {run["method"]: run["settings"]["own_noise"] for run in runs["uci"]}
    assert noise == {"low_rank": True, "deep_ensemble": True, "full_rank": False}
    assert "full-rank ones have one noise level" in SECTIONS["uci"].notes[0]
    ratios = [
        run["metrics"]["iqr_published_ratio"]
        for run in runs["toy"]
        if (run["preset"], run["method"]) == ("chosen", "low_rank")
    ]
    page = (folder.parents[1] / "docs" / "results" / "toy.md").read_text(encoding="utf-8")
    assert f"0.1 to 0.6, low-rank has {sum(ratios) / len(ratios):.2f}, where the paper has 2.01." in page


def test_detectors_without_a_network_stand_below_every_table_with_an_auroc_ood():
    records = [image_record("low_rank"), image_record("full_rank")]
    simple = Record("mnist", "more_pixels", 0, {}, {"notmnist/auroc_ood": 0.75}, 0, 1.0, preset="simple")
    (plain,) = chapters.make_chapters(records)
    (chapter,) = chapters.make_chapters([*records, simple])
    assert [part.label for part in chapter.parts] == [
        part.label for part in plain.parts
    ] and chapter.finding == plain.finding
    for table, before in zip(chapter.parts[0].tables, plain.parts[0].tables, strict=True):
        has = any(measure.name.startswith("notmnist/auroc_ood") for measure in table.measures)
        added = table.rows[len(before.rows) :]
        assert [row.name for row in added] == ["more non-zero pixels (no network)"] * has
        for row in added:
            shown = {measure.name: cell.ours for measure, cell in zip(table.measures, row.cells, strict=True)}
            assert shown["notmnist/auroc_ood_mi"] == shown["notmnist/auroc_ood_entropy"] == "0.7500"
            assert all(value == "–" for name, value in shown.items() if not name.startswith("notmnist/auroc_ood"))
            assert not any(cell.best for cell in row.cells) and row.seeds == 0
    assert chapters.make_chapters([simple]) == []


def test_a_study_on_the_same_data_shows_the_detectors_of_its_own_pairs():
    """Pairs that the study has no score of, such as held-out classes, get no column; the note names the chapter."""
    metrics = {"accuracy": 0.97, "nll": 0.1, "fashion_mnist/auroc_ood_mi": 0.9, "beta": 1.0}
    own = replace(kl_record(1.0), metrics=metrics)
    scores = {"fashion_mnist/auroc_ood": 0.75, "held_out/auroc_ood": 0.5}
    simple = Record("mnist", "more_pixels", 0, {}, scores, 0, 1.0, preset="simple")
    (chapter,) = chapters.make_chapters([own, simple])
    [table] = [each for part in chapter.parts for each in part.tables if chapters.NO_NETWORK in each.note]
    assert table.rows[-1].name == "more non-zero pixels (no network)"
    assert "taken from the page “MNIST”, which uses the same data" in table.note
    assert not any(measure.name.startswith("held_out") for measure in table.measures)


@pytest.mark.skipif("SINGULARBAYES_DATA" not in os.environ, reason="needs $SINGULARBAYES_DATA")
def test_the_committed_detectors_are_those_of_the_data():
    lines = (Path(__file__).parents[1] / "results" / "simple_detectors.jsonl").read_text(encoding="utf-8").splitlines()
    kept = {(run["experiment"], run["method"]): run["metrics"] for run in map(json.loads, lines)}
    assert {experiment for experiment, _ in kept} == set(simple_detectors.EXPERIMENTS)
    assert {method for _, method in kept} < SIMPLE_NAMES.keys()  # the others are of a network
    here = (
        find(SETS["product_reviews"], next(iter(SETS["product_reviews"].files))) is not None
    )  # else it would be downloaded
    for experiment in ("mnist", "beijing", *["sst2"] * here):
        for method, found in simple_detectors.detect(experiment):
            assert found == pytest.approx(kept[experiment, method], abs=1e-6)


def test_a_table_of_detectors_alone_stands_once_and_says_what_is_missing():
    made = [replace(image_record("low_rank"), experiment="sst2", preset=preset) for preset in ("paper", "chosen")]
    simple = [
        Record("sst2", method, seed, {}, {"product_reviews/auroc_ood": 0.4}, 0, 1.0, preset="simple")
        for method, seed in (("text_length", 0), ("max_softmax", 42), ("mahalanobis", 42))
    ]
    (chapter,) = chapters.make_chapters([*made, *simple])
    titles = {part.group.preset: [table.title for table in part.tables] for part in chapter.parts}
    alone = "Detection of text that is nearer to film reviews"
    assert alone in titles["chosen"] and alone not in titles["paper"]
    [table] = [table for part in chapter.parts for table in part.tables if table.title == alone]
    assert [row.name for row in table.rows] == [SIMPLE_NAMES[one.method] for one in simple]
    assert "The network has one logit" in table.note and "need classes" not in table.note
    (chapter,) = chapters.make_chapters([*made, simple[-1]])
    [table] = [table for part in chapter.parts for table in part.tables if table.title == alone]
    assert "The network has one logit" not in table.note and "need classes" in table.note
