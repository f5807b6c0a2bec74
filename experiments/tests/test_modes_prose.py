"""What pages written by hand say of the comparison of mixtures and of that on tables: each is counted from records."""

import json
import re

import numpy as np
import pytest
from pages import RESULTS, ROOT, WORDS, page
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.problems.modes import METHODS, NEWTON_SETS, SECOND, SETS
from singularbayes_experiments.problems.modes_grids import configurations, round_of
from singularbayes_experiments.problems.table_sets import CLASSIFICATION, REGRESSION
from singularbayes_experiments.report import finetune, modes_sentences, modes_summary, summary
from singularbayes_experiments.report.modes_rounds import choices_at_edges
from singularbayes_experiments.report.table_summary import OURS, OWN, Comparison, statements
from singularbayes_experiments.runs import modes_tables
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import RESULTS as OF_RESULTS
from singularbayes_experiments.runs.modes_records import (
    TUNING,
    Records,
    by_run,
    choices,
    chosen,
    final_results,
    rounds_of,
)
from singularbayes_experiments.runs.tables import KEPT, read_records

TUNED = [one for one in SETS.values() if one.tuned_on is None]  # the shifts of intensive care share their tuning


@pytest.fixture(scope="module")
def lines() -> list[dict]:
    return read_lines([RESULTS / "modes"])


@pytest.fixture(scope="module")
def records(lines) -> Records:
    return by_run(lines)


def named(names: list[str]) -> str:
    """Returns data sets as a page lists them."""
    shown = [modes_tables.name_of(name) for name in names]
    return " and ".join([", ".join(shown[:-1]), shown[-1]])


def test_verdicts_against_the_deep_ensemble_on_the_pages_of_choices(lines):
    final = final_results(lines)
    found = {
        method: modes_tables.verdicts(final, method) for method in ("mixture_repeat", "mixture_svd", "mixture_split")
    }
    count = {method: {side: WORDS[len(names)] for side, names in own.items()} for method, own in found.items()}
    repeat, svd, split = count.values()
    every = WORDS[sum(map(len, found["mixture_repeat"].values()))]
    assert set(found["mixture_repeat"]["worse"]) == {"mnist", "cnn"}
    assert found["mixture_svd"]["worse"] == ["naval_propulsion_plant"]
    choose, mixtures, migrate = map(page, ("docs/choose.md", "docs/mixtures.md", "docs/migrate/deep_ensembles.md"))
    problems = f"{every} problems (two use the same images)"  # Fashion-MNIST by an MLP and by a CNN
    said = f"on {repeat['better']} of {problems}, level on {repeat['level']}, worse on {repeat['worse']}"
    assert f"a deep ensemble of five in NLL {said} (MNIST, a small CNN)" in choose
    assert f"better than the ensemble in NLL on {svd['better']} of {every} problems" in choose
    assert f"behind the deep ensemble in NLL on {split['worse']} of {every} problems" in choose
    said = f"behind a deep ensemble's on {split['worse']} of {problems}, where that of five components that"
    assert f"{said} repeat is behind on {repeat['worse']}" in mixtures
    assert "a randomly initialised one on MNIST, with a small CNN and on [CIFAR-10]" in mixtures
    assert f"up to {WORDS[len(METHODS)]} methods, a deep ensemble among them, on {every} problems" in mixtures
    assert f"than the ensemble on {svd['better']} of {problems}, against the better" in migrate
    assert "and a higher one on naval; randomly initialised mixtures are" in migrate
    said = (
        f"better on {repeat['better']}, level on {repeat['level']} and worse on {repeat['worse']} (MNIST, a small CNN)"
    )
    assert said in migrate
    low = modes_tables.verdicts(final, "low_rank")
    results = page("docs/mixture_results.md")
    assert f"One low-rank network is worse on {WORDS[len(low['worse'])]} of {every} problems" in results
    assert f"`split` on {split['worse']} of {every}" in results


def test_what_the_page_of_mixtures_says_of_the_ensembles_on_sst2():
    [text] = [each for each in modes_summary.collect(RESULTS) if each.data.experiment == "sst2"]
    results = page("docs/mixture_results.md")
    assert f"has a dev NLL of {text.given_up['deep_ensemble'].mean:.3f}." in results
    assert f"chose another, which has {text.mean('deep_ensemble', 'nll'):.3f}." in results


