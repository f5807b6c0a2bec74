"""The page of CIFAR-10: rows by round, differences as by hand, what is missing, settings and what is folded."""

import json
from pathlib import Path

import numpy as np
import pytest
from singularbayes_experiments.problems import cifar10 as plan
from singularbayes_experiments.report import (
    cifar10,
    cifar10_detection,
    cifar10_differences,
    cifar10_figure,
    cifar10_lead,
    cifar10_left_out,
    cifar10_scores,
    cifar10_sentences,
    cifar10_settings,
    text,
)
from singularbayes_experiments.report.cifar10_differences import Difference
from singularbayes_experiments.runs.cifar10_records import read_lines

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "results" / cifar10_sentences.FOLDER
ABOUT = {"command": "python", "versions": {"jax": "1"}, "machine": {"cpu": "one"}}
T2 = 4.302652729749462  # the 97.5 % point of t with two degrees of freedom


def result(method, seed, nll, **more):
    """A record of one method and seed; `more` takes the place of any part."""
    scores = {"accuracy": 0.95, "nll": nll, "brier": 0.1, "ece": 0.01}
    return {
        "stage": "result", "network": "resnet9", "method": method, "held_out": False, "seed": seed, "diverged": False,
        "parameters": 1000 if "mixture" in method else 4000, "test": scores,
        "corrupted": {**scores, "nll": 2 * nll}, "corrupted_nll": {"contrast": [2 * nll] * 5}, **more,
    }  # fmt: skip


def several(method, nlls, **more):
    return [result(method, seed, nll, **more) for seed, nll in enumerate(nlls)]


def tuned(family, settings, nll, **more):
    shown = ", ".join(f"{key} {value}" for key, value in settings.items())
    return {
        "stage": "tuning", "network": "resnet9", "family": family, "configuration": shown, "settings": settings,
        "diverged": nll is None, "validation": nll and {"nll": nll}, **more,
    }  # fmt: skip


def in_rounds(**rounds):
    """Rounds from their records, the last one first; `first` is the first."""
    named = {name if name != "first" else "": own for name, own in rounds.items()}
    return {name: named[name] for name in cifar10_scores.ROUNDS if name in named}


def write(folder, **rounds):
    for name, records in rounds.items():
        place = folder if name == "first" else folder / name
        place.mkdir(exist_ok=True)
        (place / "records.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
        (place / "run.json").write_text(json.dumps(ABOUT))
    return folder


def rows_of(table):
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[2:]]


ENSEMBLE, BETTER = (0.16, 0.17, 0.18), (0.15, 0.165, 0.169)


# Differences


def test_a_difference_is_the_paired_t_interval_of_the_same_seeds():
    found = Difference((0.20, 0.23, 0.21), (0.16, 0.17, 0.18))
    by_seed = np.array([0.04, 0.06, 0.03])
    half = T2 * by_seed.std(ddof=1) / 3**0.5
    assert found.interval is not None
    np.testing.assert_allclose([found.mean, found.interval.low], [by_seed.mean(), by_seed.mean() - half], atol=1e-6)
    low, high = by_seed.mean() - half, by_seed.mean() + half
    assert found.cell() == f"+{by_seed.mean():.3f} [+{low:.3f}, +{high:.3f}] worse"
    assert Difference(found.ours, found.theirs, higher_is_better=True).verdict == "better"
    assert Difference(found.theirs, found.ours).verdict == "better"


def test_an_interval_that_reaches_0_is_neither_better_nor_worse_and_says_where_all_seeds_are():
    one_sided = Difference((0.30, 0.20, 0.20), (0.16, 0.19, 0.19))
    assert one_sided.interval is not None and one_sided.interval.low < 0 and one_sided.verdict == ""
    assert one_sided.cell().endswith("], all higher")
    assert Difference((0.2, 0.1, 0.2), (0.1, 0.2, 0.1)).cell().endswith("]")
    assert Difference((0.2, 0.2, 0.2), (0.2, 0.3, 0.3)).side == ""  # equal with one seed


def test_with_fewer_than_three_seeds_there_is_no_interval():
    assert Difference((0.2,), (0.1,)).cell() == "+0.100 (one seed)"
    assert Difference((0.1, 0.1), (0.15, 0.15)).cell(4) == "−0.0500 (2 seeds)"
    assert Difference((0.1, 0.1), (0.15, 0.15)).verdict == ""


def test_pairs_are_those_of_common_seeds_and_the_ensemble_with_them_is_shown():
    records = [*several("deep_ensemble", ENSEMBLE), result("rank_one", 2, 0.20)]
    found = cifar10_differences.find_difference(records, "resnet9", "rank_one", "deep_ensemble", "test")
    assert found == Difference((0.20,), (0.18,))
    assert cifar10_differences.beside(records, "resnet9", "rank_one", "test") == "+0.020 (one seed, ensemble 0.180)"
    assert cifar10_differences.beside(records, "resnet9", "deep_ensemble", "test") == ""
    assert cifar10_differences.find_difference(records, "resnet20", "rank_one", "deep_ensemble", "test") is None


# Rows by round


