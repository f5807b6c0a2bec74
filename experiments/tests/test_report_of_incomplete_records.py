"""What pages say where runs are missing or diverged: made-up records, and the committed ones with a part taken away."""

import gzip
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from pages import RESULTS
from singularbayes_experiments.cli import app as cli
from singularbayes_experiments.problems.modes import SETS
from singularbayes_experiments.records import record
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import (
    adapter_tables,
    chapters,
    cifar10_differences,
    cifar10_scores,
    detectors,
    markdown_page,
    modes_care,
    modes_disclosures,
    modes_rounds,
    modes_section,
    modes_sentences,
    modes_summary,
    page,
    remarks,
    summary,
    summary_page,
)
from singularbayes_experiments.report.earlier_runs import earlier_runs
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import by_run, final_results


def run(experiment, method, seed=0, preset="chosen", settings=None, **metrics):
    named = {name.replace("__", "/"): value for name, value in metrics.items()}
    return Record(experiment, method, seed, settings or {}, named, 10, 1.0, versions={}, machine={}, preset=preset)


def made_up(data, rounds=None, **nll):
    """Scores from the NLL of each method, one per seed; None is a run that diverged."""
    runs = {
        method: {
            seed: run(data.experiment, method, seed, **({} if one is None else {data.nll: one}))
            for seed, one in enumerate(values)
        }
        for method, values in nll.items()
    }
    return summary.Scores(data, runs, rounds=rounds or {})


MNIST, TOY = summary.DataSet("mnist", "MNIST", "nll"), summary.DataSet("toy", "toy regression", "nll")
ENSEMBLE, MIXTURE, WORSE = (0.30, 0.31, 0.32), (0.20, 0.211, 0.22), (0.40, 0.411, 0.42)


@pytest.fixture
def rounds(monkeypatch):
    """A data set with three rounds, of which two count; every round chooses a configuration of its own name."""
    monkeypatch.setattr(modes_rounds, "chosen", lambda records, one, method, number: f"round {number}")
    monkeypatch.setattr(modes_rounds, "rounds_of", lambda records, one: 2)
    monkeypatch.setattr(modes_rounds, "round_of", lambda one, name: int(name.split()[1]))

    def made(**nll):
        """Records of the ensemble, from the NLL of `last`, `given_up` and `incomplete`; None diverged."""
        number = {"given_up": 1, "last": 2, "incomplete": 3}
        return {
            ("yacht", "results", "deep_ensemble", f"round {number[which]}", seed): {} if one is None else {"nll": one}
            for which, values in nll.items()
            for seed, one in enumerate(values)
        }

    def choose(**names):
        monkeypatch.setattr(modes_rounds, "choices", lambda records, one: {"deep_ensemble": "round 2", **names})

    choose()
    return made, choose


def test_a_round_with_a_run_that_diverged_has_no_mean(rounds):
    (made, choose), one, method = rounds, replace(SETS["yacht"], rounds=3), ["deep_ensemble"]
    finite = made(last=(0.3, 0.3), given_up=(0.2, 0.2), incomplete=(0.1, 0.1))
    assert modes_rounds.incomplete(finite, one, method)["deep_ensemble"].mean == 0.1
    assert modes_rounds.given_up(finite, one, method)["deep_ensemble"].mean == 0.2
    diverged = made(last=(0.3, 0.3), given_up=(0.2, None), incomplete=(None, 0.1))
    assert math.isnan(modes_rounds.runs_of(diverged, one, "deep_ensemble", "round 1")[1])
    assert modes_rounds.incomplete(diverged, one, method) == modes_rounds.given_up(diverged, one, method) == {}
    lost = made(last=(0.3, None), given_up=(0.2, 0.2))
    assert modes_rounds.given_up(lost, one, method) == {}
    choose(mixture_svd="round 1")
    assert modes_rounds.other_start(finite, one, "mixture_svd", "deep_ensemble").mean == 0.2
    assert modes_rounds.other_start(diverged, one, "mixture_svd", "deep_ensemble") is None


