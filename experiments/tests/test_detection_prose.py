"""Sentences on out-of-distribution detection in pages written by hand, compared with the records they speak of."""

import numpy as np
import pytest
from pages import RESULTS, ROOT, WORDS, page
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.records import record
from singularbayes_experiments.report import cifar10_differences, cifar10_scores, modes_summary, summary
from singularbayes_experiments.report.detectors import best_without_network
from singularbayes_experiments.report.text import signed
from singularbayes_experiments.runs import modes_tables
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import final_results

ENSEMBLE, REPEAT, SVD = "deep_ensemble", "mixture_repeat", "mixture_svd"
HARDER = {  # pair → where its metrics begin, by experiment
    "product reviews": ("sst2", "product_reviews"),
    "queries": ("sst2", "clinc150"),
    "classes of Fashion-MNIST": ("fashion_mnist", "held_out"),
    "digits of MNIST": ("mnist", "held_out"),
}

DIGITS = (("mahalanobis", ""), ("low_rank_held_out", "_mi"))


@pytest.fixture(scope="module")
def pairs() -> list[summary.Scores]:
    return [each for each in modes_summary.collect(RESULTS) if each.data.ood]


def without_a_network(pairs: list[summary.Scores]) -> dict[str, tuple[str, float]]:
    """Returns the best number without a network of every pair, and its AUROC."""
    simple = record.read(RESULTS / "simple_detectors.jsonl")
    found = {each.data.title: best_without_network(each.data.experiment, simple) for each in pairs}
    assert all(found.values())
    return {title: (best[0], round(best[1], 3)) for title, best in found.items() if best}


def sides(pairs: list[summary.Scores], method: str) -> dict[str, list[str]]:
    """Returns the pairs on which a method detects better or worse than the deep ensemble, and those that are level."""
    found: dict[str, list[str]] = {"better": [], "level": [], "worse": []}
    for each in pairs:
        difference = each.difference(method, ENSEMBLE, each.data.ood)
        assert difference is not None
        side = "better" if difference.low > 0 else "worse" if difference.high < 0 else "level"
        found[side].append(each.data.title)
    return found


def test_where_mixtures_detect_better_than_the_ensemble_and_than_no_network(pairs):
    repeat, svd = (sides(pairs, method) for method in (REPEAT, SVD))
    assert set(repeat["better"]) == {"SST-2", "MNIST", "Fashion-MNIST"} and not repeat["worse"] + svd["worse"]
    simple = without_a_network(pairs)
    ahead = {
        method: sum(simple[each.data.title][1] > each.mean(method, each.data.ood) for each in pairs)
        for method in (REPEAT, SVD)
    }
    better, level, every = (WORDS[len(found)] for found in (repeat["better"], repeat["level"], pairs))
    said = f"on {better} of {every} pairs (SST-2, MNIST, Fashion-MNIST) and are level on {level}, but on"
    choose = page("docs/choose.md")
    assert f"{said} {WORDS[ahead[REPEAT]]} of the {every} [a number without a network]" in choose
    pixels = {auroc for name, auroc in simple.values() if name.endswith("non-zero pixels")}
    assert f"the share of non-zero pixels, {min(pixels):.3f}.".replace(" 0.", " .") in choose and len(pixels) == 1
    migrate = page("docs/migrate/deep_ensembles.md")
    said = f"better than the ensemble on {WORDS[len(svd['better'])]} of {every} pairs, randomly initialised ones on"
    assert f"{said} {better}, and on the others they are level" in migrate
    assert f"than randomly initialised mixtures on {WORDS[ahead[REPEAT]]} of the {every} pairs" in migrate
    assert ahead[SVD] == len(pairs) and f"than SVD-initialised ones on all {every}" in migrate
    anchored = modes_tables.results(
        final_results(read_lines([RESULTS / modes_summary.FOLDER])), "mnist", "mixture_repeat_anchored"
    )
    [mnist] = [each for each in pairs if each.data.title == "MNIST"]
    best = np.mean([run[mnist.data.ood] for run in anchored.values()])
    said = f"with anchored priors, on MNIST, a mixture has {best:.3f} against {simple['MNIST'][1]:.3f}"
    assert said in migrate and best > simple["MNIST"][1]