def test_the_mixtures_that_were_compared_with_the_ensemble_are_tuned_ones(records):
    ranks, others = set(), set()
    for one in TUNED:
        for method in ("mixture_repeat", "mixture_svd"):
            every = configurations(one, method, one.rounds)
            assert len({(own.beta, own.scale) for own in every.values()}) > 1
            name = choices(records, one)[method]
            assert name
            ranks |= {every[name].rank or max(one.ranks)}
            others |= {(every[name].beta, every[name].scale)}
    assert max(ranks) == 36 and len(others) > 2
    choose, migrate = page("docs/choose.md"), page("docs/migrate/deep_ensembles.md")
    assert "*Tuned* mixtures of five, with ranks up to 36 and with β and prior chosen for each data set" in choose
    assert "*tuned* mixtures: ranks up to 36, β and prior chosen for each data set" in migrate
    protocol_page = page("docs/protocol.md")
    assert "Not covered by this evidence" in protocol_page and "and conversion of trained models" in protocol_page
    assert "This conversion with its defaults was compared with nothing" in choose
    assert "Conversion with its defaults, as above, was compared with nothing" in migrate


def test_sentences_beside_the_results_of_the_readme():
    scores = modes_summary.collect(RESULTS)
    readme = page("README.md")
    low = summary.verdicts(scores, "low_rank", "deep_ensemble")
    said = (
        f"one low-rank network on {WORDS[len(low['worse'])]} of {WORDS[len(scores)]} problems (two use the same images)"
    )
    assert said in readme and {"CNN (Fashion-MNIST)", "Fashion-MNIST"} < {each.data.title for each in scores}


def test_on_how_many_sets_of_the_readme_mixtures_are_better_and_worse():
    every = modes_summary.collect(RESULTS)
    shown = [each for each in every if each.data.experiment not in modes_summary.UCI]
    repeat, svd = (summary.verdicts(shown, name, "deep_ensemble") for name in ("mixture_repeat", "mixture_svd"))
    said = f"on {len(repeat['better'])} of {len(shown)} problems, above on {len(repeat['worse'])}; SVD-initialised, on"
    assert f"{said} [{len(svd['better'])} and {len(svd['worse'])}](#results)" in page("README.md")
    changed = sum("deep_ensemble" in each.given_up for each in every)
    strict = [modes_sentences._with_earlier_ensemble(each) for each in every]
    repeat, svd, low = (
        [len(summary.verdicts(own, name, "deep_ensemble")["better"]) for own in (strict, every)]
        for name in ("mixture_repeat", "mixture_svd", "low_rank")
    )
    said = (
        f"On {WORDS[changed]} a later round of tuning replaced the ensemble by one worse on test data. Against the "
        f"better of the two a mixture is better on {{}} of all {len(every)}, not {{}}, an SVD-initialised one on {{}}, "
        "not {}, low-rank on {}, not {}."
    )
    assert said.format(*repeat, *svd, *low) in page("README.md")
    choose, migrate = page("docs/choose.md"), page("docs/migrate/deep_ensembles.md")
    said = "against the better of the ensemble's [earlier and final choices]"
    assert f"{said}(results/index.md) on {WORDS[svd[0]]};" in choose
    assert f"{said}(../results/index.md) on {WORDS[svd[0]]}, and" in migrate
    four, five = (WORDS[count] for count in repeat)
    assert f"{said}(results/index.md) better on {four}, not {five}." in choose
    assert f"against that better choice on {four}, not {five}." in migrate


def test_at_which_ensembles_svd_initialised_mixtures_start(records):
    earlier = []
    for one in TUNED:
        names = choices(records, one)
        start = chosen(records, one, "deep_ensemble", round_of(one, names["mixture_svd"] or ""))
        earlier += [one.name] if start != names["deep_ensemble"] else []
    said = f"on {named(earlier)} that is an earlier one than the one it is compared with"
    assert said in page("docs/mixture_results.md")


def test_for_how_many_epochs_networks_train_on_text():
    text = SETS["sst2"]
    epochs = {
        method: [
            {own.epochs for own in configurations(text, method, rounds).values()}
            for rounds in range(1, text.rounds + 1)
        ]
        for method in text.methods
        if METHODS[method].kind != "deterministic"
    }
    assert epochs.pop("mixture_svd") == [{6}, {6, 3}]
    assert all(found == [{8}, {8, 4}] for found in epochs.values())
    said = (
        "variational networks train for 8 epochs, SVD-initialised ones for 6; the second round tried half of that too"
    )
    assert said in page("docs/mixture_results.md")


