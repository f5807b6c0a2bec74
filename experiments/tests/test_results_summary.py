"""The summary of results: its differences, its bold and its sentences are those of the records."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats
from singularbayes_experiments.problems.modes import SETS, SHIFTS
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report import (
    detectors,
    modes_care,
    modes_disclosures,
    modes_figure,
    modes_section,
    modes_sentences,
    modes_summary,
    page,
    read_records,
    summary,
    summary_page,
)
from singularbayes_experiments.report.picture import Panel
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import TUNING, by_run
from singularbayes_experiments.runs.modes_tables import difference, results

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "experiments" / "results"


@pytest.fixture(scope="module")
def earlier():
    return read_records.read(RESULTS)


@pytest.fixture(scope="module")
def comparison(earlier):
    return modes_section.compare(RESULTS, earlier)


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
    modes, alone = summary.losses(scores)
    assert modes.startswith(
        "- [MNIST](mnist.md): low-rank ensemble of 5 against deep ensemble of 5, AUROC-OOD −0.103 ["
    )
    assert alone.startswith("- [MNIST](mnist.md): low-rank against deep ensemble of 5, NLL +0.105 [")


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


def test_the_comparison_under_the_protocol_has_the_differences_of_its_own_tables(comparison):
    scores = comparison.scores
    assert len(scores) == 16
    for each in scores:
        found = each.difference("mixture_repeat", "deep_ensemble", "nll")
        own = difference(comparison.final, each.data.experiment, "mixture_repeat")
        np.testing.assert_allclose([found.mean, found.low, found.high], [own.mean, own.low, own.high])
    assert not any("not run" in line for line in modes_summary.table(scores))


def test_the_sentence_counts_problems_on_which_a_mixture_is_smaller_apart_from_small_tables(comparison):
    said = modes_sentences.sentence(comparison.scores)
    for smaller, words in ((True, "of the {n} problems"), (False, "of the {n} small tables")):
        own = [each for each in comparison.scores if modes_summary.is_smaller(each) is smaller]
        repeat, svd = (summary.verdicts(own, name, "deep_ensemble") for name in ("mixture_repeat", "mixture_svd"))
        assert words.format(n=len(own)) in said
        assert "better on {}, level on {} and worse on {}".format(*_counts(repeat)) in said
        assert ("{}, {} and {})" if smaller else "({}, {} and {}").format(*_counts(svd)) in said
        if smaller:
            shares = [each.parameters["mixture_repeat"] / each.parameters["deep_ensemble"] for each in own]
            assert f"({100 * min(shares):.0f} to {100 * max(shares):.0f} % of the ensemble's" in said


def _counts(found):
    return [len(found[side]) for side in ("better", "level", "worse")]


def test_every_loss_of_ours_is_listed_against_every_rival(comparison):
    """The interval of each pair is looked at again, from the runs."""
    lines = modes_summary.losses(comparison.scores)
    for ours in modes_summary.OURS:
        for rival in modes_summary.RIVALS:
            lost = []
            for each in comparison.scores:
                runs = [each.runs[name] for name in (ours, rival)]
                apart = np.array([runs[0][seed].metrics["nll"] - runs[1][seed].metrics["nll"] for seed in runs[0]])
                half = stats.t.ppf(0.975, len(apart) - 1) * apart.std(ddof=1) / len(apart) ** 0.5
                lost += [each.data.title] if apart.mean() - half > 0 else []
            start = f"- {modes_summary.METHODS[ours]} against {modes_summary.METHODS[rival]}: "
            line = next((line for line in lines if line.startswith(start)), "")
            nll = line.removeprefix(start).split("; lower AUROC-OOD")[0]
            assert [title for title in lost if f"{title} (+" in nll] == lost
            assert nll.count("(+") == len(lost), line


def test_a_seed_of_intensive_care_is_the_mean_over_its_shifts(comparison):
    own = results(comparison.final, "icu", "mixture_repeat")
    shifts = [results(comparison.final, f"icu_{shift}", "mixture_repeat") for shift in SHIFTS]
    for seed, one in own.items():
        assert one["nll"] == pytest.approx(np.mean([runs[seed]["nll"] for runs in shifts]))
    [care] = [each for each in comparison.scores if each.data.experiment == "icu"]
    assert care.runs["mixture_repeat"].keys() == own.keys() and len(own) == 4
    [old] = summary.collect(read_records.read(RESULTS / "icu.jsonl"))
    assert len(old.runs["low_rank"]) == 5  # of 25 runs


def test_the_figure_has_every_paired_difference_and_fills_those_whose_interval_excludes_zero(comparison):
    scores = comparison.scores
    axes = Figure().subplots()
    modes_figure.draw_differences(axes, scores, "nll")
    points = [each for each in axes.containers if len(each.lines[0].get_xdata())]  # others are entries of the legend
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


def test_rounds_that_do_not_count_are_marked_and_named(comparison):
    """‡: the method has a lower NLL in an incomplete round, or is the best only without one."""
    scores = {each.data.experiment: each for each in comparison.scores}
    assert {name for name, each in scores.items() if each.incomplete} == {"cnn"}
    assert scores["cnn"].incomplete["deep_ensemble"].mean < scores["cnn"].mean("deep_ensemble", "nll")
    assert "‡" in modes_summary.cell(scores["cnn"], "deep_ensemble")
    assert "‡" not in modes_summary.cell(scores["cnn"], "mixture_svd") + modes_summary.cell(scores["sst2"], "low_rank")
    other = {seed: 0.19 + 0.001 * i for i, seed in enumerate(scores["cnn"].runs["deep_ensemble"])}
    lower = dataclasses.replace(scores["cnn"], incomplete={"deep_ensemble": summary.OtherRound(2, other)})
    assert "‡" in modes_summary.cell(lower, "mixture_svd")
    title = "How the rounds of tuning change the numbers"
    said = " ".join(modes_sentences.details(list((scores | {"cnn": lower}).values()))[title])
    assert "Of these, deep ensemble of 5 is below the best of the table, the SVD-initialised mixture of 5" in said
    committed = " ".join(modes_sentences.details(comparison.scores)[title])
    assert "None of these is below the best of the table" in committed
    ours = {key: one.metrics["nll"] for key, one in scores["cnn"].runs["mixture_svd"].items()}
    apart = [nll - scores["cnn"].incomplete["deep_ensemble"].nll[key] for key, nll in ours.items()]
    half = stats.t.ppf(0.975, len(apart) - 1) * np.std(apart, ddof=1) / len(apart) ** 0.5
    interval = [f"{value:+.4f}".replace("-", "−") for value in (np.mean(apart) - half, np.mean(apart) + half)]
    assert (
        f"SVD-initialised mixture of 5 {np.mean(apart):+.4f} [{', '.join(interval)}]".replace(" -", " −") in committed
    )


def test_an_ensemble_at_which_a_mixture_starts_is_named_where_it_is_not_the_one_of_the_table(comparison, records):
    starts = {each.data.experiment: each.start for each in comparison.scores if each.start}
    assert {name: start.round for name, start in starts.items()} == {"sst2": 1, "kin8nm": 1}
    said = modes_sentences.other_starts(comparison.scores)
    for name, start in starts.items():
        [scores] = [each for each in comparison.scores if each.data.experiment == name]
        assert start.nll.keys() == scores.runs["mixture_svd"].keys()
        apart = np.mean([one.metrics["nll"] - start.nll[key] for key, one in scores.runs["mixture_svd"].items()])
        side = {"sst2": "level", "kin8nm": "better"}[name]
        shown = f"that has {start.mean:.3f}, and the mixture is {side}, {apart:+.3f}".replace("-", "−")
        assert shown in said
    assert modes_sentences.other_starts([dataclasses.replace(each, start=None) for each in comparison.scores]) == ""


def test_a_method_with_fewer_rounds_than_others_is_marked_and_its_older_run_is_named(comparison, earlier):
    marked = [(e.data.experiment, m) for e in comparison.scores for m in e.runs if modes_summary.has_fewer_rounds(e, m)]
    assert marked == [("sst2", "full_rank")]
    [text] = [each for each in comparison.scores if each.data.experiment == "sst2"]
    assert "§" in modes_summary.cell(text, "full_rank") and "§" not in modes_summary.cell(text, "low_rank")
    older = [o.metrics["nll"] for o in earlier if (o.experiment, o.method, o.preset) == ("sst2", "full_rank", "chosen")]
    said = " ".join(modes_disclosures.disclosures(comparison.scores, comparison.before, comparison.final, earlier))
    assert f"full-rank had 1 of 2 rounds: its NLL is {text.mean('full_rank', 'nll'):.3f}" in said
    assert f"with other settings, has {np.mean(older):.3f}." in said


def test_against_an_ensemble_that_validation_gave_up_the_counts_are_those_of_its_runs(records):
    """A made-up set: the mixture is .02 below the ensemble of the table, and above one of the first round."""
    nll = {"deep_ensemble": (0.30, 0.31, 0.32), "mixture_repeat": (0.28, 0.291, 0.30), "mixture_svd": (0.2, 0.21, 0.22)}
    made = {name: {r.seed: r for r in runs("mnist", name, values)} for name, values in nll.items()}
    data = summary.DataSet("mnist", "MNIST", "nll")
    one = summary.Scores(data, made, given_up={"deep_ensemble": summary.OtherRound(1, {0: 0.25, 1: 0.26, 2: 0.271})})
    assert modes_summary.count_sides([one], "mixture_repeat") == "better on 1, level on 0 and worse on 0"
    said = modes_sentences.in_hindsight([one])
    assert "On MNIST a later round of tuning replaced the ensemble" in said
    assert "mixture of 5 better on 0, level on 0 and worse on 1; SVD-initialised mixture of 5 better on 1" in said
    [line] = modes_sentences._given_up([one])
    assert "round 1 has 0.260, the one chosen after all rounds 0.310; the mixture of 5 is worse against the" in line
    assert "SVD" not in line and modes_sentences.in_hindsight([dataclasses.replace(one, given_up={})]) == ""


def test_older_runs_that_are_below_the_table_are_named_with_the_splits_of_the_table(comparison, earlier):
    said = " ".join(modes_disclosures.disclosures(comparison.scores, comparison.before, comparison.final, earlier))
    [yacht] = [each for each in comparison.scores if each.data.experiment == "yacht"]
    splits = {int(seed) - 1 for seed in yacht.runs["deep_ensemble"]}
    older = [one for one in earlier if (one.experiment, one.method, one.preset) == ("uci", "deep_ensemble", "chosen")]
    nll = np.mean([one.metrics["yacht/nll"] for one in older if one.seed in splits])
    assert f"yacht (deep ensemble of 5 {nll:.3f}, lowest of the table".replace("-", "−") in said
    line = modes_disclosures.beside_older_runs(comparison.scores, earlier)
    lower = (
        said.split("has a lower mean NLL than every method")[1].split(". These runs")[0].count("lowest of the table")
    )
    assert (
        f"on {lower} of the {len(comparison.scores)} problems, by most on yacht (deep ensemble of 5 {nll:.3f}".replace(
            "-", "−"
        )
        in line.replace("-", "−")
    )
    assert modes_disclosures.beside_older_runs(comparison.scores, []) == ""
    before = {name: modes_summary.count_sides(comparison.before, name) for name in ("mixture_repeat", "mixture_svd")}
    assert f"mixture of 5 {before['mixture_repeat']}; SVD-initialised mixture of 5 {before['mixture_svd']}" in said


def test_pairs_of_intensive_care_are_counted_by_seed_by_shift_and_by_run(comparison):
    [care] = [each for each in comparison.scores if each.data.experiment == "icu"]
    found = dict(modes_care.pairs_of_care(comparison.final))["mixture_repeat"]
    own = care.difference("mixture_repeat", "deep_ensemble", "nll")
    np.testing.assert_allclose([found[0].mean, found[0].low], [own.mean, own.low], atol=2e-6)
    np.testing.assert_allclose([each.mean for each in found], own.mean)
    apart = [
        [results(comparison.final, f"icu_{shift}", name)[seed]["nll"] for seed in care.runs["deep_ensemble"]]
        for name in ("mixture_repeat", "deep_ensemble")
        for shift in SHIFTS
    ]
    differences = np.array(apart[: len(SHIFTS)]) - np.array(apart[len(SHIFTS) :])
    for one, values in zip(found[1:], (differences.mean(axis=1), differences.ravel()), strict=True):
        half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
        np.testing.assert_allclose([one.low, one.high], [values.mean() - half, values.mean() + half], atol=2e-6)


def test_a_page_has_the_settings_that_were_chosen_and_how_many_were_tried(comparison):
    """Read back from the records: the learning rate of a result is that of its row."""
    tried = {key[:4] for key in by_run(read_lines([RESULTS / "modes"])) if key[1] == TUNING}
    for name in ("mnist", "sst2"):
        text = comparison.sections[name].text
        rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
        heads = next(row for row in rows if "learning rate" in row)
        settings = {row[0]: row for row in rows[rows.index(heads) + 1 :]}
        for method, words in (("deep_ensemble", "deep ensemble of 5"), ("mixture_repeat", "mixture of 5, repeat")):
            run = next(iter(results(comparison.final, name, method).values()))
            # The first cell of the head is empty and stripped.
            assert float(settings[words][heads.index("learning rate") + 1]) == run["settings"]["rate"]
            assert f"{run['settings']['epochs']}" == settings[words][heads.index("epochs") + 1]
        for method, words in (("deep_ensemble", "deep ensemble of 5"), ("full_rank", "full-rank")):
            count = sum(key[0] == name and key[2] == method for key in tried)
            assert settings[words][heads.index("configurations") + 1] == str(count)


def test_detectors_beside_the_methods_are_counted_as_the_table_shows_them(comparison, earlier):
    text = detectors.main_pairs(detectors.Means(earlier), comparison.scores, modes_summary.METHODS)
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    numbers = [[float(cell.split()[-1]) if cell != "–" else np.nan for cell in row[1:]] for row in rows]
    plain, distance = (np.array([row[i] for row in numbers]) for i in (0, 3))
    best = np.nanmax([row[4:] for row in numbers], axis=1)
    assert f"On {(plain >= best).sum()} of {len(rows)} pairs" in text
    assert f"on {((distance >= best) & (plain < best)).sum()} more the Mahalanobis" in text
    other = detectors.other_pairs(detectors.Means(earlier))
    cells = [line.strip("| ").split(" | ")[1:] for line in other.splitlines() if line.startswith("| ")][1:]
    values = np.array([[float(cell.split()[-1].rstrip("¹")) for cell in row] for row in cells])
    ahead = values[:, 4:].max(axis=1) < values[:, :4].max(axis=1)
    assert (values[:, 0] >= 0.5).all() and f"on {ahead.sum()} of {len(cells)}" in other


def test_the_page_in_one_file_opens_with_the_summary_of_the_site(comparison):
    """One sentence, the table with detectors that need no network, the figure, losses; links stay inside the page."""
    simple = [Record("mnist", "more_pixels", 0, {}, {"fashion_mnist/auroc_ood": 0.9}, 0, 0.0, preset="simple")]
    text = "# CIFAR-10\n\nSee [MNIST](mnist.md) and [rounds](#rounds).\n\n![words](own.svg)"
    own = summary_page.OwnPage(
        text, ["- [CIFAR-10](cifar10.md): +1"], figures={"own.svg": Panel("<svg></svg>", 'a "b"')}
    )
    more = {"cifar10.md": own}
    opening = page.opening([], simple, comparison, more)
    html = page.render([], page.results("x"), opening)
    first = html.index('<section id="summary"')
    assert first < html.index("In one sentence:") < html.index("<table>") < html.index("<figure>")
    assert html.index("<figure>") < html.index("Where it loses") < html.index('<section id="cifar10"')
    row = next(line for line in modes_summary.table(comparison.scores, simple, links=False) if "| MNIST" in line)
    cells = [cell.replace("**", "") for cell in row.strip("| ").split(" | ")]
    plain = html.replace("<strong>", "").replace("</strong>", "")
    assert cells[-1] == "<br>0.900<br>more non-zero pixels" and all(f">{cell}</td>" in plain for cell in cells)
    assert '<a href="#cifar10">CIFAR-10</a>' in html and not re.search('href="[^#]', html)
    assert set(re.findall('href="#([^"]*)"', html)) <= set(re.findall(' id="([^"]*)"', html))
    assert html.count("<figure>") == html.count('<figure><div class="panel" role="img" aria-label="') == 2
    assert 'aria-label="a &quot;b&quot;"' in html


def test_rows_of_detectors_stand_below_the_column_that_they_detect():
    made = [
        Record("mnist", "max_softmax", seed, {}, {"notmnist/auroc_ood": value}, 0, 0.0, preset="simple")
        for seed, value in enumerate((0.8, 0.9))
    ]
    (row,) = modes_section.detector_rows(SETS["mnist"], made)
    assert row == "| max-softmax of the deterministic network |  |  |  |  |  |  | 0.850\u00a0±\u00a00.050 |  |"


def test_a_folder_without_that_comparison_has_no_such_rows(tmp_path):
    assert modes_summary.collect(tmp_path) == [] and not modes_section.compare(tmp_path, [])