def test_rows_are_grouped_by_round_below_the_ensemble_of_that_round():
    rounds = in_rounds(
        first=[
            *several("deep_ensemble", [0.3, 0.3, 0.3]),
            *several("mixture", [0.4, 0.5, 0.6]),
            *several("swag", [0.1, 0.1, 0.1]),
        ],
        fourth=[
            *several("deep_ensemble", ENSEMBLE, epochs=24),
            *several("swag", BETTER, epochs=8),
            *several("mixture_svd", BETTER, epochs=24),
        ],
    )
    rows = rows_of(cifar10_differences.grouped_table(rounds, "resnet9"))
    last, first = "*deep ensemble of 4, fourth round*", "*deep ensemble of 4, first round*"
    rows = [row for row in rows if row[-1] != "none"]  # with results
    there = [row[0] for row in rows]
    assert there == [last, "SVD-initialised mixture of 4", "SWAG", first, "mixture of 4"]
    by_name = {row[0]: row for row in rows}
    assert [by_name[name][1] for name in there] == ["24", "24 + 24", "24 + 8", "16", "16"]
    # Every difference is that of the means in the rows of its group.
    assert by_name["mixture of 4"][2] == f"0.500 ± {0.1 / 3**0.5:.3f}" and by_name[first][2] == "0.300"
    assert by_name["mixture of 4"][3] == f"+0.200 [−{T2 * 0.1 / 3**0.5 - 0.2:.3f}, +{0.2 + T2 * 0.1 / 3**0.5:.3f}]" + (
        ", all higher"
    )
    assert by_name["SWAG"][3].startswith(f"−{np.mean(ENSEMBLE) - np.mean(BETTER):.3f} [")
    assert by_name["SWAG"][5].startswith(f"−{2 * (np.mean(ENSEMBLE) - np.mean(BETTER)):.3f} [")
    assert by_name["SWAG"][6:9] == ["95.00", "0.010", "0.004 M"] and by_name["SWAG"][-1] == "3"


def test_a_method_without_all_seeds_says_so():
    rounds = in_rounds(fifth=[*several("deep_ensemble", ENSEMBLE), *several("mixture_svd", BETTER[:2])])
    rows = {row[0]: row for row in rows_of(cifar10_differences.grouped_table(rounds, "resnet9"))}
    assert rows["SVD-initialised mixture of 4"][-1] == "2 of 3"


def test_epochs_of_the_first_round_are_its_plans():
    records = [
        *several("deep_ensemble", ENSEMBLE),
        *several("deterministic", ENSEMBLE),
        *several("low_rank_svd", BETTER),
    ]
    assert cifar10_differences.epochs_cell(records, "resnet9", "deterministic") == "16"
    assert cifar10_differences.epochs_cell(records, "resnet9", "low_rank_svd") == "16 + 6"
    with_settings = several("deep_ensemble", ENSEMBLE, settings={"epochs": 24})
    assert cifar10_differences.epochs_cell(with_settings, "resnet9", "deep_ensemble") == "24"


# What has no results


def test_methods_that_diverged_or_were_not_reached_have_a_row_until_a_later_round_has_them():
    lost = [tuned("low_rank", {"rate": rate}, None) for rate in (0.4, 0.8)]
    rounds = in_rounds(
        first=[*several("deep_ensemble", ENSEMBLE), *several("mixture", BETTER)],
        second=[*several("deep_ensemble", ENSEMBLE), *lost],
    )
    rows = [(row[0], row[3]) for row in rows_of(cifar10_differences.grouped_table(rounds, "resnet9"))]
    first = rows.index(("*deep ensemble of 4, first round*", ""))
    assert ("mixture of 4", "all 2 configurations diverged") in rows[:first]
    assert [why[0] for name, why in rows[first:] if name == "mixture of 4"] == ["−"]  # with results
    assert ("rank-one", "not reached") in rows[:first]
    assert not any(name == "rank-one" for name, _ in rows[first:])  # once
    assert cifar10_left_out.all_diverged(rounds) == (
        "All 2 configurations of low-rank and mixture of 4 on ResNet-9 diverged in the second round, with rates from "
        "0.4 to 0.8."
    )
    later = {"fourth": [*several("deep_ensemble", ENSEMBLE), *several("mixture", BETTER)], **rounds}
    rows = [(row[0], row[3]) for row in rows_of(cifar10_differences.grouped_table(later, "resnet9"))]
    assert [why[0] for name, why in rows if name == "mixture of 4"] == ["−"]


def test_a_run_that_diverged_is_in_the_table_and_named():
    records = [*several("deep_ensemble", ENSEMBLE), result("swag", 1, 0.1, diverged=True)]
    assert cifar10_left_out.missing_methods({"fourth": records}, "fourth", "resnet9")["swag"] == "every run diverged"
    assert cifar10_left_out.diverged(records) == "Diverged, and not in the tables: SWAG on ResNet-9 with seed 1."
    assert "SWAG on ResNet-9 (0, 2)" in cifar10_left_out.unreached("fourth", records)


