"""The gate alternates, its ratios and intervals are right, and a slower version fails it; no row is timed here."""

from contextlib import closing

import gate
import numpy as np
import page
import pytest
import records
import worker


def rows(*names: str) -> gate.Rows:
    """Rows of a network; the first name is that of plain Keras."""
    about = {"at_most": None, "fresh": False, "backends": ["jax"], "default": True}
    return {name: {"base": names[0], **about} for name in names}


def test_versions_go_a_b_b_a_and_a_slow_row_stops_after_three_rounds(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(gate.time, "perf_counter", lambda: 5.0 * next(clock))  # every measurement takes 5 s
    turns = []

    def measure(version, row):
        turns.append(version + row)
        return {row: {"a": 1.0, "b": 2.0}[version]}

    times = gate.alternate(measure, ["a", "b"], ["x"], rounds=9)
    assert turns == ["ax", "bx", "bx", "ax", "ax", "bx"]
    assert times == {"x": {"a": [1.0] * 3, "b": [2.0] * 3}}


def test_a_round_measures_every_row_before_the_next_round_and_a_fresh_row_gives_two():
    turns = []

    def measure(version, row):
        turns.append(row)
        return {f"{row}, first": 3.0, f"{row}, second": 1.0} if row == "y" else {row: 2.0}

    times = gate.alternate(measure, ["a"], ["x", "y"], rounds=2)
    assert turns == ["x", "y", "x", "y"]
    assert times == {"x": {"a": [2.0] * 2}, "y, first": {"a": [3.0] * 2}, "y, second": {"a": [1.0] * 2}}


def test_a_ratio_is_that_of_medians_over_the_rounds_that_both_took_part_in():
    assert records.ratio([3.0, 1.0, 8.0, 99.0], [6.0, 2.0, 4.0])[0] == 3.0 / 4.0


def test_the_interval_covers_the_true_ratio_about_as_often_as_it_states():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(200):
        base = rng.lognormal(sigma=0.1, size=15)
        _, low, high = records.ratio(list(1.2 * rng.lognormal(sigma=0.1, size=15)), list(base))
        covered += low <= 1.2 <= high
    assert 0.90 <= covered / 200 <= 1.0


def test_rounds_that_are_slow_for_both_versions_do_not_widen_the_interval():
    machine = np.linspace(1.0, 3.0, 15)  # it becomes slower
    assert records.ratio(list(1.1 * machine), list(machine)) == pytest.approx([1.1] * 3)


@pytest.mark.parametrize(("slower", "passed"), [(1.14, True), (1.16, False)])
def test_a_slower_version_fails_the_gate(slower, passed):
    old = {"net, Keras": 4.0, "net, low-rank": 1.0}
    noise = np.linspace(0.9, 1.1, 7)
    new = {"net, Keras": 4.0, "net, low-rank": slower}
    times = {name: {"old": list(old[name] * noise), gate.TREE: list(new[name] * noise)} for name in old}
    found = gate.judge(times, rows(*old), ["old", gate.TREE], gate.LIMITS["jax"])["net, low-rank"]
    assert found["passed"] is passed and found["ratio"][0] == pytest.approx(slower)
    assert found["to_base"]["old"][0] == pytest.approx(0.25) and found["old"]["median_ms"] == pytest.approx(1000)


def test_keras_itself_is_a_control_and_cannot_fail():
    times = {"net, Keras": {"old": [1.0], gate.TREE: [2.0]}}
    assert gate.judge(times, rows("net, Keras"), ["old", gate.TREE], 1.15)["net, Keras"]["passed"]


def test_a_named_row_brings_the_row_that_it_is_compared_with():
    known = rows("net, Keras", "net, low-rank", "net, full-rank") | rows("gpu, Keras", "gpu, low-rank")
    for name in ("gpu, Keras", "gpu, low-rank"):
        known[name]["default"] = False
    assert list(gate.choose(known, "jax", ["low"])) == ["net, Keras", "net, low-rank", "gpu, Keras", "gpu, low-rank"]
    assert list(gate.choose(known, "jax", [])) == ["net, Keras", "net, low-rank", "net, full-rank"]
    assert gate.choose(known, "torch", []) == {}


FAKE = """
from worker import Row

def broken():
    raise ValueError("no such layer")

def rows(tiny):
    return {"good": Row(lambda: lambda: 4, times=50), "broken": Row(broken)}

def facts():
    return {"library": "here"}
"""


def test_a_process_serves_rows_and_says_why_one_has_no_time(tmp_path, monkeypatch):
    (tmp_path / "fake_rows.py").write_text(FAKE)
    with closing(gate.Process(gate.sys.executable, "fake_rows", False, PYTHONPATH=str(tmp_path))) as process:
        assert process.facts == {"library": "here"} and process.rows["good"]["times"] == 50
        assert gate.prepare({process: ["good", "broken"]}) == {"broken": "ValueError: no such layer"}
        assert 0 < process.run("good") < 50
        with pytest.raises(ChildProcessError, match="KeyError"):
            process.run("unknown")
    assert process.process.returncode == 1


def test_seconds_are_those_of_a_unit(monkeypatch):
    clock = iter([0.0, 1.0, 2.5, 2.5])
    monkeypatch.setattr(worker.time, "perf_counter", lambda: next(clock))
    assert worker.seconds(lambda: 5, shortest=2.0) == 2.5 / 10


def test_the_page_of_performance_is_made_of_the_records():
    assert page.PAGE.read_text(encoding="utf-8") == page.render()
