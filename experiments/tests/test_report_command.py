"""`singularbayes-experiments report`: folders of all kinds in; a page, or one line on what is wrong, out."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up import all_records, bare, image_record, image_records, kl_record, toy_record
from matplotlib.figure import Figure
from singularbayes_experiments.cli import app as cli
from singularbayes_experiments.records import record
from singularbayes_experiments.report import chapters, cifar10, markdown_page, modes_section, read_records
from singularbayes_experiments.report.rows import grouped

ROOT = Path(__file__).parents[2]


def ends_with(arguments, expected):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    assert re.search(expected, str(end.value.code)) and str(end.value.code).startswith("singularbayes-experiments: ")
    assert "\n" not in str(end.value.code)


@pytest.fixture
def runs(tmp_path):
    """A folder of runs of three experiments, with the arrays of one run."""
    records = [toy_record(), *bare(all_records()[1:]), *(kl_record(beta) for beta in (0.1, 1.0, 10.0))]
    (tmp_path / "runs").mkdir()
    record.write(records, tmp_path / "runs")
    return tmp_path / "runs"


def test_a_folder_of_runs_becomes_a_page_and_tables(runs, capsys):
    assert cli.main(["report", str(runs)]) == 0
    page = runs / "report" / "report.html"
    assert str(page) in capsys.readouterr().out
    html = page.read_text(encoding="utf-8")
    for title in ("Toy regression", "The weight of the KL", "CNN"):
        assert title in html and title in (runs / "report" / "report.md").read_text(encoding="utf-8")
    assert f"singularbayes-experiments report {runs}" in html
    assert (runs / "report" / "report.tex").read_text(encoding="utf-8").count(r"\begin{table}") == 6


def test_tables_for_a_paper_can_be_printed_alone(runs, capsys):
    assert cli.main(["report", str(runs), "--latex"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("% \\usepackage{amsmath,booktabs,textcomp}\n\n\\begin{table}")
    assert not (runs / "report").exists() and cli.main(["report", str(runs)]) == 0
    assert printed == (runs / "report" / "report.tex").read_text(encoding="utf-8") + "\n"


def test_the_numbers_of_the_paper_can_be_left_out(runs, capsys):
    cli.main(["report", str(runs), "--latex"])
    beside = capsys.readouterr().out
    assert cli.main(["report", str(runs), "--latex", "--no-paper"]) == 0
    alone = capsys.readouterr().out
    assert r"\quad paper" in beside and "Second line of a cell" in beside
    assert r"\quad paper" not in alone and "Second line of a cell" not in alone
    ours = [line for line in beside.splitlines() if line.endswith(r"\\") and r"\quad" not in line]
    assert [line for line in alone.splitlines() if line.endswith(r"\\")] == ours


def test_the_folder_of_the_page_can_be_said(runs, tmp_path):
    assert cli.main(["report", str(runs), "--out", str(tmp_path / "a" / "b")]) == 0
    assert (tmp_path / "a" / "b" / "report.html").is_file() and not (runs / "report").exists()


def test_without_a_folder_it_is_runs(runs, monkeypatch):
    monkeypatch.chdir(runs.parent)
    assert cli.main(["report"]) == 0
    assert "<pre>singularbayes-experiments report</pre>" in Path("runs/report/report.html").read_text(encoding="utf-8")


def test_a_folder_of_pages_has_a_summary_and_a_page_per_experiment_with_its_figures(runs, tmp_path):
    folder = tmp_path / "pages"
    assert cli.main(["report", str(runs), "--markdown", str(folder)]) == 0
    experiments = {made.experiment for made in read_records.read(runs)}
    pages = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert pages.keys() == {"index.md", "paper_tables.md", "disclosures.md", *(f"{name}.md" for name in experiments)}
    for text in pages.values():
        links = re.findall(r"\]\(([^)#]+)\)", text)
        assert all((folder / link).is_file() for link in links if not link.startswith("../"))
        assert f"`singularbayes-experiments report {runs} --markdown {folder}`" in text
    figures = re.findall(r"!\[[^\]]{20,}\]\(([^)]+)\)", "".join(pages.values()))
    assert "kl_study-beta.svg" in figures and not (runs / "report").exists()
    left_out = "Figures left out. Calibration; Selective prediction; Histograms of mutual information (MNIST); "
    assert any(left_out in text for text in pages.values())


def test_a_file_of_records_needs_no_arrays(runs, tmp_path):
    alone = tmp_path / "toy.jsonl"
    alone.write_text((runs / "records.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    assert cli.main(["report", str(alone), "--out", str(tmp_path / "out")]) == 0
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert (
        "Bands of the functions; Interval calibration; Singular values: they need arrays that were not kept with the "
        "records." in html
    )
    assert "The NLL is lowest at β = 0.1" in html


def test_all_files_of_records_in_a_folder_are_read(tmp_path):
    for name, made in (("mnist", image_record()), ("trials", image_record(preset="trial")), ("toy", toy_record())):
        (tmp_path / f"{name}.jsonl").write_text(f"{made.line()}\n", encoding="utf-8")
    found = read_records.read(tmp_path)
    assert sorted((made.experiment, made.preset) for made in found) == [
        ("mnist", "paper"),
        ("mnist", "trial"),
        ("toy", "paper"),
    ]


def test_a_record_in_two_files_counts_once_as_the_later_file_has_it(tmp_path):
    for name, seeds in (("first", (0, 1)), ("second", (1, 2))):
        lines = "".join(f"{image_record(seed=seed, nll=float(len(name))).line()}\n" for seed in seeds)
        (tmp_path / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    found = read_records.read(tmp_path)
    assert {made.seed: made.metrics["nll"] for made in found} == {0: 5.0, 1: 6.0, 2: 6.0} and len(found) == 3
    (group,) = grouped(found, {"low_rank": ""})
    assert [one.seed for one in group.rows[0].records] == [0, 1, 2]


def test_only_the_first_seed_has_its_arrays(tmp_path):
    record.write([image_record(seed=seed) for seed in (7, 3, 5)], tmp_path)
    assert {made.seed: bool(made.arrays) for made in read_records.read(tmp_path)} == {7: False, 3: True, 5: False}


def test_a_trial_does_not_have_the_arrays_of_the_run_of_its_settings(tmp_path):
    for made in (image_record(), replace(image_record(), preset="trial", arrays={})):
        record.append(made, tmp_path)
    assert {made.preset: bool(made.arrays) for made in read_records.read(tmp_path)} == {"paper": True, "trial": False}


def test_a_folder_that_is_not_there_or_has_no_records_is_said(tmp_path):
    ends_with(
        ["report", str(tmp_path / "gone")],
        r"needs a folder with records \(\*\.jsonl\); got .*gone', which is not there",
    )
    ends_with(["report", str(tmp_path)], r"which has none\. `singularbayes-experiments run toy` makes some\.")


def test_records_one_folder_below_are_pointed_at(tmp_path):
    (tmp_path / "demo").mkdir()
    record.write(all_records()[:1], tmp_path / "demo")
    ends_with(["report", str(tmp_path)], r"which has none\. There are some in .*demo\.")


def test_files_without_a_whole_record_are_said(tmp_path):
    (tmp_path / "records.jsonl").write_text("")
    ends_with(["report", str(tmp_path)], r"needs one record at least; got none in .*records\.jsonl")
    (tmp_path / "records.jsonl").write_text(toy_record().line()[:50])
    ends_with(["report", str(tmp_path)], "needs one record at least")


def test_a_torn_last_line_is_no_record(runs):
    with (runs / "records.jsonl").open("a") as lines:
        lines.write(toy_record(seed=9).line()[:70])
    assert cli.main(["report", str(runs)]) == 0
    assert len(read_records.read(runs)) == 8


def test_a_damaged_line_is_named(runs):
    lines = (runs / "records.jsonl").read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2][:50]
    (runs / "records.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    ends_with(["report", str(runs)], r"Records need to be one per line; got .* in line 3 of .*records\.jsonl")


def test_damaged_arrays_are_named(runs):
    path = next(runs.glob("toy-low_rank-*.npz"))
    path.write_bytes(path.read_bytes()[:100])
    ends_with(["report", str(runs)], rf"got a damaged .*{re.escape(path.name)} .* Remove it to leave its figures out")


def test_metrics_that_are_not_numbers_leave_a_page(tmp_path):
    records = [image_record("low_rank", nll=math.nan, accuracy=math.inf), image_record("full_rank", nll=math.nan)]
    record.write(bare(records), tmp_path)
    assert cli.main(["report", str(tmp_path)]) == 0
    html = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "∞" in html and "NLL ↓" not in html


def test_records_of_an_unknown_experiment_and_of_older_versions_are_shown(tmp_path):
    old = json.loads(toy_record().line())
    for name in ("stored", "preset", "peak_memory", "finished"):
        del old[name]
    strange = json.loads(image_record().line()) | {"experiment": "mine", "preset": "nightly"}
    (tmp_path / "records.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in (old, strange)))
    assert cli.main(["report", str(tmp_path)]) == 0
    html = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert '<span class="badge">Nightly</span>' in html and "There is no description of this experiment here" in html
    assert '<span class="badge">Manual overrides</span>' in html


def test_a_folder_that_cannot_be_written_ends_in_one_line(runs, tmp_path):
    (tmp_path / "file").write_text("")
    ends_with(["report", str(runs), "--out", str(tmp_path / "file")], "file")


def test_markdown_tables_are_tables():
    text = markdown_page.render(chapters.make_chapters(bare(image_records(seeds=(0, 1)))), "Results", "x")
    tables = re.findall(r"((?:^\|.*\n)+)", text, flags=re.MULTILINE)
    # Four and what is better than the paper's for each of two presets, the paper's tables, and counts of all.
    assert len(tables) == 2 * 5 + 2
    for table in tables:
        assert len({line.replace("\\|", "").count("|") for line in table.splitlines()}) == 1


RESULTS = ROOT / "experiments" / "results"


def test_the_pages_of_results_are_those_of_the_committed_records(monkeypatch):
    # Drawing would be most of the time, and figures are not compared.
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: file.write("<svg></svg>"))
    command = "singularbayes-experiments report experiments/results --markdown docs/results"
    records = read_records.read(RESULTS)
    comparison, more = modes_section.compare(RESULTS, records), cifar10.own_page(RESULTS)
    made = markdown_page.pages(chapters.make_chapters(records), records, command, comparison, more)
    folder = ROOT / "docs" / "results"
    assert {path.name for path in folder.glob("*.md")} == made.keys()
    for name, text in made.items():
        assert (folder / name).read_text(encoding="utf-8") == text, f"Type: {command}"
    assert made["index.md"].count("\n") <= 200


def test_arrays_of_made_up_records_are_probabilities():
    p = image_record().arrays["test_mean"]
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)
