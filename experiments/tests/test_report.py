"""The page: everything in one file, all presets and settings told, the same page for the same records."""

import json
import re

import numpy as np
import pytest
from made_up import (
    RATIOS,
    Record,
    all_records,
    bare,
    image_record,
    image_records,
    kl_record,
    rows_of,
    toy_record,
)
from singularbayes_experiments.problems import toy
from singularbayes_experiments.problems.registry import EXPERIMENTS
from singularbayes_experiments.records import record
from singularbayes_experiments.report import band_pictures, chapters, markdown_page, page, sentences, settings
from singularbayes_experiments.report.rows import grouped
from singularbayes_experiments.report.sections import SECTIONS, section_of

HEAD = page.results("singularbayes-experiments report")


def html_of(records, head=HEAD):
    return page.render(chapters.make_chapters(records), head)


@pytest.fixture(scope="module")
def html():
    """A page with figures of four experiments; drawing takes long, and is done once."""
    few = image_records(seeds=(0,), methods=("low_rank", "low_rank_50", "deterministic"))
    return html_of([*all_records(), *few, *(kl_record(beta) for beta in (0.1, 1.0))])


def test_the_page_needs_nothing_outside_itself(html):
    outside = re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(?!#|data:)[^"')\s>]+""", html)
    assert outside == []
    assert "<script src" not in html and "@import" not in html and "<link" not in html
    assert html.count("<svg ") >= 20 and html.lstrip().startswith("<!DOCTYPE html>")


def test_every_picture_has_words(html):
    panels = html.count('<div class="panel"')
    assert panels >= 15 and "<img" not in html
    assert len(re.findall(r'<div class="panel" role="img" aria-label="[^"]{20,}"', html)) == panels
    assert html.count("<figcaption>") == html.count("<figure")


def test_ids_are_used_once(html):
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    # What a picture refers to is its own.
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(ids)


def test_the_page_shows_the_sentences_the_tables_and_how_it_was_made():
    records = all_records()
    html = html_of(bare(records), page.results("singularbayes-experiments report 'a & b'"))
    toys = rows_of(records[:2])
    assert sentences.bands(toys, toys) in html and chapters.make_chapters(records)[1].finding in html
    assert "7,202" in html and "20,802" in html and records[0].versions["keras"] in html
    assert "a &amp; b" in html


def test_the_page_says_what_differs_from_the_paper():
    html = html_of(bare([toy_record(method, settings=toy.QUICK) for method in RATIOS]))
    assert "Settings: 3 of them not the paper's" in html
    assert '<dt>epochs</dt><dd><span class="departs">200 <small>(paper: 800)</small></span>' in html
    assert "<dt>hidden units</dt><dd>100</dd>" in html


def test_presets_are_labelled_and_kept_apart():
    records = image_records(seeds=(0,), presets=("chosen", "quick", "paper"), methods=["low_rank"])
    labels = re.findall(r'<span class="badge">(.*?)</span>', html_of([*bare(records), kl_record(1.0)]))
    assert labels == ["Paper&#39;s settings", "Tuned settings", "Quick", "Default settings"]


def test_trials_are_there_and_out_of_the_way():
    trials = [
        image_record("low_rank", seed, "trial", changes={"beta": beta}, validation_nll=0.1 * beta)
        for beta in (0.3, 0.1)
        for seed in (0, 1)
    ]
    (chapter,) = chapters.make_chapters(bare([image_record(seed=5), *trials]))
    assert [part.group.preset for part in chapter.parts] == ["paper", "trial"]
    (table,) = chapter.parts[1].tables
    assert [row.name for row in table.rows] == ["low-rank: β 0.1", "low-rank: β 0.3"]  # the best first
    assert [row.seeds for row in table.rows] == [2, 2]
    for text in (page.render([chapter], HEAD), markdown_page.render([chapter], "Results", "x")):
        assert "<summary>Tuning runs on validation data (4 runs)</summary>" in text
        assert text.count("<details") == text.count("</details>")
    command = "singularbayes-experiments run mnist --methods low_rank --seeds 0,1 --together --preset trial"
    assert chapter.parts[1].commands == (command,)


def test_settings_by_hand_are_said_in_the_command():
    by_hand = [image_record("low_rank", 0, "hand", changes={"beta": beta}) for beta in (0.3, 0.1)]
    (chapter,) = chapters.make_chapters(bare(by_hand))
    assert chapter.parts[0].commands == (
        "singularbayes-experiments run mnist --methods low_rank --seeds 0 --set beta=0.3",
        "singularbayes-experiments run mnist --methods low_rank --seeds 0 --set beta=0.1",
    )


def test_the_command_does_the_runs_again():
    (group,) = grouped(image_records(seeds=(42, 123), presets=("chosen",)), {})
    (command,) = settings.commands("mnist", group)
    assert command.startswith("singularbayes-experiments run mnist --methods low_rank,low_rank_laplace,")
    assert command.endswith(" --seeds 42,123 --preset chosen")


def test_methods_with_other_seeds_have_a_command_of_their_own():
    records = [image_record("low_rank", seed) for seed in (0, 1)] + [image_record("swag", 0)]
    (group,) = grouped(records, {})
    assert settings.commands("mnist", group) == [
        "singularbayes-experiments run mnist --methods low_rank --seeds 0,1 --preset paper",
        "singularbayes-experiments run mnist --methods swag --seeds 0 --preset paper",
    ]


def test_settings_that_differ_between_methods_stand_in_a_table():
    records = [image_record("low_rank"), image_record("full_rank", changes={"beta": 0.3})]
    found = settings.settings_table(rows_of(records))
    assert found.heads == ("β",) and "β" not in [s.name for s in found.shared]
    assert [(name, own[0].value, own[0].paper) for name, own in found.lines] == [
        ("low-rank", "1", ""),
        ("full-rank", "0.3", "1"),
    ]


def test_departures_are_counted_once_each_whether_all_methods_have_them_or_some():
    shared = {"epochs": 10}
    records = [
        image_record("low_rank", changes=shared),
        image_record("full_rank", changes=shared | {"beta": 0.3}),
        image_record("rank_one", changes=shared | {"beta": 0.1, "learning_rate": 0.01}),
    ]
    (chapter,) = chapters.make_chapters(bare(records))
    assert chapter.parts[0].settings.departures == ("epochs", "β", "learning rate")
    assert "Settings: 3 of them not the paper's" in page.render([chapter], HEAD)
    text = markdown_page.render([chapter], "Results", "x")
    assert "Settings that differ from the paper's: epochs 10 (paper: 50); and, in some rows, β, learning rate." in text
    _, _, table = text.partition("| settings | β | learning rate |\n|---|---:|---:|\n")
    assert table.splitlines()[:3] == [
        "| low-rank | 1 | 0.001 |",
        "| full-rank | 0.3 (paper: 1) | 0.001 |",
        "| rank-one | 0.1 (paper: 1) | 0.01 (paper: 0.001) |",
    ]


def test_figures_whose_arrays_are_absent_are_left_out_and_said():
    records = [image_record(method, seed) for method in ("low_rank", "full_rank") for seed in (0, 1)]
    (chapter,) = chapters.make_chapters(bare(records))
    assert [picture.name for picture in chapter.pictures] == ["pareto", "radar"]
    assert chapter.left_out == (
        "Calibration; Selective prediction; Histograms of mutual information (Fashion-MNIST); Histograms of mutual "
        "information (notMNIST); Histograms of entropy (notMNIST); Singular values: they need arrays that were not "
        "kept with the records.",
    )
    assert "Figures left out. Calibration" in page.render([chapter], HEAD)


def test_a_figure_of_arrays_that_only_other_runs_have_says_whose_it_is():
    tuned = bare([image_record(method, preset="chosen") for method in ("low_rank", "full_rank")])
    paper = [image_record(method) for method in ("low_rank", "full_rank")]
    (chapter,) = chapters.make_chapters([*tuned, *paper])
    captions = {picture.name: picture.caption for picture in chapter.pictures}
    assert chapter.drawn == "Tuned settings" and captions["reliability"].endswith("Runs: paper's settings.")
    assert "Runs:" not in captions["pareto"]


def test_a_figure_that_cannot_be_drawn_says_why_and_leaves_the_others():
    made = image_record()
    made.arrays["test_entropy"] = np.full(60, np.nan)
    (chapter,) = chapters.make_chapters([made])
    assert any(line.startswith("Selective prediction: ") and "finite" in line for line in chapter.left_out)
    assert "reliability" in [picture.name for picture in chapter.pictures]


def test_figures_show_the_first_seed_and_say_so():
    (chapter,) = chapters.make_chapters([image_record(seed=seed) for seed in (44, 42, 43)])
    (found,) = [picture for picture in chapter.pictures if picture.name == "reliability"]
    assert "seed 42" in found.caption


def test_the_intervals_of_the_toy_have_the_assumed_noise_in_them():
    made, rng = toy_record(), np.random.default_rng(0)
    noise = made.settings["likelihood_scale"]
    made.arrays.update(mean_near=np.zeros(4000), std_near=np.full(4000, noise))
    made.arrays["y_near"] = rng.normal(0, noise * 2**0.5, 4000)  # what such a network expects
    (chapter,) = chapters.make_chapters([made])
    assert [picture.name for picture in chapter.pictures] == ["bands", "intervals"]
    curve = band_pictures.curve_of(rows_of([made])[0])
    np.testing.assert_allclose(curve.observed, curve.levels, atol=4 * 0.5 / 4000**0.5)  # four standard errors


def test_the_same_records_give_the_same_page():
    records = [image_record(), toy_record(), *(kl_record(beta) for beta in (0.1, 1.0))]
    assert html_of(records) == html_of(records)


def test_an_experiment_without_a_description_has_a_plain_table():
    made = Record("my_study", "my_method", 0, {"width": 3}, {"nll": 0.5, "my_score": 2.0}, 10, 1.0, preset="paper")
    (chapter,) = chapters.make_chapters([made])
    assert chapter.section.title == "My study" and not chapter.pictures
    (table,) = chapter.parts[0].tables
    assert table.heads == ("trainable parameters ↓", "NLL ↓", "my score", "train s ↓")
    assert [cell.ours for cell in table.rows[0].cells] == ["10", "0.500", "2.00", "1"]
    assert "My study" in html_of([made])


def test_every_section_is_described_under_the_name_of_its_experiment():
    assert SECTIONS.keys() == set(EXPERIMENTS) and next(iter(SECTIONS)) == "toy"
    for name, section in SECTIONS.items():
        assert section_of(name, []) is section and section.description.endswith((".", "?"))
        for columns in section.tables:
            names = [measure.name for measure in columns.measures]
            assert columns.sort in ["", *names] and len(set(names)) == len(names)


def test_several_experiments_have_a_table_of_contents():
    records = bare(all_records())
    assert '<a href="#cnn">' in html_of(records) and '<section id="cnn">' in html_of(records)


def test_records_of_several_versions_and_machines_are_all_named():
    first, second = image_record(), image_record("full_rank")
    second.versions["keras"] = "9.9"
    second.machine["cpu"] = "another"
    (group,) = grouped([first, second], {})
    said = settings.made_with(group.records)
    assert f"keras {first.versions['keras']} and 9.9" in said and "another" in said
    assert said.startswith("2 runs, 3 minutes of training, on ")


def test_runs_that_were_trained_alone_are_not_said_to_share_a_machine():
    first, second = image_record(seed=0), image_record(seed=1)
    said = []
    for numbers in ((1, 1), (5, 5), (1, 5)):
        for made, number in zip((first, second), numbers, strict=True):
            made.machine.update(cpu="A", trained_together=number)
        (group,) = grouped([first, second], {})
        said.append(re.findall(r"(?:up to )?\d+ runs trained together", settings.made_with(group.records)))
    assert said == [[], ["5 runs trained together"], ["up to 5 runs trained together"]]


def test_the_page_has_its_tables_beside_it_and_the_records_stay_as_they_were(tmp_path):
    records = all_records()
    record.write(records, tmp_path)
    path = page.write(chapters.make_chapters(bare(records)), tmp_path, HEAD)
    assert path.name == "report.html" and (tmp_path / "report.md").is_file() and (tmp_path / "report.tex").is_file()
    stored = [json.loads(line)["metrics"] for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert [made.metrics for made in records] == stored