def test_what_was_not_reached_names_networks_without_any_result():
    words = cifar10_left_out.unreached("third", several("deep_ensemble", ENSEMBLE))  # of ResNet-9 alone
    assert "deep ensemble of 4 on ResNet-20 (0, 1, 2)" in words
    assert "deterministic on ResNet-20 with 100 epochs (1, 2)" in words
    assert "deep ensemble of 4 on ResNet-9 (" not in words and "deterministic on ResNet-9 (0, 1, 2)" in words
    assert "full-rank on ResNet-9 without the held-out classes (0, 1, 2)" in words


def test_what_was_not_reached_has_the_methods_of_a_piece_and_leaves_out_what_diverged():
    lost = [tuned("low_rank", {"rate": 0.4}, None)]
    words = cifar10_left_out.unreached("", [*several("rank_one", ENSEMBLE), *lost])
    # The first round planned one network with three seeds, and four with the first of them.
    assert "deterministic on ResNet-20 (0, 1, 2)" in words and "deep ensemble of 4 on ResNet-20 (0)" in words
    assert "; low-rank on ResNet-20 (0)" in words and "; low-rank on ResNet-9 (" not in words


def test_a_method_that_was_planned_without_the_held_out_classes_alone_is_not_missing():
    records = several("deep_ensemble", ENSEMBLE)
    missing = cifar10_left_out.missing_methods({"fourth": records}, "fourth", "resnet9")
    assert "mc_dropout" not in missing and missing["swag"] == "not reached"
    assert cifar10_left_out.missing_methods({"fourth": []}, "fourth", "resnet9") == {}
    assert "MC dropout" not in cifar10_left_out.never_planned("resnet20")
    assert "tied-scale mixture of 4" in cifar10_left_out.never_planned("resnet20")
    assert cifar10_left_out.never_planned("resnet9") == ""


def test_a_round_whose_runs_all_diverged_is_on_the_page(tmp_path):
    write(tmp_path, first=several("deep_ensemble", ENSEMBLE), second=[result("full_rank", 0, 0.1, diverged=True)])
    page = cifar10.page(tmp_path)
    assert "Diverged, and not in the tables: full-rank on ResNet-9 with seed 0." in page
    assert "| full-rank |  |  | every run diverged |" in page


# The beginning


@pytest.mark.parametrize(
    ("mixture", "verdict"),
    [
        ((0.26, 0.27, 0.29), "worse: +{mean:.3f} [+{low:.3f}, +{high:.3f}]"),
        ((0.06, 0.07, 0.07), "better: {mean:.3f} [{low:.3f}, {high:.3f}]"),
        ((0.15, 0.18, 0.19), "level: {mean:+.3f} [{low:+.3f}, {high:+.3f}]"),
        ((0.26, 0.27), "{mean:+.3f} (2 seeds), too few for an interval"),
    ],
)
@pytest.mark.parametrize("network", cifar10_scores.NETWORKS)
def test_the_sentence_of_a_network_says_whether_its_best_mixture_is_worse_than_the_ensemble(mixture, verdict, network):
    records = [*several("deep_ensemble", ENSEMBLE, network=network), *several("mixture", mixture, network=network)]
    [said] = cifar10_lead.sentences(in_rounds(fifth=records))
    theirs = np.mean(ENSEMBLE[: len(mixture)])
    difference = np.subtract(mixture, ENSEMBLE[: len(mixture)])
    half = 4.302653 * difference.std(ddof=1) / 3**0.5  # the t quantile of three seeds
    low, high = difference.mean() - half, difference.mean() + half
    shown = verdict.format(mean=difference.mean(), low=low, high=high).replace("-", "−")
    assert said == (
        f"**{cifar10_scores.NETWORKS[network]} in one sentence:** the best of 1 low-rank mixtures, the mixture "
        f"of 4, has a test NLL of {np.mean(mixture):.3f} against {theirs:.3f} of the deep ensemble of 4, with 25 % of "
        f"its parameters ({shown})."
    )
    assert cifar10_lead.sentences(in_rounds(fifth=records[:3])) == []  # without a mixture


@pytest.mark.parametrize("network", cifar10_scores.NETWORKS)
def test_components_are_those_of_every_network_and_some_may_have_diverged(network):
    def rounds(*components):
        records = [
            result("mixture_svd", seed, 0.2, network=network, components=own) for seed, own in enumerate(components)
        ]
        return in_rounds(fifth=records)

    said = cifar10_lead.components(rounds([0.31, 0.29], [0.30, 0.35]), network)
    assert said == "Components of the SVD-initialised mixture of 4, each alone, have a test NLL of 0.290 to 0.350."
    assert "0.290 to 0.310; 2 of 4 diverged." in cifar10_lead.components(rounds([0.31, None], [None, 0.29]), network)
    assert "All 2 components of the SVD" in cifar10_lead.components(rounds([None, None]), network)
    assert cifar10_lead.components(rounds(None), network) == ""
    assert cifar10_lead.components(in_rounds(fifth=several("mixture_svd", BETTER, network=network)), network) == ""