def test_on_held_out_digits_low_rank_networks_and_the_ensemble_are_level():
    runs = [one for one in record.read(RESULTS / "network_detectors.jsonl") if one.experiment == "mnist"]
    for by in ("mi", "entropy"):
        metric = f"held_out/auroc_ood_{by}"
        ours, theirs = (
            {one.seed: one.metrics[metric] for one in runs if one.method == f"{method}_held_out"}
            for method in ("low_rank_ensemble", ENSEMBLE)
        )
        found = protocol.paired(*zip(*[(ours[seed], theirs[seed]) for seed in sorted(ours)], strict=True))
        assert found.low < 0 < found.high
    assert "five low-rank networks and the ensemble are level" in page("docs/choose.md")


def detected(records, network: str, method: str, column: str, score: str) -> dict[int, float]:
    """Returns the AUROC of a method on CIFAR-10 by seed."""
    if column == "held_out":
        return cifar10_scores.scores(records, network, method, "ood", f"auroc_{score}")
    return {
        one["seed"]: one["other"][column][f"auroc_{score}"]
        for one in cifar10_scores.results(records)
        if (one["network"], one["method"], one["held_out"]) == (network, method, False)
        and f"auroc_{score}" in one.get("other", {}).get(column, {})
    }


def test_what_mixtures_detect_on_cifar10():
    text, found = page("docs/migrate/deep_ensembles.md"), {}
    rounds = cifar10_scores.read_rounds(RESULTS / "cifar10")
    for network in cifar10_scores.NETWORKS:
        for method in cifar10_scores.OURS:
            latest = cifar10_scores.latest_round(rounds, method, network)
            nll = cifar10_differences.find_difference(latest, network, method, ENSEMBLE, "test")
            assert nll is None or nll.mean > 0
            for column in ("held_out", "clothes", "letters", "windows"):
                last = cifar10_scores.FOURTH if column == "held_out" else None  # the last round that has them
                records = rounds[last] if last else latest
                for score in ("entropy", "mi"):
                    ours, theirs = (detected(records, network, one, column, score) for one in (method, ENSEMBLE))
                    both = sorted(ours.keys() & theirs.keys())
                    if len(both) >= cifar10_differences.LEAST_SEEDS:
                        values = zip(*[(ours[seed], theirs[seed]) for seed in both], strict=True)
                        found[network, method, column, score] = protocol.paired(*values)
    assert len(found) > 10 and not any(one.low > 0 for one in found.values())
    assert "with three seeds none detects better" in text
    said = "which is not counted here, all mixtures have a higher mean NLL than the ensemble"
    assert said in page("docs/mixture_results.md")
    for key, said in (
        (("resnet20", SVD, "clothes", "mi"), "AUROC {} [{}, {}] by mutual information"),
        (("resnet9", SVD, "held_out", "entropy"), "the difference is {} [{}, {}] by entropy"),
    ):
        own = found[key]
        assert said.format(*(signed(value, 4) for value in (own.mean, own.low, own.high))) in text


def test_how_many_parameters_mixtures_have_on_cifar10():
    shares, rounds = {}, cifar10_scores.read_rounds(RESULTS / "cifar10")
    for method in cifar10_scores.OURS:
        records = cifar10_scores.latest_round(rounds, method, "resnet9")
        own, ensemble = (cifar10_scores.parameters(records, "resnet9", name) for name in (method, ENSEMBLE))
        if own:
            ensemble = ensemble or cifar10_scores.parameters(
                cifar10_scores.latest_round(rounds, ENSEMBLE, "resnet9"), "resnet9", ENSEMBLE
            )
            shares[method] = 100 * own / ensemble
    assert set(shares) == set(cifar10_scores.OURS)
    said = "lower mean NLL than every mixture of four low-rank ones tried, at {:.0f} to {:.0f} % of its parameters"
    assert said.format(min(shares.values()), max(shares.values())) in page("docs/when_not.md")


def test_on_cifar10_every_mixture_has_a_higher_mean_nll_and_one_interval_reaches_zero():
    rounds = cifar10_scores.read_rounds(RESULTS / "cifar10")
    found = {
        name: cifar10_differences.latest_difference(rounds, "resnet9", name, "test") for name in cifar10_scores.OURS
    }
    assert all(one is not None and one.mean > 0 for one in found.values())
    level = {name for name, one in found.items() if one is not None and one.interval is not None and not one.verdict}
    assert level == {"mixture_tied"}  # the distilled one has no interval, of two seeds
    assert "or with tied scales, where the interval of the difference reaches 0." in page("docs/when_not.md")


