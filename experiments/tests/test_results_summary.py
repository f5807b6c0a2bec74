"""The summary of results: its differences, its bold and its sentences are those of the records."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats
from singularbayes_experiments.problems.modes import SETS
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import (
    markdown_page,
    modes_figure,
    modes_page,
    modes_sentences,
    modes_summary,
    page,
    summary,
)
from singularbayes_experiments.runs.modes_tables import difference, verdicts

ROOT = Path(__file__).parents[2]


def runs(experiment: str, method: str, nll, ood=None, parameters: int = 10) -> list[Record]:
    pairs = zip(nll, ood or [None] * len(nll), strict=True)
    return [
        Record(
            experiment,
            method,
            seed,
            {},
            {"nll": one} | ({} if other is None else {"fashion_mnist/auroc_ood_mi": other}),
            parameters,
            1.0,
            versions={},
            machine={},
            preset="chosen",
        )
        for seed, (one, other) in enumerate(pairs)
    ]


@pytest.fixture
def records():
    return [
        *runs("mnist", "deterministic", (0.30, 0.31, 0.33), parameters=1000),
        *runs("mnist", "deep_ensemble", (0.20, 0.22, 0.21), (0.8, 0.8, 0.82), parameters=5000),
        *runs("mnist", "low_rank", (0.305, 0.300, 0.340), (0.9, 0.6, 0.9), parameters=100),
        *runs("mnist", "low_rank_ensemble", (0.10, 0.12, 0.11), (0.7, 0.7, 0.71), parameters=500),
    ]


def test_the_best_is_bold_only_where_every_paired_interval_excludes_zero(records):
    (scores,) = summary.collect(records)
    assert scores.best("nll", higher=False) == "low_rank_ensemble"  # ahead of every other by .1 with every seed
    assert scores.best("fashion_mnist/auroc_ood_mi", higher=True) is None  # one seed of low-rank is at .6
    assert (
        scores.cell("low_rank_ensemble")
        .replace("\u00a0", " ")
        .startswith("**0.1100** ± 0.0058<br>0.703 ± 0.003<br>500")
    )
    assert scores.cell("full_rank") == "–"


def test_a_difference_is_the_paired_t_interval_of_the_seeds_that_both_have(records):
    (scores,) = summary.collect([one for one in records if (one.method, one.seed) != ("low_rank", 1)])
    found = scores.difference("low_rank", "deterministic", "nll")
    differences = np.array([0.005, 0.010])
    half = stats.t.ppf(0.975, 1) * differences.std(ddof=1) / np.sqrt(2)
    np.testing.assert_allclose([found.mean, found.high], [0.0075, 0.0075 + half], atol=2e-6)
    assert scores.difference("low_rank", "full_rank", "nll") is None


def test_the_sentence_counts_and_the_losses_are_listed(records):
    scores = summary.collect(records)
    sentence = summary.headline(scores)
    assert "than a deep ensemble of five on 1 of 1 data sets and a higher one on 0, with 10 to 10 %" in sentence
    assert "deterministic network on 0 of 1 and a higher one on 0" in sentence
    (lost,) = summary.losses(scores)
    assert lost.startswith("- [MNIST](mnist.md): low-rank ensemble of 5 against deep ensemble of 5, AUROC-OOD −0.103 [")


def test_a_page_has_the_paired_differences_and_a_word_on_the_right_side_of_zero(records):
    (scores,) = summary.collect(records)
    heads, _, alone, alone_ood, modes, modes_ood = summary.differences(scores)
    assert heads == "| | deep ensemble of 5 | full-rank | deterministic |"
    assert alone.startswith("| low-rank, NLL | +0.1050 [") and "] worse | – | +0.0017 [" in alone
    assert "better" not in alone + alone_ood and "worse" not in alone_ood
    assert modes.count("] better") == 2 and "−0.1000 [−0.1000, −0.1000] better | – | −0.2033 [" in modes
    assert modes_ood.startswith("| low-rank ensemble of 5, AUROC-OOD | −0.1033 [") and "] worse | – | – |" in modes_ood


def test_tuning_runs_and_other_presets_do_not_count(records):
    other = [Record(**{**vars(one), "preset": "paper"}) for one in records]
    assert summary.collect(other) == []
    assert summary.headline([]) == "There are no tuned runs of low-rank ensembles and deep ensembles to compare."


def test_the_comparison_under_the_protocol_has_the_differences_of_its_own_tables():
    folder = ROOT / "experiments" / "results"
    scores = modes_summary.collect(folder)
    records = modes_summary.final_results(modes_summary.read_lines([folder / "modes"]))
    assert len(scores) == 16
    for each in scores:
        found = each.difference("mixture_repeat", "deep_ensemble", "nll")
        own = difference(records, each.data.experiment, "mixture_repeat")
        np.testing.assert_allclose([found.mean, found.low, found.high], [own.mean, own.low, own.high])
    counts = [len(names) for names in verdicts(records, "mixture_svd").values()]
    assert "better on {}, level on {} and worse on {}".format(*counts) in modes_sentences.headline(scores)[0]
    said = modes_sentences.sentence(scores)
    assert "an SVD-initialised one is better on {0}, worse on {2} and level on {1}".format(*counts) in said
    ratios = [each.cost["mixture_svd"] for each in scores]
    assert f"{min(ratios):.2g} to {max(ratios):.2g} times the multiplications" in said
    assert [line.count("not run") for line in modes_summary.table(scores)[2:]] == [0] * 16
    lost = modes_summary.losses(scores)
    assert lost[1].endswith("NLL naval propulsion +0.217; AUROC-OOD nowhere")
    assert lost[3].endswith("NLL nowhere; AUROC-OOD SST-2 −0.033")
    assert "0.2108 (deep ensemble of 5), 0.2379 (full-rank)" in modes_summary.pointer(scores[3])


def test_the_figure_has_every_paired_difference_and_fills_those_whose_interval_excludes_zero():
    scores = modes_summary.collect(ROOT / "experiments" / "results")
    axes = Figure().subplots()
    modes_figure.draw_differences(axes, scores, "nll")
    drawn = axes.containers[1:]  # the first of a method is its entry in the legend
    points = [each for each in drawn if len(each.lines[0].get_xdata())]
    found = [
        (row, one.difference(name, "deep_ensemble", one.data.nll))
        for name in modes_figure.OURS
        for row, one in enumerate(scores)
        if one.runs.get(name)
    ]
    assert len(points) == len(found) == 3 * len(scores)
    for point, (row, one) in zip(points, found, strict=True):
        mean = point.lines[0]
        ends = point.lines[2][0].get_segments()[0][:, 0]
        np.testing.assert_allclose([*mean.get_xdata(), *ends], [one.mean, one.low, one.high], rtol=1e-9)
        assert round(float(mean.get_ydata()[0])) == row
        assert (mean.get_markerfacecolor() != "white") == (one.low > 0 or one.high < 0)


def test_rounds_that_do_not_count_are_marked_and_named():
    """‡: the method has a lower NLL in an incomplete round, or is the best only without one."""
    scores = {each.data.experiment: each for each in modes_summary.collect(ROOT / "experiments" / "results")}
    assert {name for name, each in scores.items() if each.incomplete} == {"cnn"}
    assert scores["cnn"].incomplete["deep_ensemble"] < scores["cnn"].mean("deep_ensemble", "nll")
    assert "‡" in modes_summary.cell(scores["cnn"], "deep_ensemble")
    assert "‡" not in modes_summary.cell(scores["cnn"], "mixture_svd") + modes_summary.cell(scores["sst2"], "low_rank")
    lower = dataclasses.replace(scores["cnn"], incomplete={"deep_ensemble": 0.19})
    assert "‡" in modes_summary.cell(lower, "mixture_svd")
    said = " ".join(modes_sentences.headline(list((scores | {"cnn": lower}).values())))
    assert "Of these, deep ensemble of 5 is below the best of the table, the SVD-initialised mixture of 5" in said
    lines = " ".join(modes_sentences.headline(list(scores.values())))
    assert "None of these is below the best of the table" in lines
    assert "validation chose in the first round has 0.386, below the mixture of 5 (0.392) and the SVD-" in lines


def test_pairs_of_intensive_care_are_counted_by_shift_and_by_seed():
    scores = modes_summary.collect(ROOT / "experiments" / "results")
    [care] = [each for each in scores if each.data.experiment == "icu"]
    found = dict(modes_sentences.pairs_of_care(scores))["mixture_repeat"]
    own = care.difference("mixture_repeat", "deep_ensemble", "nll")
    np.testing.assert_allclose([found[0].mean, found[0].low], [own.mean, own.low])
    np.testing.assert_allclose([each.mean for each in found], own.mean)
    ours, theirs = (care.runs[name] for name in ("mixture_repeat", "deep_ensemble"))
    seeds = sorted({str(key).split()[1] for key in ours})
    means = [
        np.mean([ours[key].metrics["nll"] - theirs[key].metrics["nll"] for key in ours if str(key).split()[1] == seed])
        for seed in seeds
    ]
    half = stats.t.ppf(0.975, len(seeds) - 1) * np.std(means, ddof=1) / np.sqrt(len(seeds))
    np.testing.assert_allclose([found[2].low, found[2].high], [np.mean(means) - half, np.mean(means) + half], atol=2e-6)


def test_the_page_in_one_file_opens_with_the_summary_of_the_site():
    """One sentence, the table with detectors that need no network, the figure, losses; links stay inside the page."""
    modes = modes_summary.collect(ROOT / "experiments" / "results")
    simple = [Record("mnist", "more_pixels", 0, {}, {"fashion_mnist/auroc_ood": 0.9}, 0, 0.0, preset="simple")]
    more = {
        "cifar10.md": markdown_page.OwnPage("# CIFAR-10\n\nSee [MNIST](mnist.md).", ["- [CIFAR-10](cifar10.md): +1"])
    }
    opening = page.opening([], simple, modes, more)
    html = page.render([], page.results("x"), opening)
    first = html.index('<section id="summary"')
    assert first < html.index("In one sentence:") < html.index("<table>") < html.index("<figure><svg")
    assert html.index("<figure><svg") < html.index("Where it loses") < html.index('<section id="cifar10"')
    row = next(line for line in modes_summary.table(modes, simple) if line.startswith("| MNIST"))
    cells = [cell.replace("**", "") for cell in row.strip("| ").split(" | ")]
    plain = html.replace("<strong>", "").replace("</strong>", "")
    assert cells[-1] == "non-zero pixels<br>0.900" and all(f">{cell}</td>" in plain for cell in cells)
    assert '<a href="#cifar10">CIFAR-10</a>' in html and not re.search('href="[^#]', html)


def test_rows_of_detectors_stand_below_the_column_that_they_detect():
    made = [
        Record("mnist", "max_softmax", seed, {}, {"notmnist/auroc_ood": value}, 0, 0.0, preset="simple")
        for seed, value in enumerate((0.8, 0.9))
    ]
    (row,) = modes_page.detector_rows(SETS["mnist"], made)
    assert row == "| max-softmax of the deterministic network |  |  |  |  |  |  | .850 ± .050 |  |"


def test_a_folder_without_that_comparison_has_no_such_rows(tmp_path):
    assert modes_summary.collect(tmp_path) == []


def test_sentences_of_the_pages_count_as_the_records_do():
    number = {1: "one", 2: "two", 5: "five", 6: "six", 7: "seven", 9: "nine", 10: "ten", 16: "sixteen"}
    records = modes_summary.final_results(modes_summary.read_lines([ROOT / "experiments" / "results" / "modes"]))
    found = {
        method: verdicts(records, method) for method in ("mixture_repeat", "mixture_svd", "mixture_split", "low_rank")
    }
    counts = {m: {side: number.get(len(sets), len(sets)) for side, sets in one.items()} for m, one in found.items()}
    totals = {m: number[sum(map(len, one.values()))] for m, one in found.items()}
    repeat, svd = counts["mixture_repeat"], counts["mixture_svd"]
    text = modes_summary.collect(ROOT / "experiments" / "results")[0]
    assert found["mixture_svd"]["worse"] == ["naval_propulsion_plant"]
    assert found["mixture_repeat"]["worse"] == ["mnist", "cnn"]
    said = {
        "README.md": [f"behind the ensemble on {counts['low_rank']['worse']} of {totals['low_rank']} sets"],
        "docs/mixtures.md": [
            f"on {counts['mixture_split']['worse']} of {totals['mixture_split']} data sets",
            f"behind on {repeat['worse']}. Write",
            f"on {totals['mixture_repeat']} data sets",
        ],
        "docs/mixture_results.md": [
            f"has a dev NLL of {text.given_up['deep_ensemble']:.3f}.".replace("0.", "."),
            f"chose another, which has {text.mean('deep_ensemble', 'nll'):.3f}.".replace("0.", "."),
            f"worse on {counts['low_rank']['worse']} of {totals['low_rank']} sets",
            f"`split` on {counts['mixture_split']['worse']} of {totals['mixture_split']}",
        ],
        "docs/migrate/deep_ensembles.md": [
            f"on {svd['better']} of {totals['mixture_svd']} data sets",
            f"better on {repeat['better']}, level on {repeat['level']} and worse on {repeat['worse']}",
        ],
        "docs/choose.md": [
            f"than a deep ensemble of five in NLL on {repeat['better']} of {totals['mixture_repeat']} data sets",
            f"level on {repeat['level']}, worse on {repeat['worse']} (MNIST, a small CNN)",
            f"on {svd['better']} of {totals['mixture_svd']} sets, worse on naval",
            f"on {counts['mixture_split']['worse']} of {totals['mixture_split']} sets",
        ],
    }
    for name, sentences in said.items():
        text = " ".join((ROOT / name).read_text(encoding="utf-8").split())
        assert [sentence for sentence in sentences if sentence not in text] == [], name
