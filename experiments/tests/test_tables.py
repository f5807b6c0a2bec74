"""The comparison on tables: plans, methods, resuming, and what is read from its records."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm, t
from singularbayes_experiments.problems import (
    table_comparison,
    table_configurations,
    table_defaults,
    table_methods,
    table_sets,
)
from singularbayes_experiments.problems.table_scores import class_scores, scores_of_fit, value_scores
from singularbayes_experiments.problems.table_sets import Table
from singularbayes_experiments.runs.tables import KEPT, keep_records, read_records, run_pieces

from singularbayes.estimators import BayesianMLPClassifier, BayesianMLPRegressor
from singularbayes.estimators.defaults import DEFAULTS

DOCS = Path(__file__).parents[2] / "docs"
RNG = np.random.default_rng(0)


def made_up(classes: bool) -> Table:
    x = RNG.normal(size=(90, 3))
    y = x[:, 0] + 0.3 * RNG.normal(size=90)
    rows = np.arange(90)
    splits = tuple((rows[rows % 5 != i], rows[rows % 5 == i]) for i in range(5))
    return Table("made up", x, np.digitize(y, [-0.5, 0.5]) if classes else y, splits)


def test_every_method_has_defaults_and_eight_configurations():
    for method in (*table_methods.REGRESSION.values(), *table_methods.CLASSIFICATION.values()):
        assert method.configurations[0] == {} and len(method.configurations) == 9
        assert len({repr(one) for one in method.configurations}) == 9


def test_the_plan_has_every_method_on_five_splits_with_defaults_and_tuned_once():
    pieces = table_comparison.pieces({"regression": "a", "classification": "b"})
    assert len(set(pieces)) == len(pieces)
    assert {p[4:] for p in pieces if p[1] == "yacht" and p[3] in table_methods.OURS} == {("a",)}
    assert {p[4:] for p in pieces if p[1] == "digits" and p[3] == "ours"} == {("b",)}
    assert {p[4:] for p in pieces if p[3] not in table_methods.OURS} == {()}
    first = {p[1] for p in pieces[:18]}
    assert {p[3] for p in pieces[:18]} == {"ours"} and first == {*table_sets.REGRESSION, *table_sets.CLASSIFICATION}
    for name in (*table_sets.REGRESSION, *table_sets.CLASSIFICATION):
        own = [piece for piece in pieces if piece[1] == name]
        methods = set(table_comparison.methods_of(name))
        assert {(p[2], p[3]) for p in own if p[0] == "defaults"} == {(s, m) for s in range(5) for m in methods}
        assert sorted(p[3] for p in own if p[0] == "tuned") == sorted(methods)


def test_the_search_has_every_level_about_as_often_and_reads_no_test_rows():
    found = table_defaults.configurations()
    for name, levels in table_defaults.LEVELS.items():
        counts = [sum(one[name] == level for one in found) for level in levels]
        assert min(counts) >= len(found) // len(levels)
    one = made_up(classes=False)
    for split, (train, test) in enumerate(one.splits):
        fitted, scored = one.validation(split)
        assert set(fitted) | set(scored) == set(train) and not (set(fitted) | set(scored)) & set(test)
        assert not set(fitted) & set(scored) and len(scored) == pytest.approx(len(train) / 5, abs=1)


def test_the_defaults_are_the_configuration_that_the_search_chose():
    path = Path(__file__).parents[1] / "results" / "tables" / "search.jsonl.gz"
    records = list(map(json.loads, gzip.decompress(path.read_bytes()).decode().splitlines()))
    ranks = table_defaults.mean_ranks(records)
    best, next_best = sorted(ranks, key=ranks.get)[:2]
    text = (DOCS / "estimators_results.md").read_text(encoding="utf-8")
    assert f"mean rank {ranks[best]:.1f} of {len(ranks)}; the next have {ranks[next_best]:.1f}" in text
    assert f"{len(records)} of {len(table_defaults.pieces())} fits" in text and f"Configuration {best}\n" in text
    chosen = table_defaults.configurations()[best]
    assert next(r["settings"] for r in records if r["configuration"] == best) == chosen
    default = BayesianMLPRegressor()
    for name in ("eta", "activation"):
        assert getattr(default, name) == chosen[name]
    assert default.rank == 16 and chosen["network"] == "64-64, rank 16"  # a later stage chose the width
    assert chosen["noise"] == "head"
    before = table_configurations.CONFIGURATIONS["regression"][0]
    found = before.prior, before.beta, before.rate, before.steps, before.batch
    assert found == tuple(chosen[name] for name in ("prior", "beta", "learning_rate_init", "steps", "batch_size"))


@pytest.mark.parametrize("estimator", [BayesianMLPRegressor, BayesianMLPClassifier])
def test_the_other_defaults_are_the_configuration_that_was_chosen_on_validation_rows(estimator):
    task = "regression" if estimator is BayesianMLPRegressor else "classification"
    chosen = table_configurations.choice(read_records(KEPT / "candidates.jsonl.gz"), task)
    model = estimator(max_iter="auto")
    for rows in (100, 1_000, 10_000):
        recipe = model._recipe(rows)
        expected = chosen.arguments(rows)
        assert (recipe.batch_size, recipe.epochs) == (expected["batch_size"], expected["max_iter"])
        found = recipe.beta, recipe.rate, repr(DEFAULTS.own_prior)
        assert found == (chosen.beta, chosen.rate, repr(expected["prior"]))
        assert model.rank == expected["rank"]
        assert model.hidden_layer_sizes == expected.get("hidden_layer_sizes", (64, 64))


def test_the_cheapest_configuration_within_a_standard_error_is_chosen(monkeypatch):
    one, two, three = (table_configurations.Configuration("normal 0.3", 0.1, 0.01, steps) for steps in (3, 2, 1))
    monkeypatch.setitem(table_configurations.CONFIGURATIONS, "regression", (one, two, three))
    assert table_configurations.choice([], "regression") is one

    def records(values):
        labels = [one.label, two.label, three.label]
        return [
            {
                "piece": ["regression", "a", split, "p"],
                "scores": {k: {"nll": v} for k, v in zip(labels, each, strict=True)},
            }
            for split, each in enumerate(values)
        ]

    # `two` is as often ahead of `one` as behind, `three` is always last.
    assert table_configurations.choice(records([(1, 2, 3), (2, 1, 3)] * 3), "regression") is two
    assert table_configurations.choice(records([(1, 2, 3), (1, 3, 2)] * 3), "regression") is one
    partial = [*records([(1, 2, 3)] * 3), {"piece": ["regression", "b", 0, "p"], "scores": {three.label: {"nll": 0}}}]
    assert table_configurations.choice(partial, "regression") is one


def test_later_stages_start_from_what_the_one_before_chose():
    first, second = table_configurations.CONFIGURATIONS["regression"], table_configurations.RANKS["regression"]

    def records(configurations, best, stage, splits=2):
        scores = {one.label: {"nll": float(one != best)} for one in configurations}
        return [{"piece": ["regression", "a", split, "p", *stage], "scores": scores} for split in range(splits)]

    before = records(first, first[5], [])
    assert table_configurations.choice(before, "regression") == first[5] == second[0]  # no records of later stages
    assert table_configurations.choice([*before, *records(second, second[2], ["ranks"], 1)], "regression") == first[5]
    later = [*before, *records(second, second[2], ["ranks"])]
    assert table_configurations.choice(later, "regression") == second[2] and second[2].rank == 64
    longer = table_configurations.configurations_of("rows", "regression", later)
    assert {one.rank for one in longer} == {64} and longer[0] == second[2]
    assert table_configurations.choice([*later, *records(longer, longer[2], ["rows"])], "regression").epochs == 100
    assert table_configurations.by_label("regression", longer[2].label) == longer[2]
    assert {piece[3:] for piece in table_configurations.pieces("rows", later)} == {
        (one.label, "rows") for one in longer
    }


def test_a_rank_by_rows_grows_and_equal_configurations_are_fitted_once(monkeypatch):
    assert [table_configurations.rank_by_rows(rows) for rows in (300, 4_999, 5_000, 20_000)] == [16, 16, 32, 64]
    fits = []
    monkeypatch.setattr(table_configurations, "table", lambda name: made_up(classes=False))
    monkeypatch.setattr(table_configurations, "scores_of_fit", lambda *arguments: fits.append(arguments[2]))
    scores = {}
    for piece in table_configurations.pieces("robust"):
        if piece[:3] == ("regression", "yacht", 0):
            scores |= table_configurations.run(piece)["scores"]
    assert scores.keys() == {one.label for one in table_configurations.ROBUST} and len(fits) == 6 < len(scores)
    large = [piece for piece in table_configurations.pieces("robust") if piece[1:3] == ("kin8nm", 0)]
    assert [piece[3] for piece in large] == [one.label for one in table_configurations.ROBUST]


def test_full_rank_has_the_settings_of_ours_but_their_rank():
    seen = table_methods._full_rank(lambda x, y, seed, **settings: settings)(0, 0, 0, rank=64, beta=0.1)
    assert seen == {"rank": None, "beta": 0.1}


@pytest.mark.parametrize("stage", ["", "ranks", "robust"])
def test_configurations_read_no_test_rows_and_share_programs(stage, monkeypatch):
    one, seen = made_up(classes=False), []
    monkeypatch.setattr(table_configurations, "table", lambda name: one)
    monkeypatch.setattr(
        table_configurations,
        "scores_of_fit",
        lambda one, fit, settings, train, valid, seed: seen.append((train, valid)),
    )
    own = [piece for piece in table_configurations.pieces(stage) if piece[:3] == ("regression", "yacht", 1)]
    labels = [label for piece in own for label in table_configurations.run(piece)["scores"]]
    assert sorted(labels) == sorted(
        each.label for each in table_configurations.configurations_of(stage, "regression", [])
    )
    test = set(one.splits[1][1])
    assert all(not test & (set(train) | set(valid)) for train, valid in seen)


def test_scores_are_those_of_scipy():
    y, mean, std = RNG.normal(size=(3, 50))
    std = np.abs(std) + 0.1
    scores = value_scores(y, mean, std, mean - std, mean + std)
    assert scores["nll"] == pytest.approx(-norm.logpdf(y, mean, std).mean())
    assert scores["coverage"] == np.mean(np.abs(y - mean) <= std)
    assert scores["width"] == pytest.approx(2 * std.mean())
    heavy = value_scores(y, mean, std, mean - std, mean + std, freedom=5.0)
    scale = std * np.sqrt(3 / 5)  # the variance of Student-t is ν/(ν − 2) times its squared scale
    assert heavy["nll"] == pytest.approx(-t.logpdf(y, 5, mean, scale).mean())
    assert heavy["normal_nll"] == scores["nll"] and heavy["rmse"] == scores["rmse"]
    draws = mean + scale * RNG.standard_t(5, size=(4_000, 50))
    crps = np.abs(draws - y).mean() - 0.5 * np.abs(draws[:2_000] - draws[2_000:]).mean()
    assert heavy["crps"] == pytest.approx(crps, rel=0.03)
    draws = mean + std * RNG.normal(size=(4_000, 50))
    crps = np.abs(draws - y).mean() - 0.5 * np.abs(draws[:2_000] - draws[2_000:]).mean()
    assert scores["crps"] == pytest.approx(crps, rel=0.03)
    p = np.array([[0.7, 0.3], [0.4, 0.6]])
    assert class_scores(np.array([0, 0]), p) == {
        "nll": pytest.approx(-np.log([0.7, 0.4]).mean()),
        "brier": pytest.approx((2 * 0.09 + 2 * 0.36) / 2),
        "accuracy": 0.5,
    }


@pytest.mark.parametrize("method", ["boosted quantiles", "Gaussian process"])
def test_a_tuned_method_is_the_configuration_with_the_least_validation_nll(method, monkeypatch):
    one = made_up(classes=False)
    monkeypatch.setattr(table_comparison, "table", lambda name: one)
    monkeypatch.setattr(table_comparison, "TUNED_SPLITS", (0, 1))
    record = table_comparison.run(("tuned", "yacht", 0, method))
    options = table_methods.REGRESSION[method].configurations[1:]
    assert record["choice"] == options[int(np.argmin(record["validation_nll"]))] and len(record["validation_nll"]) == 8
    assert set(record["results"]) == {0, 1} and record["results"][0]["rows"] == 18
    fit = table_methods.REGRESSION[method].fit
    assert record["results"][1]["nll"] == scores_of_fit(one, fit, record["choice"], *one.splits[1], 1)["nll"]


def test_tables_with_too_many_rows_for_a_method_are_left_out(monkeypatch):
    monkeypatch.setattr(table_comparison, "table", lambda name: made_up(classes=False))
    monkeypatch.setitem(table_methods.REGRESSION, "few", table_methods.TableMethod(lambda: None, {}, most_rows=20))
    assert table_comparison.run(("defaults", "yacht", 0, "few")) == {"left_out": "more than 20 rows"}


def test_pieces_are_done_once(tmp_path):
    out = tmp_path / "records.jsonl"
    out.write_text(json.dumps({"piece": ["good", 1], "doubled": 7}) + "\n")
    assert run_pieces("doubling", [("good", 1), ("good", 2), ("bad", 3)], out, minutes=2, cores=1) == 0
    first, *others = map(json.loads, out.read_text().splitlines())
    assert first["doubled"] == 7 and {tuple(one["piece"]) for one in others} == {("good", 2), ("bad", 3)}
    by_piece = {one["piece"][0]: one for one in others}
    assert by_piece["good"]["doubled"] == 4 and "RuntimeError: no" in by_piece["bad"]["error"]
    assert run_pieces("doubling", [("good", 5)], out, minutes=2, cores=1, known=[{"piece": ["good", 5]}]) == 0
    kept = tmp_path / "kept.jsonl.gz"
    assert keep_records(out, kept) == 2 and keep_records(out, kept) == 0
    assert [record["piece"] for record in read_records(kept)] == [["good", 1], ["good", 2]]