@pytest.mark.parametrize("network", cifar10_scores.NETWORKS)
def test_a_mixture_that_is_worse_than_its_first_component_is_named_with_its_seed(network):
    records = [
        *several("mixture_svd", (0.15, 0.25, 0.16), network=network),
        *several("low_rank_svd", (0.20, 0.21, 0.22), network=network),
    ]
    said = cifar10_lead.worse_than_first(in_rounds(fifth=records), network)
    mixture = "The SVD-initialised mixture of 4 has a test NLL of 0.250 with seed 1 (0.150 and 0.160 with the others)"
    assert said.startswith(f"{mixture}, worse than that of its first component alone (0.210)")
    assert said.count("with seed") == 1


def test_how_far_the_ensemble_differs_between_rounds_is_said_once():
    rounds = in_rounds(
        first=several("deep_ensemble", (0.3, 0.5)), fourth=several("deep_ensemble", ENSEMBLE, settings={"epochs": 24})
    )
    said = cifar10_lead.ensemble_between_rounds(rounds)
    assert "0.170 (fourth, 24 epochs), 0.400 (first, 16 epochs) on ResNet-9" in said
    assert cifar10_lead.ensemble_between_rounds(in_rounds(first=several("deep_ensemble", ENSEMBLE))) == ""
    assert cifar10.page(FOLDER).count("differs between rounds") == 1


def test_where_it_loses_has_every_network_and_both_kinds_of_images():
    def records(network):
        return [
            *several("deep_ensemble", ENSEMBLE, network=network),
            *several("deterministic", (0.19, 0.20, 0.21), network=network),
            *several("mixture", (0.26, 0.27, 0.29), network=network),
            *several("mixture_svd", (0.06, 0.07, 0.07), network=network),
        ]

    lines = cifar10_lead.where_it_loses(in_rounds(fifth=[*records("resnet9"), *records("resnet20")]))
    for title in cifar10_scores.NETWORKS.values():
        for part in ("test", "corrupted"):
            assert (
                f"- {title}, NLL of {part} images: higher than the ensemble's for 1 of 2 mixtures; by the interval "
                "worse for the mixture of 4, better for the SVD-initialised mixture of 4."
            ) in lines
        above = np.mean([0.26, 0.27, 0.29]) - 0.20
        behind = f"higher than one deterministic network's for the mixture of 4 (+{above:.3f})."
        assert f"- {title}, NLL of test images: {behind}" in lines


# Detection


def detection_records(method, clothes, held_out=()):
    told = [
        result(method, seed, 0.2, other={"clothes": {"auroc_entropy": 0.9, "auroc_mi": value}})
        for seed, value in enumerate(clothes)
    ]
    unseen = [
        result(method, seed, 0.2, held_out=True, ood={"auroc_entropy": value, "auroc_mi": 0.7})
        for seed, value in enumerate(held_out)
    ]
    return told + unseen


def test_a_mixture_that_detects_worse_than_the_ensemble_is_named_with_its_interval():
    records = [
        *detection_records("deep_ensemble", (0.90, 0.91, 0.92), (0.70, 0.71, 0.72)),
        *detection_records("mixture", (0.88, 0.90, 0.90), (0.66, 0.70, 0.71)),
    ]
    said = cifar10_detection.detection_losses(in_rounds(fifth=records), "resnet9")
    by_seed = np.array([-0.02, -0.01, -0.02])
    half = T2 * by_seed.std(ddof=1) / 3**0.5
    cell = f"−{-by_seed.mean():.4f} [−{half - by_seed.mean():.4f}, −{-half - by_seed.mean():.4f}]"
    assert f"worse in 1 of 4 comparisons over three seeds (mixture of 4, clothes by mutual information, {cell})" in said
    assert "better in 0" in said and "mixture of 4, held-out classes by entropy, −0.0200 [" in said
    few = [one for one in records if one["seed"] < 2]
    assert cifar10_detection.detection_losses(in_rounds(fifth=few), "resnet9") == ""


@pytest.mark.parametrize(
    ("name", "network", "column", "score", "worse"),
    [("fifth", "resnet20", "clothes", "mi", True), ("fourth", "resnet9", "ood", "entropy", False)],
)
def test_where_the_mixture_of_the_records_detects_worse_is_on_the_page(name, network, column, score, worse):
    records = cifar10_scores.read_round(FOLDER, name)
    ours, theirs = (
        {
            one["seed"]: (one["ood"] if column == "ood" else one["other"][column])[f"auroc_{score}"]
            for one in records
            if (one["stage"], one["network"], one["method"]) == ("result", network, method)
            and one["held_out"] == (column == "ood")
        }
        for method in ("mixture_svd", "deep_ensemble")
    )
    by_seed = np.array([ours[seed] - theirs[seed] for seed in (0, 1, 2)])
    half = T2 * by_seed.std(ddof=1) / 3**0.5
    assert (by_seed.mean() + half < 0) == worse and by_seed.mean() < 0
    low, high = (f"{value:+.4f}".replace("-", "−") for value in (by_seed.mean() - half, by_seed.mean() + half))
    title = cifar10_detection.COLUMNS[column]
    words = f"{title} by {'entropy' if score == 'entropy' else 'mutual information'}"
    cell = f"SVD-initialised mixture of 4, {words}, −{-by_seed.mean():.4f} [{low}, {high}]"
    above, _ = cifar10.page(FOLDER).split("## Settings")
    assert cell in above.split("## Where it loses")[1]