def test_a_method_with_a_run_that_diverged_is_called_so_and_its_data_set_is_named_among_the_counts():
    scores = [
        made_up(MNIST, deep_ensemble=ENSEMBLE, mixture_repeat=MIXTURE),
        made_up(TOY, deep_ensemble=ENSEMBLE, mixture_repeat=(0.2, None, 0.2)),
    ]
    assert modes_summary.cell(scores[1], "mixture_repeat") == "diverged"
    assert modes_summary.cell(scores[1], "low_rank") == "not run"
    assert not modes_summary.is_marked(scores[1], "mixture_repeat")
    found = summary.verdicts(scores, "mixture_repeat", "deep_ensemble")
    assert found == {"better": ["MNIST"], "worse": [], "level": [], summary.NO_INTERVAL: ["toy regression"]}
    words = "better on 1, level on 0, worse on 0 and without an interval on 1 (toy regression)"
    assert modes_summary.count_sides(scores, "mixture_repeat") == words
    assert words in modes_sentences.sentence(scores)
    nan = made_up(TOY, deep_ensemble=ENSEMBLE, mixture_repeat=(0.2, math.nan, 0.2))
    assert modes_summary.cell(nan, "mixture_repeat") == "diverged"
    assert nan.difference("mixture_repeat", "deep_ensemble", "nll") is None


def test_a_method_without_runs_has_not_fewer_rounds_and_an_older_run_has_the_metric_of_its_data_set():
    rounds = {"deep_ensemble": 2, "mixture_repeat": 2, "full_rank": 1}
    scores = made_up(TOY, rounds, deep_ensemble=ENSEMBLE, mixture_repeat=MIXTURE, full_rank=WORSE, low_rank=())
    assert not modes_summary.has_fewer_rounds(scores, "low_rank")  # all its configurations diverged
    older = [run("toy", name, seed, nll_near=-1.5) for name in ("full_rank", "deterministic") for seed in (0, 1)]
    said = modes_disclosures._fewer([scores], older)
    assert said == (
        " On toy regression full-rank had 1 of 2 rounds: its NLL is 0.410; an older run, with other settings, has "
        "−1.500."
    )
    lost = made_up(TOY, rounds, deep_ensemble=ENSEMBLE, full_rank=(0.4, None))
    assert modes_disclosures._fewer([lost], []).endswith("1 of 2 rounds: one of its runs diverged.")


@pytest.fixture(scope="module")
def lines():
    return read_lines([RESULTS / "modes"])


@pytest.mark.parametrize(
    ("experiment", "stored", "method"),
    [("mnist", "mnist", "mixture_repeat"), ("sst2", "sst2", "deep_ensemble"), ("icu", "icu_eicu", "mixture_svd")],
)
def test_the_pages_are_made_though_a_run_diverged(lines, experiment, stored, method):
    seed = min(one["seed"] for one in lines if one["set"] == stored and one["stage"] == "results")
    kept = ("set", "stage", "method", "configuration", "seed", "settings", "parameters", "products")
    changed = [
        {name: one[name] for name in kept if name in one}
        if (one["set"], one["stage"], one["method"], one["seed"]) == (stored, "results", method, seed)
        else one
        for one in lines
    ]
    final, scores = final_results(changed), modes_summary.scores_of(changed)
    assert len(scores) == 16
    [own] = [each for each in scores if each.data.experiment == experiment]
    if experiment == "icu":
        assert {name for name, _ in modes_care.pairs_of_care(final)} == {
            "deterministic", "full_rank", "low_rank", "mixture_repeat",
        }  # fmt: skip
    else:
        assert modes_summary.cell(own, method) == "diverged"
    sections = {}
    if method != "deep_ensemble":  # `runs.modes_tables` has no table then
        sections = modes_section.sections(by_run(changed), final, scores, [])
        assert "nan" not in sections[experiment].text
    comparison = modes_section.Comparison(scores, scores, final, sections)
    text = "\n".join(summary_page.opening([], comparison) + summary_page.disclosed([], [], comparison))
    assert "diverged" in text and "nan" not in text