def test_no_mixture_and_no_full_rank_network_was_run_on_the_harder_pairs():
    runs = [
        one for one in record.read(RESULTS / "network_detectors.jsonl") if one.method.endswith(("held_out", "texts"))
    ]
    methods = {one.method.removesuffix("_held_out").removesuffix("_texts") for one in runs}
    assert methods == {"low_rank", ENSEMBLE, "low_rank_ensemble"}
    assert "no mixture and no full-rank network was run on its pairs" in page("docs/when_not.md")


def test_what_simple_scores_detect_on_the_harder_pairs():
    runs = record.read(RESULTS / "network_detectors.jsonl") + record.read(RESULTS / "simple_detectors.jsonl")
    plain: dict[str, dict[str, float]] = {pair: {} for pair in HARDER}
    draws: dict[str, dict[str, float]] = {pair: {} for pair in HARDER}
    for pair, (experiment, start) in HARDER.items():
        for method in {one.method for one in runs if one.experiment == experiment}:
            own = [one.metrics for one in runs if (one.experiment, one.method) == (experiment, method)]
            for by, kept in (("", plain), ("_mi", draws), ("_entropy", draws)):
                metric = f"{start}/auroc_ood{by}"
                if values := [metrics[metric] for metrics in own if metric in metrics]:
                    kept[pair][f"{method}{by}"] = float(np.mean(values))

    def trained(pair: str, by: str = "_mi") -> float:
        return max(value for name, value in draws[pair].items() if name.endswith(by))

    text, reviews, queries, clothes = page("docs/when_not.md"), *list(HARDER)[:3]
    shorter = 1 - plain[queries]["text_length"]
    assert (
        f"shortness of the text detects queries with an AUROC of {shorter:.3f} (best network {trained(queries):.3f})"
        in text
    )
    rarer = plain[reviews]["word_rarity"]
    assert f"rare words detect product reviews with {rarer:.3f} ({trained(reviews):.3f})" in text
    distance = plain[clothes]["mahalanobis"]
    assert f"two classes of Fashion-MNIST with {distance:.3f} ({trained(clothes):.3f})" in text
    for pair, simple in ((queries, shorter), (reviews, rarer), (clothes, distance)):
        assert simple > max(draws[pair].values())
    digits = plain["digits of MNIST"]
    best = max(digits, key=digits.__getitem__)
    assert best == "energy" and digits[best] < trained("digits of MNIST")
    said = f"with {trained('digits of MNIST'):.3f} against {digits[best]:.3f}"
    assert f"{said} of a deterministic network's energy score" in text


def test_the_detectors_of_when_not_are_those_of_the_committed_records():
    written = (ROOT / "docs" / "when_not.md").read_text(encoding="utf-8")
    found: dict = {}
    for one in record.read(RESULTS / "network_detectors.jsonl"):
        for metric, value in one.metrics.items():
            found.setdefault((one.experiment, one.method, metric), []).append(value)
    shown = {key: f"{np.mean(values):.3f}" for key, values in found.items()}
    text = page("docs/when_not.md")
    assert f"with an AUROC of {shown['fashion_mnist', 'mahalanobis', 'mnist/auroc_ood']}, but" in text
    assert (
        f"in a network for MNIST with {shown['mnist', 'mahalanobis', 'fashion_mnist/auroc_ood']}, less than a" in text
    )
    for title, experiment in (("MNIST", "mnist"), ("Fashion-MNIST", "fashion_mnist")):
        [row] = [line for line in written.splitlines() if line.startswith(f"| {title}, against two held-out classes |")]
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        columns = [("max_softmax", ""), ("energy", ""), *DIGITS]
        assert cells[2:6] == [shown[experiment, name, f"held_out/auroc_ood{by}"] for name, by in columns]
    digits = [float(shown["mnist", name, f"held_out/auroc_ood{by}"]) for name, by in DIGITS]
    clothes = [float(shown["fashion_mnist", name, f"held_out/auroc_ood{by}"]) for name, by in DIGITS]
    assert digits[0] < digits[1] and clothes[0] > clothes[1]  # "it depends on the pair"
    air = float(shown["beijing", "mahalanobis", "auroc_ood"])
    best = float(text.split("where the best uncertainty of a network or an ensemble has ")[1][:5])
    assert f"detects Guangzhou with {air:.3f}," in text and air > best