def test_detectors_of_the_first_round_are_those_of_held_out_classes():
    records = [result("deterministic", 0, 0.2, held_out=True, detectors={"energy": 0.6})]
    records += [result("deterministic", 1, 0.2, held_out=True, detectors={"held_out": {"energy": 0.7}})]
    assert cifar10_detection.detector(records, "resnet9", "ood", "energy") == [0.6, 0.7]
    assert cifar10_detection.detector(records, "resnet9", "clothes", "energy") == []
    assert cifar10_detection.detector(records, "resnet20", "ood", "energy") == []


def test_other_data_are_beside_plain_scores_and_saturation_is_said_once():
    told = detection_records("deep_ensemble", (0.65, 0.65))
    plain = {"clothes": {"auroc_entropy": 0.7}}
    told.append(result("deterministic", 0, 0.2, other=plain, detectors={"clothes": {"energy": 0.6, "greyness": 0.99}}))
    rows = rows_of(cifar10_detection.detection_table(told, "resnet9"))
    assert ["deep ensemble of 4", "0.900", "0.650", "2"] in rows
    assert ["less saturation (no network)", "0.990", "", "1"] in rows
    said = cifar10_detection.by_saturation(in_rounds(fourth=told, third=told))
    assert said.endswith("detects clothes with 0.990.") and cifar10_detection.by_saturation(in_rounds(first=[])) == ""


# Settings


def test_settings_have_the_number_of_configurations_and_what_is_at_their_edge():
    tried = [
        tuned("svd", {"rate": 0.1, "beta": 0.01}, 0.4),
        tuned("svd", {"rate": 0.2, "beta": 0.01}, 0.3),
        tuned("svd", {"rate": 0.4, "beta": 0.03}, None),
    ]
    own = {"settings": {"rate": 0.2, "beta": 0.01}, "epochs": 8}
    both = [*several("low_rank_svd", BETTER, **own), *several("mixture_svd", BETTER, **own)]
    ensemble_records = several("deep_ensemble", ENSEMBLE, epochs=16, settings={"rate": 0.8})
    rounds = in_rounds(third=tried, fourth=[*ensemble_records, *both])
    ensemble, svd = rows_of(cifar10_settings.settings_table(rounds, "resnet9"))
    assert ensemble == ["deep ensemble of 4", "fourth", "16", "", "0.8", "", "", "", "0.0005", "", "none", ""]
    ranks = plan.RANKS["resnet9"]
    assert svd == [
        "SVD-initialised low-rank and SVD-initialised mixture of 4",
        "fourth", "16 + 8", f"{min(ranks)} to {max(ranks)}",
        "0.2", "0.01", "0.03", "0.02", "0.0005", "", "3, third (1 diverged)", "β least",
    ]  # fmt: skip
    assert "Of 1 choices, 1 lie at an edge" in cifar10_settings.edge_count(rounds)


def test_results_were_not_tuned_by_a_later_round():
    rounds = in_rounds(
        fourth=[tuned("full_rank", {"rate": 0.4}, 0.3)], third=several("full_rank", BETTER, settings={"rate": 0.4})
    )
    [row] = rows_of(cifar10_settings.settings_table(rounds, "resnet9"))
    assert row[-2:] == ["none", ""] and cifar10_settings.edge_count(rounds) == ""


def test_the_longest_training_of_a_round_is_an_edge():
    tried = [tuned("full_rank", {"rate": rate, "epochs": None}, 0.4) for rate in (0.2, 0.4, 0.8)]
    tried += [tuned("full_rank", {"rate": 0.4, "epochs": 24}, 0.3)]
    records = [*tried, *several("full_rank", BETTER, settings={"rate": 0.4, "epochs": 24})]
    found = cifar10_settings.find_edges(in_rounds(second=records), "second", "resnet9", "full_rank")
    assert found == {"epochs": "greatest"}


def test_the_lowest_validation_nll_of_a_family_is_marked_without_bold():
    records = [tuned("low_rank", {"rate": rate}, nll) for rate, nll in ((0.2, 0.5), (0.4, 0.4), (0.8, None))]
    table = cifar10_settings.tuning_table(records)
    assert [row[2:] for row in rows_of(table)] == [["0.5000", ""], ["0.4000", "yes"], ["diverged", ""]]
    assert "**" not in "".join(table)


def test_the_settings_of_the_page_are_those_of_the_results():
    rounds = cifar10_scores.read_rounds(FOLDER)
    for network in cifar10_scores.NETWORKS:
        for row in rows_of(cifar10_settings.settings_table(rounds, network)):
            method = next(key for key, name in cifar10_scores.NAMES.items() if name == row[0].split(" and ")[0])
            [name] = [each for each, words in cifar10_scores.ROUNDS.items() if words == row[1]]
            own = [one for one in cifar10_scores.results(rounds[name]) if one["method"] == method]
            own = [one for one in own if (one["network"], one["held_out"]) == (network, False)]
            assert {one["settings"]["rate"] for one in own} == {float(row[4])}
            assert {one["settings"]["beta"] for one in own} == {float(row[5] or 0)}