def test_the_last_run_is_that_with_the_greatest_number(tmp_path):
    for number in (1, 2, 10):
        name = "records.jsonl.gz" if number == 1 else f"records_{number}.jsonl.gz"
        (tmp_path / name).write_bytes(gzip.compress(f'{json.dumps({"number": number})}\n{{"cut'.encode()))
    assert modes_section.read_runs(tmp_path) == [[], [{"number": 1}], [{"number": 2}], [{"number": 10}]]


# CIFAR-10


def of_cifar10(method, seed, nll, **more):
    scores = {"accuracy": 0.9, "nll": nll, "ece": 0.01}
    return {
        "stage": "result", "network": "resnet20", "method": method, "held_out": False, "seed": seed,
        "diverged": nll is None, "parameters": 10, "test": scores, "corrupted": scores, **more,
    }  # fmt: skip


def test_a_run_of_the_fourth_round_that_diverged_is_not_replaced_by_the_thirds(tmp_path):
    third = [of_cifar10("mixture", seed, 0.3) for seed in (0, 1)]
    fourth = [of_cifar10("mixture", 1, None), of_cifar10("mixture", 2, 0.4)]
    for name, records in (("third", third), ("fourth", fourth)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "records.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in records))
    pooled = cifar10_scores.read_round(tmp_path, cifar10_scores.FOURTH)
    assert cifar10_scores.scores(pooled, "resnet20", "mixture", "test", "nll") == {0: 0.3, 2: 0.4}


def test_a_small_negative_difference_keeps_its_sign():
    ours, theirs = np.array([0.2, 0.3, 0.4]) - 2e-4, np.array([0.2, 0.3, 0.4])
    assert cifar10_differences.Difference(tuple(ours), tuple(theirs)).cell().startswith("−0.000 [−0.000, −0.000]")


def test_one_seed_has_no_standard_error():
    assert adapter_tables.mean_cell([0.25]) == ".250" and adapter_tables.mean_cell([]) == "–"


# Remarks and detectors


def icu_runs():
    shared = {"nll": 0.3, "auroc": 0.8, "unweighted_nll": 0.4, "auroc_ood_mi": 0.6}
    runs = [run("icu", "low_rank", preset=preset, **shared) for preset in ("chosen", "paper", "hand")]
    return [*runs, run("icu", "deep_ensemble", **shared)]


def test_a_remark_needs_the_runs_that_it_speaks_of_and_no_others():
    assert remarks.remarks([]) == {}
    found = remarks.remarks([*icu_runs(), run("toy", "low_rank", iqr_ratio=2.0)])
    assert found.keys() == {"icu"} and "low-rank has an NLL of 0.300" in found["icu"]
    assert remarks.remarks(icu_runs()[:1]) == {}
    ours = {"a__rmse": 1.0, "a__nll": 1.0}
    uci = [run("uci", "low_rank", settings={"sets": ["a"]}, **ours), run("uci", "full_rank", a__rmse=2.0, a__nll=0.5)]
    assert remarks.remarks(uci) == {}
    assert "on 1 of 1 data sets" in remarks.remarks([*uci, run("uci", "deep_ensemble", **ours)])["uci"]


def simple_runs():
    return [
        run("sst2", "text_length", preset="simple", auroc_ood=0.9),
        run("beijing", "dew_point", preset="simple", auroc_ood=0.8),
    ]


def test_the_papers_pairs_are_spoken_of_where_both_have_a_number_without_a_network():
    said = detectors.paper_pairs(detectors.Means(simple_runs()))
    assert "(without a network: longer text 0.900)" in said and "(higher dew point 0.800)" in said
    assert detectors.paper_pairs(detectors.Means(simple_runs()[:1])) == ""


def test_an_auroc_of_0_is_a_detector_that_is_right_the_other_way_round():
    means = detectors.Means([run("sst2", "text_length", preset="simple", clinc150__auroc_ood=0.0)])
    assert "shorter text 1.000" in "\n".join(detectors.other_pairs_table(means))


# Pages


OWN = summary_page.OwnPage("# CIFAR-10\n\nText.", ["- it loses"], "a remark", ("CIFAR-10", ["a disclosure"]))


def test_a_folder_with_a_page_of_its_own_alone_has_its_remark_losses_and_disclosures():
    more = {"cifar10.md": OWN}
    text = markdown_page.pages([], [], "x", more=more)["index.md"]
    assert "- a remark" in text and "- it loses" in text and "(disclosures.md)" in text
    html = page.render([], page.results("x"), page.opening([], [], modes_section.Comparison(), more))
    assert '<section id="cifar10"' in html and "a disclosure" in html and "it loses" in html


def test_the_page_in_one_file_has_the_caveats_of_the_pages():
    records = [
        *icu_runs(),
        *(run("icu", name, seed, nll=0.3 + 0.1 * seed) for name in ("low_rank", "deep_ensemble") for seed in (1, 2)),
        *(run("uci", "low_rank", seed, settings={"sets": ["a"]}, a__nll=1.0, a__rmse=1.0) for seed in (0, 1)),
    ]
    made = chapters.make_chapters(records)
    newer = {"icu": "Newer results.", "uci": "Newer results."}
    opening = page.Opening("summary", sections=newer, earlier=earlier_runs(made, records), dated=True)
    html = page.render(made, page.results("x"), opening)
    care, uci = (html.split(f'<section id="{name}">')[1].split("</section>")[0] for name in ("icu", "uci"))
    assert "<h3>Earlier runs, and the paper's settings</h3>".replace("'", "&#39;") in care
    assert "<h3>Earlier runs</h3>" in uci and "Paired differences" not in uci
    assert "they do not follow it" in care and "they do not follow it" in uci
    assert "With tuned settings low-rank has an NLL of 0.4" in care
    [row] = [line for line in summary.differences(summary.collect(records)[0]) if line.startswith("| low-rank, NLL")]
    assert all(f">{cell}</td>" in care for cell in row.strip("| ").split(" | ")[1:])
    assert care.index("they do not follow it") < care.index("<details>") < care.index("Paired differences")
    plain = page.render(made, page.results("x"), page.opening(made, records, modes_section.Comparison(), {}))
    assert "With tuned settings low-rank has an NLL of 0.4" in plain and "they do not follow it" not in plain


def test_without_the_paper_no_page_has_its_numbers(tmp_path):
    bands = {"iqr_ratio": 2.5, "iqr_published_ratio": 1.5}
    toy = [run("toy", "low_rank", preset=preset, **bands) for preset in ("chosen", "paper")]
    toy += [run("toy", name, seed, **bands) for name in ("low_rank_ensemble", "deep_ensemble") for seed in (1, 2)]
    (tmp_path / "runs").mkdir()
    record.write(toy, tmp_path / "runs")
    for paper in ([], ["--no-paper"]):
        arguments = ["report", str(tmp_path / "runs"), *paper]
        assert cli.main([*arguments, "--markdown", str(tmp_path / f"pages{len(paper)}")]) == 0
        assert cli.main([*arguments, "--out", str(tmp_path / f"page{len(paper)}")]) == 0
    with_paper, without = (
        {path.name: path.read_text(encoding="utf-8") for name in ("pages", "page") for path in
         (tmp_path / f"{name}{number}").iterdir()}
        for number in (0, 1)
    )  # fmt: skip
    assert with_paper.keys() - without.keys() == {"paper_tables.md"}
    assert "2.01" in with_paper["toy.md"] and "2.01" in with_paper["report.html"]
    for name, text in without.items():
        assert "2.01" not in text and "paper_tables.md" not in text and "Tables of the paper" not in text, name
        assert "1.50" in text or name not in ("toy.md", "report.html")
