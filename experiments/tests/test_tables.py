"""The comparison on tables: plans, methods, resuming, and what is read from its records."""

import gzip
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm
from singularbayes_experiments.problems import table_comparison, table_defaults, table_methods, table_sets
from singularbayes_experiments.problems.table_scores import class_scores, value_scores
from singularbayes_experiments.problems.table_sets import Table
from singularbayes_experiments.report.table_summary import Comparison, statements
from singularbayes_experiments.runs.tables import run_pieces

from singularbayes.estimators import BayesianMLPRegressor
from singularbayes.estimators.defaults import DEFAULTS

DOCS = Path(__file__).parents[2] / "docs"
RNG = np.random.default_rng(0)


def made_up(classes: bool) -> Table:
    x = RNG.normal(size=(90, 3))
    y = x[:, 0] + 0.3 * RNG.normal(size=90)
    rows = np.arange(90)
    splits = tuple((rows[rows % 5 != i], rows[rows % 5 == i]) for i in range(5))
    return Table("made up", x, np.digitize(y, [-0.5, 0.5]) if classes else y, splits)


def run(piece) -> dict:
    """A piece of `test_pieces_are_done_once`, found by its module's name in other processes."""
    if piece[0] == "bad":
        raise RuntimeError("no")
    return {"doubled": 2 * piece[1]}


def test_every_method_has_defaults_and_eight_configurations():
    for method in (*table_methods.REGRESSION.values(), *table_methods.CLASSIFICATION.values()):
        assert method.configurations[0] == {} and len(method.configurations) == 9
        assert len({repr(one) for one in method.configurations}) == 9


def test_the_plan_has_every_method_on_five_splits_with_defaults_and_tuned_once():
    pieces = table_comparison.pieces()
    assert len(set(pieces)) == len(pieces)
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
    for name in ("beta", "eta", "learning_rate_init", "activation"):
        assert getattr(default, name) == chosen[name]
    assert repr(DEFAULTS.own_prior) == repr(table_defaults.PRIORS[chosen["prior"]])
    assert (default.hidden_layer_sizes, default.rank) == ((64, 64), 16) and chosen["network"] == "64-64, rank 16"
    assert DEFAULTS.batch_size(1_000) == chosen["batch_size"] and chosen["noise"] == "head"
    assert DEFAULTS.epochs(25) * 25 == chosen["steps"]


def test_scores_are_those_of_scipy():
    y, mean, std = RNG.normal(size=(3, 50))
    std = np.abs(std) + 0.1
    scores = value_scores(y, mean, std, mean - std, mean + std)
    assert scores["nll"] == pytest.approx(-norm.logpdf(y, mean, std).mean())
    assert scores["coverage"] == np.mean(np.abs(y - mean) <= std)
    assert scores["width"] == pytest.approx(2 * std.mean())
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
    assert record["results"][1]["nll"] < 1.5


def test_tables_with_too_many_rows_for_a_method_are_left_out(monkeypatch):
    monkeypatch.setattr(table_comparison, "table", lambda name: made_up(classes=False))
    monkeypatch.setitem(table_methods.REGRESSION, "few", table_methods.Method(lambda: None, {}, most_rows=20))
    assert table_comparison.run(("defaults", "yacht", 0, "few")) == {"left_out": "more than 20 rows"}


def test_pieces_are_done_once(tmp_path):
    out = tmp_path / "records.jsonl"
    out.write_text(json.dumps({"piece": ["good", 1], "doubled": 7}) + "\n")
    assert run_pieces(__name__, [("good", 1), ("good", 2), ("bad", 3)], out, minutes=2, cores=1) == 0
    first, *others = map(json.loads, out.read_text().splitlines())
    assert first["doubled"] == 7 and {tuple(one["piece"]) for one in others} == {("good", 2), ("bad", 3)}
    by_piece = {one["piece"][0]: one for one in others}
    assert by_piece["good"]["doubled"] == 4 and "RuntimeError: no" in by_piece["bad"]["error"]


def comparison() -> Comparison:
    def results(nll):
        return {split: {"nll": nll + 0.1 * split, "rmse": nll, "coverage": 0.92, "rows": 100} for split in range(3)}

    values = {"ours": 1.0, "ours, full rank": 1.0, "deep ensemble": 2.0, "NGBoost": 0.5}
    return Comparison({name: {method: results(nll) for method, nll in values.items()} for name in ("a", "b")})


def test_differences_are_paired_and_ranks_are_means_over_tables():
    found = comparison()
    difference, error, splits = found.difference("a", "ours", "NGBoost", "nll")
    assert (difference, splits) == (pytest.approx(0.5), 3) and error == pytest.approx(0, abs=1e-12)
    assert found.mean("a", "ours", "nll")[:2] == (pytest.approx(1.1), pytest.approx(0.1 / np.sqrt(3)))
    ranks = {"ours": 2.5, "ours, full rank": 2.5, "deep ensemble": 4.0, "NGBoost": 1.0}
    assert found.ranks(["a", "b"], "nll") == ranks


def test_statements_are_counted_by_table():
    holds = {one.sentence: len(one.holds) for one in statements(comparison(), ["a", "b"])}
    assert list(holds.values()) == [0, 2, 0, 2, 2, 2]


def test_the_page_shows_the_records(tmp_path):
    specification = importlib.util.spec_from_file_location("tables_page", DOCS / "scripts" / "tables.py")
    script = importlib.util.module_from_spec(specification)
    sys.modules["tables_page"] = script
    specification.loader.exec_module(script)
    copy = tmp_path / "page.md"
    copy.write_text(script.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    texts = script.blocks(Comparison.read(script.RECORDS), Comparison.read(script.RECORDS, "tuned"))
    assert all(f"<!-- tables.py: {name} -->" in copy.read_text(encoding="utf-8") for name in texts)
    script.fill(copy, texts)
    assert copy.read_text(encoding="utf-8") == script.PAGE.read_text(encoding="utf-8")