# The figure


def test_the_figure_has_the_differences_of_the_table_the_lowest_on_top():
    rounds = cifar10_scores.read_rounds(FOLDER)
    for network in cifar10_scores.NETWORKS:
        rows = cifar10_figure.figure_rows(rounds, network)
        means = [parts["test"].mean for parts in rows.values()]
        assert means == sorted(means) and "deep_ensemble" not in rows
        table = {row[0]: row for row in rows_of(cifar10_differences.grouped_table(rounds, network))}
        for method, parts in rows.items():
            row = table[cifar10_scores.NAMES[method]]
            for column, part in ((3, "test"), (5, "corrupted")):
                assert row[column].split()[0] == text.signed(parts[part].mean)


# The page


def test_a_page_without_records_says_so(tmp_path):
    assert "No results yet." in cifar10.page(tmp_path) and cifar10.own_page(tmp_path) == {}


def test_the_page_begins_with_what_a_reader_needs_and_folds_the_rest():
    above, *below = cifar10.page(FOLDER).split("<details")
    heads = [line.removeprefix("## ") for line in above.splitlines() if line.startswith("## ")]
    assert heads == ["ResNet-9", "ResNet-20", "Where it loses", "Beside one network", "Settings", "Everything else"]
    assert above.count("\n") < 160 and above.index("**ResNet-9 in one sentence:**") < above.index("## ResNet-9")
    summaries = [each.split("<summary>")[1].split("</summary>")[0] for each in below]
    detection = [f"Out-of-distribution images, {network}" for network in ("ResNet-9", "ResNet-20")]
    rounds = [f"The {name} round, all tables" for name in cifar10_scores.ROUNDS.values()]
    assert summaries == ["How it was run, and what was left out", *detection, *rounds]
    assert all(each.count("</details>") == 1 and not each.split("</details>")[1].strip() for each in below)
    # Tables of detection stand once: of the last round with an ensemble, or in the round that is not the last.
    assert "Out-of-distribution images" not in below[3] and "Out-of-distribution images, ResNet-20" in below[4]


def test_no_number_is_bold():
    for line in cifar10.page(FOLDER).splitlines():
        assert not line.startswith("|") or "**" not in line


def test_every_method_and_network_of_the_records_has_a_row_above():
    above, _ = cifar10.page(FOLDER).split("## Where it loses")
    for records in cifar10_scores.read_rounds(FOLDER).values():
        for one in records:
            if one["stage"] in ("tuning", "result") and not one.get("held_out"):
                title = cifar10_scores.NETWORKS[one.get("network", "resnet9")]
                section = above.split(f"## {title}\n")[1].split("\n## ")[0]
                method = one.get("method") or next(iter(plan.FAMILIES[one["family"]]))
                name = cifar10_scores.NAMES[method]
                assert f"| {name} |" in section or f"| *{name}, " in section


def test_a_second_round_comes_first_and_the_first_below_it(tmp_path):
    records = [*several("deep_ensemble", ENSEMBLE), *several("mixture", BETTER)]
    earlier = [one | {"test": one["test"] | {"nll": one["test"]["nll"] + 0.1}} for one in records]
    write(tmp_path, first=earlier, second=records)
    latest, first = cifar10.page(tmp_path).split("<summary>The first round, all tables</summary>")
    assert f"has a test NLL of {np.mean(BETTER):.3f} against {np.mean(ENSEMBLE):.3f}" in latest
    assert f"{np.mean(BETTER) + 0.1:.3f} ±" in first and "`experiments/results/cifar10/second`" in latest
    assert "`experiments/results/cifar10`" in first


def test_a_fourth_round_adds_seeds_to_the_third_where_settings_are_the_same(tmp_path):
    third = [*several("deep_ensemble", (0.16, 0.17), network="resnet20"), result("full_rank", 0, 0.3)]
    third += several("mixture", (0.15, 0.165), network="resnet20")
    fourth = [one | {"seed": one["seed"] + 1} for one in third if one["network"] == "resnet20"]
    fourth += several("deep_ensemble", ENSEMBLE)  # of ResNet-9, whose settings are not the third's
    write(tmp_path, third=third, fourth=fourth)
    pooled = cifar10_scores.read_round(tmp_path, cifar10_scores.FOURTH)
    # Seeds 1 and 2 of the fourth with 0.15 and 0.165, and seed 0 of the third.
    assert cifar10_scores.scores(pooled, "resnet20", "mixture", "test", "nll") == {1: 0.15, 2: 0.165, 0: 0.15}
    assert not cifar10_scores.scores(pooled, "resnet9", "full_rank", "test", "nll")
    page = cifar10.page(tmp_path)
    assert "| mixture of 4 | 100 | 0.155 ± 0.005 | −0.008 [" in page  # of three seeds
    assert "Fourth round. Planned and not reached, with their seeds: deterministic on ResNet-9 (0, 1, 2)" in page
    assert "deep ensemble of 4 on ResNet-9 (0, 1, 2)" in page.split("Third round. Planned")[1]


