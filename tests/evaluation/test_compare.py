"""A comparison: standard errors over seeds, SciPy's paired t interval, and who is best by such intervals."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import singularbayes as sb
from singularbayes.evaluation import Evaluation
from singularbayes.metrics import Measure

RNG = np.random.default_rng(2)
SCORES = {"low": RNG.normal(0.95, 0.01, 5), "full": RNG.normal(0.93, 0.01, 5), "plain": RNG.normal(0.9, 0.01, 5)}


def run(method, seed, task="classification", cost=None, **metrics):
    return Evaluation(method, task, seed, metrics, num_trained=cost)


def runs(scores, name="accuracy", task="classification"):
    return [run(m, seed, task, **{name: float(v)}) for m, own in scores.items() for seed, v in enumerate(own)]


def column(scores, name="accuracy", **options):
    return sb.compare(runs(scores, name), [name], **options).columns[0]


def test_cells_are_mean_and_standard_error_over_seeds():
    for cell, own in zip(column(SCORES).cells, SCORES.values(), strict=True):
        assert cell.mean == pytest.approx(own.mean()) and cell.error == pytest.approx(stats.sem(own))
        assert cell.defined == cell.seeds == 5


def test_the_best_is_the_one_whose_paired_intervals_to_all_others_exclude_0():
    apart = {
        name: SCORES["low"] - gap + 0.002 * RNG.normal(size=5) for name, gap in (("a", 0), ("b", 0.02), ("c", 0.1))
    }
    for name in ("b", "c"):
        assert stats.ttest_rel(apart["a"], apart[name]).confidence_interval(0.95).low > 0
    assert [cell.best for cell in column(apart).cells] == [True, False, False]
    assert [cell.best for cell in column(apart, "nll").cells] == [False, False, True]
    # The gap between means stays; where its error is as large, nobody is best.
    noisy = apart | {"b": apart["a"] - 0.02 * np.array([1, -1, 3, -2, 0])}
    assert noisy["b"].mean() < apart["a"].mean() and not any(cell.best for cell in column(noisy).cells)


def test_differences_have_the_interval_of_the_paired_t_test():
    found = [cell.difference for cell in column(SCORES, reference="full", level=0.9).cells]
    assert found[1] is None
    for i, name in ((0, "low"), (2, "plain")):
        test = stats.ttest_rel(SCORES[name], SCORES["full"])
        interval = test.confidence_interval(0.9)
        assert (found[i].low, found[i].high) == pytest.approx((interval.low, interval.high))
        assert found[i].mean == pytest.approx((SCORES[name] - SCORES["full"]).mean()) and found[i].pairs == 5


def test_only_seeds_that_both_have_are_paired():
    every = [run("a", s, nll=v) for s, v in ((0, 1.0), (1, 2.0), (2, 9.0))]
    every += [run("b", s, nll=v) for s, v in ((1, 2.5), (0, 1.25), (7, 3.0))]
    difference = sb.compare(every, ["nll"]).columns[0].cells[1].difference
    assert (difference.mean, difference.pairs) == (pytest.approx(0.375), 2)
    apart = sb.compare([run("a", 0, nll=1.0), run("b", 1, nll=2.0)], ["nll"]).columns[0].cells[1].difference
    assert apart.pairs == 0 and math.isnan(apart.mean)
    single = sb.compare([run("a", 0, nll=1.0), run("b", 0, nll=2.0)], ["nll"]).columns[0].cells[1].difference
    assert (single.mean, single.pairs) == (1.0, 1) and math.isnan(single.low)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_order_of_evaluations_changes_the_order_of_rows_alone(data):
    every = runs(SCORES)
    shuffled = data.draw(st.permutations(every))
    one, other = (sb.compare(r, ["accuracy"], reference="low") for r in (every, shuffled))
    for name in SCORES:
        i, j = one.methods.index(name), other.methods.index(name)
        a, b = one.columns[0].cells[i], other.columns[0].cells[j]
        assert (a.mean, a.error, a.best) == (pytest.approx(b.mean), pytest.approx(b.error), b.best)
    flipped = sb.compare(every, ["accuracy"], reference="full").columns[0].cells[0].difference
    low = one.columns[0].cells[1].difference
    assert (flipped.low, flipped.high) == pytest.approx((-low.high, -low.low))


def test_nobody_is_best_with_one_seed_or_alone():
    assert not any(cell.best for cell in column({"a": [0.98], "b": [0.5]}).cells)
    assert not any(cell.best for cell in column({"only": [0.5, 0.51]}).cells)


def test_coverage_is_best_nearest_its_level_and_some_measures_have_no_best():
    scores = {"wide": [1.0, 0.99], "near": [0.93, 0.94], "narrow": [0.6, 0.61]}
    assert [cell.best for cell in column(scores, "picp_95_total", level=0.5).cells] == [False, True, False]
    assert not any(cell.best for cell in column(scores, "variance_total").cells)
    assert column(scores, "picp_95_total").measure.arrow == "→ 0.95"


def test_a_value_that_is_missing_or_infinite_is_shown_as_such():
    found = column({"a": [math.nan, math.nan], "b": [0.5, math.nan], "c": [math.inf, 0.1], "d": [0.3, 0.2]}, "nll")
    texts = [found.text(cell) for cell in found.cells]
    assert texts == ["–", "0.500 (1 of 2)", "∞", "0.250 ± 0.050"]
    assert not any(cell.best for cell in found.cells)


def test_one_seed_has_no_deviation():
    found = column({"a": [0.5], "b": [0.25]})
    assert found.text(found.cells[0]) == "0.500"
    assert sb.compare(runs({"a": [0.5]}), ["accuracy"]).caption == "Classification: one seed."


@pytest.mark.parametrize(
    ("largest", "text"), [(0.98123, "0.981"), (1.0, "1.000"), (5.634, "5.63"), (22.19, "22.2"), (0.0213, "0.0213")]
)
def test_columns_show_three_digits_of_their_largest(largest, text):
    found = column({"a": [largest], "b": [0.0]}, "nll")
    assert found.number(largest) == text
    assert found.number(-1e-12) == found.number(0.0) == "0." + "0" * found.decimals


def test_costs_are_columns_too_and_counts_have_no_deviation():
    every = [run(m, seed, cost=c, accuracy=0.5) for m, c in (("a", 20802), ("b", 7202)) for seed in (0, 1)]
    found = sb.compare(every, ["accuracy", "num_trained"])
    assert [c.measure.name for c in found.columns] == ["accuracy", "num_trained"]
    count = found.columns[1]
    assert [count.text(cell) for cell in count.cells] == ["20,802", "7,202*"]
    assert [cell.best for cell in count.cells] == [False, True]


def test_time_is_shown_but_not_ranked():
    costs = {"seconds": 1.0, "train_seconds": 2.0}
    every = [
        Evaluation(m, "regression", seed, {"rmse": f}, **{n: f * v for n, v in costs.items()})
        for m, f in (("a", 1.0), ("b", 2.0))
        for seed in (0, 1)
    ]
    rmse, *found = sb.compare(every, ["rmse", *costs]).columns
    assert [cell.best for cell in rmse.cells] == [True, False]
    assert not any(cell.best for column in found for cell in column.cells)
    assert [column.measure.arrow for column in found] == ["↓"] * 2


def test_a_frame_has_every_number_and_the_printed_table_marks_the_best():
    every = [
        run(method, seed, cost=cost, accuracy=0.9 + a + seed / 100, r2=r)
        for method, cost, a, r in (("A", 20802, 0.01, 0.25), ("low", 7202, 0.05, 0.5), ("c", 9, 0.0, -1.5))
        for seed in (0, 1)
    ]
    table = sb.compare(every, ["num_trained", "accuracy", "r2"], reference="low")
    frame = table.to_frame()
    assert frame.index.names == ["method", "metric"] and len(frame) == 9
    for i, method in enumerate(table.methods):
        for column in table.columns:
            row, cell = frame.loc[(method, column.measure.name)], column.cells[i]
            assert (row["mean"], row["error"], row["seeds"], row["best"]) == (cell.mean, cell.error, 2, cell.best)
            gap = (row["difference"], row["low"], row["high"])
            own = cell.difference
            expected = (math.nan,) * 3 if own is None else (own.mean, own.low, own.high)
            np.testing.assert_array_equal(gap, expected)
    assert frame["best"].sum() == 3 and frame.loc[("A", "num_trained"), "difference"] == 13_600
    lines = str(table).splitlines()
    assert repr(table) == str(table) and len(lines) == 2 + 3 + 1
    for part in ("20,802", "0.955 ± 0.005*", "0.915 ± 0.005", "−1.50 ± 0.00", "accuracy ↑", "trainable parameters ↓"):
        assert part in str(table)
    assert "better than all others, where paired 95 % intervals exclude 0" in lines[-1]
    assert "mean ± standard error over 2 seeds" in lines[-1]


def test_the_usual_columns_are_those_of_the_task_with_all_foreign_sets():
    p = sb.ClassPredictive(RNG.dirichlet([1, 1], 30), np.zeros((30, 2)), 1)
    found = sb.evaluate(p, np.arange(30) % 2, ood={"near": p, "far": p})
    names = [column.measure.name for column in sb.compare([found]).columns]
    assert names[:5] == ["accuracy", "auroc", "nll", "brier", "ece"]  # predictions have no parameters
    stored = sb.compare([replace(found, num_trained=5, num_stored=30)]).columns[0]
    assert (stored.measure.name, stored.measure.label) == ("num_stored", "parameters")  # what predictions are made from
    assert names[-4:] == [f"{where}/auroc_ood_{by}" for where in ("near", "far") for by in ("mi", "entropy")]


def test_a_metric_of_one_s_own_comes_with_its_measure():
    found = sb.compare(runs(SCORES, "gain"), [Measure("gain", "higher", label="my gain")])
    assert found.columns[0].measure.label == "my gain" and found.columns[0].measure.arrow == "↑"


def test_wrong_input_is_refused():
    one = run("a", 0, nll=1.0)
    assert str(sb.compare(one, ["nll"])) == str(sb.compare([one], ["nll"]))
    with pytest.raises(ValueError, match="one or more evaluations; got none"):
        sb.compare([])
    with pytest.raises(TypeError, match="evaluations, as evaluate returns them; got dict"):
        sb.compare([one, {"nll": 1.0}])
    with pytest.raises(ValueError, match=r"of one task; got classification \('a'\) and regression \('b'\)"):
        sb.compare([one, run("b", 0, "regression", nll=1.0)])
    with pytest.raises(
        ValueError, match=r"'a' and 'b' differ in \['far/nll'\]. Evaluate them with the same sets in ood"
    ):
        sb.compare([one, run("b", 0, nll=1.0, **{"far/nll": 2.0})])
    with pytest.raises(ValueError, match="one evaluation per method and seed; got two of 'a', 0"):
        sb.compare([one, one])
    with pytest.raises(ValueError, match=r"reference to be one of \['a'\]; got reference='b'"):
        sb.compare([one], reference="b")
    with pytest.raises(ValueError, match="There is no 'accuracy' in the evaluation of 'a'"):
        sb.compare([one], ["accuracy"])
    with pytest.raises(ValueError, match=r"There is no measure 'auc'\. Near are \['auroc'.*\]\. Known measures: \["):
        sb.compare([one], ["auc"])
    with pytest.raises(ValueError, match=r"one or more different metrics; got \['nll', 'nll'\]"):
        sb.compare([one], ["nll", "nll"])
    with pytest.raises(ValueError, match="0 < level < 1; got level=95"):
        sb.compare([one], ["nll"], level=95)