def test_where_ivon_is_ahead_of_adam(lines):
    final = final_results(lines)
    found = {}
    for one in SETS:
        ours, theirs = (modes_tables.results(final, one, method) for method in ("ivon", "low_rank"))
        if ours and all("nll" in run and np.isfinite(run["nll"]) for run in ours.values()):
            found[one] = np.mean([run["nll"] for run in ours.values()]) - np.mean(
                [run["nll"] for run in theirs.values()]
            )
    assert [one for one, difference in found.items() if difference < 0] == ["concrete"]
    beside = modes_tables.difference(final, "concrete", "ivon", "low_rank")
    assert beside is not None and beside.low < 0 < beside.high
    assert "Of the five its mean NLL is lower on concrete alone, where the interval reaches 0." in page(
        "docs/mixture_results.md"
    )
    others = WORDS[len(found.keys() - set(NEWTON_SETS))]
    said = f"on the other {others} [tables](results/uci.md) where it ran its mean NLL is higher than Adam's too"
    assert said in page("docs/mixture_results.md")
    assert "With rates of 0.03 and 0.1 it diverged on images" in page("docs/mixture_results.md")


def test_where_full_rank_is_ahead_of_one_low_rank_network():
    scores, text = modes_summary.collect(RESULTS), page("docs/choose.md")
    assert set(summary.verdicts(scores, "low_rank", "full_rank")["worse"]) == {"Fashion-MNIST", "CNN (Fashion-MNIST)"}
    assert "a lower NLL than one low-rank network on Fashion-MNIST and a small CNN" in text
    ratios = [each.parameters["full_rank"] / each.parameters["deterministic"] for each in scores]
    assert min(ratios) > 1.9 and max(ratios) < 2.1 and "full rank has twice the parameters of the plain network" in text


def test_on_the_toy_a_large_weight_of_the_kl_spoilt_the_fit(lines, records):
    toy = SETS["toy"]
    tried = [configurations(toy, "mixture_repeat", rounds) for rounds in (1, 2)]
    later = [settings for name, settings in tried[1].items() if name not in tried[0]]
    betas = [
        " or ".join(f"{one:g}"[1:] if one < 1 else f"{one:g}" for one in sorted({s.beta for s in own}))
        for own in (tried[0].values(), later)
    ]
    epochs = [{s.epochs for s in own} for own in (tried[0].values(), later)]
    assert f"with β = {betas[0]} and {epochs[0].pop()} epochs" in page("docs/mixtures.md")
    assert f"level with it with β = {betas[1]} and {epochs[1].pop()}" in page("docs/mixtures.md")

    def nll(method: str, rounds: int) -> list[float]:
        name = chosen(records, toy, method, rounds)
        own = {key[-1]: run["nll"] for key, run in records.items() if key[:4] == ("toy", OF_RESULTS, method, name)}
        return [own[seed] for seed in sorted(own)]

    first, last = (protocol.paired(nll("mixture_repeat", rounds), nll("deep_ensemble", rounds)) for rounds in (1, 2))
    assert first.low > 0 and first.mean > 0.3 and last.low < 0 < last.high


def test_where_the_protocol_was_not_kept(records):
    text = page("docs/protocol.md").split("## Where the rule was not kept")[1].split(" ## ")[0]
    tuned = {
        (one.name, method): len({key[3] for key in records if key[:3] == (one.name, TUNING, method)})
        for one in TUNED
        for method in one.methods
    }
    assert {one.name for one in TUNED if one.per_round != protocol.ROUND} == {"sst2"}
    assert (
        f"a round has {WORDS[SETS['sst2'].per_round]} configurations of every method, not {WORDS[protocol.ROUND]}"
        in text
    )
    counts = {method: tuned["sst2", method] for method in SETS["sst2"].methods}
    full = counts.pop("full_rank")
    [others] = set(counts.values())
    assert f"so {full} in all where the other methods have {others}" in text
    single = [one for one in TUNED if one.rounds == 1]
    assert {one.name for one in single} == {"beijing", "icu_coronary"}
    edges = {one.name: "{} of {} choices".format(*choices_at_edges(records, one)) for one in TUNED}
    assert f"although {edges['beijing']} on Beijing and" in text
    assert f"{edges['icu_coronary'].removesuffix(' choices')} in intensive care lie at an edge" in text
    cut = {one.name: one.rounds for one in TUNED if rounds_of(records, one) < one.rounds}
    assert cut == {"cnn": 2, "fashion_mnist": 3}
    assert "The second round of the CNN and the third of Fashion-MNIST were not completed" in text
    rest = [method for method in METHODS if method not in SECOND]
    assert set(rest) == {"low_rank_anchored", "mixture_split_anchored", "mixture_svd_anchored", "ivon"}
    had = {
        one.name: {
            max([n for n in range(1, one.rounds + 1) if chosen(records, one, m, n) is not None], default=0)
            for m in rest
        }
        for one in TUNED
        if set(rest) <= set(one.methods)
    }
    fewer = [name for name, rounds in had.items() if rounds == {1} and rounds_of(records, SETS[name]) > 1]
    assert (
        f"On {named(fewer)} {WORDS[len(rest)]} methods had one round where the others had two, on MNIST three" in text
    )
    assert {rounds_of(records, SETS[name]) for name in fewer if name != "mnist"} == {2}
    assert rounds_of(records, SETS["mnist"]) == 3
    assert (
        f"On {named([name for name, rounds in had.items() if rounds == {0}])} these {WORDS[len(rest)]} were not" in text
    )
    at, every = np.sum([choices_at_edges(records, one) for one in TUNED], axis=0)
    assert f"{at} of {every} choices lie at an edge of some setting in the rounds that count" in text