def test_networks_that_trained_longer_to_reproduce_a_number_are_named_with_their_epochs(tmp_path):
    again = {"network": "resnet20", "stage": "reproduction", "epochs": 100}
    write(tmp_path, third=[*several("deep_ensemble", ENSEMBLE), *several("deterministic", (0.2, 0.2), **again)])
    assert "accuracy of 95.00 % after 100 epochs (2 seeds)" in cifar10.page(tmp_path)
    bare = in_rounds(first=several("deep_ensemble", ENSEMBLE))
    assert "has no result, so nothing here reproduces" in cifar10_sentences.reproduction(bare)


def test_runs_with_one_seed_are_compared_where_their_settings_are_the_same(tmp_path):
    def records(shift, rate):
        return [
            result("swag", 1, 0.2 + shift, settings={"rate": 0.1}),
            result("full_rank", 1, 0.3 + 2 * shift, settings={"rate": rate}),
        ]

    write(tmp_path, third=records(0.0, 0.1), fourth=records(0.01, 0.2))
    said = cifar10_sentences.nominal_pairs(tmp_path)
    assert "The SWAG ResNet-9 with seed 1 has a test NLL of 0.2000 in the third round and 0.2100 in the fourth" in said


# The committed records


def test_a_mean_that_is_higher_with_every_seed_is_not_called_level():
    """The mixture with tied scales: the interval over three seeds reaches 0, and each of the seeds is behind."""
    rounds = cifar10_scores.read_rounds(FOLDER)
    found = cifar10_differences.latest_difference(rounds, "resnet9", "mixture_tied", "test")
    assert found is not None and found.verdict == "" and found.side == "higher"
    [first, *_] = cifar10_sentences.losses(rounds)
    assert f"tied-scale mixture of 4 +{found.mean:.3f} (the interval includes 0)" in first and "level" not in first
    assert f"| {found.cell()} |" in cifar10.page(FOLDER)


def test_the_summary_names_a_loss_where_the_mean_is_higher():
    base = several("deep_ensemble", ENSEMBLE)
    [line] = cifar10_sentences.losses(in_rounds(fifth=[*base, *several("mixture", (0.17, 0.19, 0.181))]))
    assert "mixture of 4 +0.010 (the interval includes 0); on corrupted images, mixture of 4 +0.021" in line
    [one] = cifar10_sentences.losses(in_rounds(fifth=[*base, *several("mixture", (0.15, 0.25, 0.25))]))
    assert "mixture of 4 +0.047 (the interval includes 0)" in one  # though not with every seed
    assert cifar10_sentences.losses(in_rounds(fifth=[*base, *several("mixture", (0.15, 0.14, 0.20))])) == []
    [few] = cifar10_sentences.losses(in_rounds(fifth=[*base, *several("mixture", (0.17, 0.19))]))
    assert "mixture of 4 +0.015 (2 seeds)" in few


def test_the_summary_names_mixtures_that_are_behind_one_network_on_every_network():
    rounds = cifar10_scores.read_rounds(FOLDER)
    said = cifar10_sentences.remark(rounds)
    for network, title in cifar10_scores.NETWORKS.items():
        found = [cifar10_differences.latest_difference(rounds, network, ours, "test") for ours in cifar10_scores.OURS]
        there = [each.mean > 0 for each in found if each is not None]
        assert f"{sum(there)} of {len(there)} on {title}" in said
        for ours in cifar10_scores.OURS:
            one = cifar10_differences.latest_difference(rounds, network, ours, "test", "deterministic")
            if one is not None and one.mean > 0:
                behind = next(
                    part for part in said.split("a lower one than ")[1].split(", and than ") if f"on {title}" in part
                )
                assert f"the {cifar10_scores.NAMES[ours]}" in behind


def test_low_rank_networks_stand_beside_one_network_of_their_round():
    records = [
        *several("deep_ensemble", ENSEMBLE),
        *several("deterministic", (0.20, 0.21, 0.22)),
        *several("low_rank_svd", (0.25, 0.27, 0.26)),
    ]
    earlier = [*several("full_rank", (0.19, 0.2, 0.21)), *several("mixture_svd", (0.18, 0.19, 0.2))]
    rounds = in_rounds(fifth=records, fourth=[*several("deep_ensemble", ENSEMBLE), *earlier])
    table = {row[0]: row[1:] for row in rows_of(cifar10_lead.beside_one_network(rounds, "resnet9"))}
    assert table.keys() == {"SVD-initialised low-rank", "SVD-initialised mixture of 4"}
    apart = np.array([0.05, 0.06, 0.04])
    half = T2 * apart.std(ddof=1) / 3**0.5
    shown = f"+0.050 [+{0.05 - half:.3f}, +{0.05 + half:.3f}] worse"
    assert table["SVD-initialised low-rank"] == [shown, "+0.100 [+0.050, +0.150] worse", "–", "–"]
    assert table["SVD-initialised mixture of 4"][:2] == ["–", "–"]
    assert table["SVD-initialised mixture of 4"][2].startswith("−0.010 [−0.010, −0.010]")
    assert cifar10_lead.beside_one_network(rounds, "resnet20") == []


def test_a_mixture_that_an_earlier_round_has_as_worse_is_named():
    base = several("deep_ensemble", ENSEMBLE)
    rounds = in_rounds(
        fifth=[*base, *several("mixture_svd", (0.10, 0.25, 0.2))],
        fourth=[*base, *several("mixture_svd", (0.26, 0.27, 0.29))],
    )
    [said] = [line for line in cifar10_lead.where_it_loses(rounds) if "in an earlier round" in line]
    assert "the SVD-initialised mixture of 4 on ResNet-9 (test images, fourth round, +0.103 [" in said
    assert said.count("fourth round") == 2  # and on corrupted images
    last = cifar10_lead.where_it_loses(in_rounds(fifth=rounds["fourth"], fourth=rounds["fifth"]))
    assert not any("in an earlier round" in line for line in last)


def test_the_summary_says_what_was_cut_and_how_held_out_classes_are_detected():
    rounds = cifar10_scores.read_rounds(FOLDER)
    said = cifar10_left_out.cut_by_time(rounds)
    fifth = rounds[cifar10_scores.FIFTH]
    assert "On ResNet-20, the last round did not reach low-rank, mixture of 4 and MC dropout;" in said
    for method in ("low_rank", "mixture", "dropout"):
        assert not cifar10_scores.scores(fifth, "resnet20", method, "test", "nll")
    few = said.split("On ResNet-20, ")[1].split("fewer than three seeds: ")[1].split(";")[0]
    count = {name: len(cifar10_scores.scores(fifth, "resnet20", name, "test", "nll")) for name in cifar10_scores.NAMES}
    assert few == " and ".join(cifar10_scores.NAMES[name] for name, seeds in count.items() if 0 < seeds < 3)
    detection = cifar10_detection.held_out(rounds)
    fourth = rounds[cifar10_scores.FOURTH]
    for method in ("deep_ensemble", "mixture_svd"):
        by = [np.mean(each) for each in cifar10_detection.detected(fourth, "resnet9", method, "ood")]
        assert f"{cifar10_scores.NAMES[method]} {by[0]:.3f} and {by[1]:.3f}" in detection
    assert cifar10_left_out.cut_by_time({}) == cifar10_detection.held_out({}) == ""


def test_the_page_says_how_near_its_small_networks_are_to_the_published_ones():
    fifth = cifar10_scores.read_round(FOLDER, cifar10_scores.FIFTH)
    own = list(cifar10_scores.scores(fifth, "resnet20", "deterministic", "test", "accuracy").values())
    first = cifar10_scores.scores(
        cifar10_scores.read_round(FOLDER, ""), "resnet20", "deterministic", "test", "accuracy"
    )
    low, high = cifar10_sentences.PUBLISHED
    assert len(own) == 3 and low <= np.mean(own) <= high
    shown = (
        f"{100 * np.mean(own):.2f} % after 64 epochs (3 seeds), as in the table, and {100 * first[0]:.2f} % after 100"
    )
    page = cifar10.page(FOLDER)
    assert shown in page and "which it reproduces within 0.3 points." in page
    parts = [nll for one in fifth if one["method"] == "mixture_svd" for nll in one.get("components", ())]
    assert len(parts) == 3 * 4 and f"have a test NLL of {min(parts):.3f} to {max(parts):.3f}." in page


def test_the_disclosures_count_the_rounds_and_name_runs_that_differ_with_one_seed():
    said = " ".join(cifar10.disclosures(FOLDER))
    assert f"There were {cifar10.COUNTED[len(cifar10_scores.ROUNDS)]} rounds." in said
    third, fourth = (
        {one["seed"]: one["test"]["nll"] for one in own if one["stage"] == "result" and one["network"] == "resnet20"
         and one["method"] == "deterministic"}
        for own in map(read_lines, (FOLDER / "third", FOLDER / "fourth"))
    )  # fmt: skip
    assert f"test NLL of {third[1]:.4f} in the third round and {fourth[1]:.4f} in the fourth" in said
    records = cifar10_scores.read_round(FOLDER, "fourth")
    one, every = (
        cifar10_scores.scores(records, "resnet9", method, "test", "nll") for method in ("low_rank_tied", "mixture_tied")
    )
    bad = [seed for seed in every if every[seed] > one[seed]]
    assert f"With {len(bad)} of {len(every)} seeds the tied-scale mixture of 4 on ResNet-9" in said
    assert all(f"{every[seed]:.3f} against {one[seed]:.3f}" in said for seed in bad) and bad


def test_the_committed_page_is_that_of_the_committed_records():
    page = (ROOT / "docs" / "results" / cifar10_sentences.PAGE).read_text(encoding="utf-8")
    assert page == cifar10.page(FOLDER)
    assert f"[{cifar10.TITLE}]({cifar10_sentences.PAGE})" in (ROOT / "docs" / "results" / "index.md").read_text(
        encoding="utf-8"
    )