def test_what_the_readme_says_of_tables():
    comparison = Comparison.of(read_records(KEPT / "comparison.jsonl.gz"))
    holds = {one.sentence: one.holds for one in statements(comparison, list(REGRESSION))}
    others = [method for method in comparison.methods(REGRESSION) if method not in OWN]
    below = holds["NLL below that of all others"]
    assert len(below) == len(REGRESSION)
    [normal] = [own for words, own in holds.items() if "as a normal distribution" in words and "one standard" in words]
    behind = []
    for name in CLASSIFICATION:
        best = comparison.best(name, "nll", without=OWN)
        difference, error, _ = comparison.difference(name, OURS, best, "nll")
        behind += [name] if difference > error else []
    readme = page("README.md")
    assert (
        f"on [{WORDS[len(below)]} regression tables](docs/estimators_results.md), all with defaults, the mean" in readme
    )
    said = f"is below that of up to {WORDS[len(others)]} other methods (one protein fit failed and was rerun), on"
    left = len(REGRESSION) - len(holds["NLL below that of full rank"])
    said = f"{said} {WORDS[left]} not below our full-rank variant; scored as a normal distribution, as others are,"
    assert f"{said} best or within one standard error on {WORDS[len(normal)]}." in readme
    said = f"On {WORDS[len(behind)]} of {WORDS[len(CLASSIFICATION)]} classification tables another method leads"
    assert said in readme


def test_what_the_page_of_choices_says_of_adapters():
    found = finetune.read(RESULTS / "finetune")
    adapter, mixture = (
        next(line for line in finetune.conclusions(found).splitlines() if line.startswith(f"- {name}: least mean NLL"))
        for name in ("Bayesian adapter", "Mixture of 4")
    )
    least, settings = map(int, re.findall(r"on (\d) of (\d) settings", mixture)[0])
    text = page("docs/choose.md")
    assert f"the mixture has the least NLL on {WORDS[least]} of {WORDS[settings]} settings" in text
    assert "Against LoRA + temperature: better on 0, worse on 0." in adapter
    assert "one adapter is about level with LoRA and a temperature" in text


def test_how_little_ranks_from_32_to_100_differ():
    nll: dict[str, list[float]] = {}
    for line in (RESULTS / "adaptive_rank.jsonl").read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        if one["preset"] == "chosen":
            nll.setdefault(one["method"], []).append(one["metrics"]["nll"])
    means = [np.mean(nll[f"low_rank_{rank}"]) for rank in (32, 64, 100)]
    assert max(means) - min(means) < 0.002 < np.mean(nll["low_rank_16"]) - min(means)
    assert "On MNIST ranks from 32 to 100 differ little in NLL" in page("docs/choose.md")


def test_bands_of_anchored_priors_are_three_times_as_wide():
    shown = re.findall(
        r"^\w+ prior: spread of the draws ([\d.]+) inside, ([\d.]+) at ±4$",
        (ROOT / "docs" / "mixtures.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    plain, anchored = (np.array(numbers, dtype=float) for numbers in shown)
    np.testing.assert_allclose(anchored / plain, 3, atol=0.5)
    assert "the anchored bands are three times as wide inside and outside" in page("docs/mixtures.md")
