"""The benchmarks' own arithmetic, order and protocol, on rivals made up here: no other library is needed."""

import importlib.metadata
import io
import json
import os
import re
import sys
from datetime import datetime
from pathlib import Path

import bench_inference
import bench_mixture
import bench_prediction
import bench_training_step
import environments
import interleaved
import keras
import lineup
import numpy as np
import performance_page
import pytest
import workers
from builders import rivals
from peers import ours, worker
from shapes import SHAPES, targets
from singularbayes_experiments.problems import reviews

ROOT = Path(__file__).parents[2]
FAKE = """
import sys
from peers import NoSuchLayer
from peers.worker import serve

def prepare():
    {prepare}
    return (lambda: 0.25), {{"batch": 7}}

serve(prepare, sys.stdin, sys.stdout)
"""


def fake(prepare: str = "pass") -> list[str]:
    return [sys.executable, "-c", FAKE.format(prepare=prepare)]


def test_rivals_take_turns_and_a_slow_one_drops_out_after_three(monkeypatch):
    clock = iter(np.arange(1000.0))  # every look at the clock is one second later
    monkeypatch.setattr(interleaved.time, "perf_counter", lambda: next(clock))
    turns: list[str] = []

    def rival(name, seconds):
        return lambda: turns.append(name) or seconds

    times, _ = interleaved.seconds({"a": rival("a", 1.0), "b": rival("b", 2.0)}, repeats=5, patience=1.0)
    assert turns == ["a", "b"] * 3
    assert times == {"a": [1.0] * 3, "b": [2.0] * 3}
    assert len(interleaved.seconds({"a": rival("a", 1.0)}, repeats=5, patience=100.0)[0]["a"]) == 5


def test_a_rival_that_fails_on_the_way_leaves_the_others_in():
    def failing():
        raise interleaved.Absent("fails with status -9: ")

    times, absent = interleaved.seconds({"a": failing, "b": lambda: 1.0}, repeats=4)
    assert (times, absent) == ({"b": [1.0] * 4}, {"a": "fails with status -9: "})


def test_a_ratio_is_taken_within_repeats_that_both_took_part_in():
    times = {"a": [1.0, 2.0, 3.0, 100.0, 100.0], "b": [2.0, 8.0, 3.0]}
    assert interleaved.ratio(times, "a", "b") == 0.5  # of 1/2, 1/4 and 1
    assert interleaved.ratios(times, {"a / b": 0.7, "a / c": 0.1}) == {"a / b": (0.5, 0.7)}


def test_a_summary_is_in_milliseconds():
    assert interleaved.summary({"a": [0.001, 0.002, 0.003, 0.004, 0.005]}) == {
        "a": {"median_ms": 3.0, "q1_ms": 2.0, "q3_ms": 4.0, "repeats": 5}
    }


def test_a_worker_answers_every_run_with_one_line():
    out = io.StringIO()
    repeats = iter([0.5, 0.25])
    worker.serve(lambda: ((lambda: next(repeats)), {"batch": 3}), ["run\n", "run\n"], out)
    assert [json.loads(line) for line in out.getvalue().splitlines()] == [
        {"batch": 3},
        {"seconds": 0.5},
        {"seconds": 0.25},
    ]


def test_a_worker_process_is_timed_and_ended():
    rival = workers.Worker(workers.Rival("fake", times=50), {}, fake())
    assert rival.facts == {"batch": 7}
    assert [rival.run(), rival.run()] == [12.5, 12.5]  # 50 x
    rival.close()
    assert rival.process.returncode == 0


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        ("raise NoSuchLayer('LSTM')", "no such layer: LSTM"),
        ("raise ValueError('no file /home/someone/a.txt')", "fails: ValueError: no file a.txt"),
        ("sys.exit(3)", "fails with status 3: "),
    ],
)
def test_a_rival_that_cannot_take_part_says_why(prepare, why):
    assert workers.start(workers.Rival("fake"), {}, fake(prepare)) == why


def test_absent_rivals_stay_in_the_table_and_in_the_record(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(interleaved, "RECORDS", tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    rows = interleaved.summary({"a": [1.0]})
    absent = {"b": "no such layer: LSTM", "c": "does not install: no matching version"}
    interleaved.report("made_up", {"lstm": {"steps": rows, "ratios": {}, "absent": absent}}, "step")
    shown = capsys.readouterr().out
    assert "no such layer: LSTM" in shown and "does not install: no matching version" in shown
    record = json.loads((tmp_path / "made_up.json").read_text())
    assert record["results"]["lstm"]["absent"] == absent
    assert str(ROOT) not in json.dumps(record) and os.path.expanduser("~") + "/" not in json.dumps(record["command"])


def test_a_failed_installation_is_told_without_places():
    log = (
        "Looking in indexes: https://host.example/simple\nERROR: No file /tmp/x/y.whl at https://host.example/simple\n"
    )
    assert environments.reason(log) == "ERROR: No file y.whl at …"


def test_the_batch_size_is_the_last_before_it_gets_slower(monkeypatch):
    cost = {10: 10.0, 20: 10.0, 40: 60.0, 80: 0.0}
    monkeypatch.setattr(worker, "_seconds", lambda run: cost[len(run())])
    assert worker.best_batch(lambda x, draws, batch: x, np.zeros(80), 2, [10, 20, 40, 80]) == 20


@pytest.mark.parametrize(
    "mean", [np.full((4, 3), 0.5), np.full((4, 2), 0.5), np.full((4, 3), np.nan)], ids=["sums", "shape", "nan"]
)
def test_what_is_no_prediction_is_not_timed(mean):
    with pytest.raises(ValueError, match=r"needed; got"):
        worker.check(mean, outputs=3)


@pytest.mark.parametrize("name", SHAPES)
def test_our_rivals_fit_the_data_of_their_shape(name):
    shape = SHAPES[name]
    model = rivals(name)["low_rank"]()
    assert model.output_shape[1:] == (shape.outputs,)
    sizes = zip(model.input_shape[1:], shape.inputs(2).shape[1:], strict=True)
    assert all(size in (None, given) for size, given in sizes)
    assert len(targets(shape, 2)) == 2


def test_every_goal_names_rivals_that_take_part():
    for network, goals in bench_training_step.GOALS.items():
        names = lineup.ours(network) | lineup.peers(network)
        assert {name for pair in goals for name in pair.split(" / ")} <= names.keys()
    mixtures = lineup.mixtures(bench_mixture.NETWORK)
    assert mixtures.keys() <= rivals(bench_mixture.NETWORK).keys()
    for goals in (bench_mixture.GOALS, bench_mixture.PREDICTION_GOALS):
        assert {name for pair in goals for name in pair.split(" / ")} <= mixtures.keys()
    for row in bench_inference.ROWS.values():
        assert {name for pair in row.goals for name in pair.split(" / ")} <= row.rivals.keys()
        assert {r.variant for r in row.rivals.values() if r.peer == "ours"} <= rivals(row.network).keys()
    for job in bench_prediction.JOBS.values():
        names = job.rivals() | lineup.peers(job.network)
        assert {name for pair in job.goals for name in pair.split(" / ")} <= names.keys()


def test_every_peer_has_a_file_and_pinned_requirements():
    for peer, environment in environments.PEERS.items():
        assert (ROOT / "benchmarks" / "peers" / f"{peer}.py").exists()
        for name in (peer, environment):
            lines = (environments.REQUIREMENTS / f"{name}.txt").read_text().split()
            assert lines and all("==" in line for line in lines)


def test_the_transformer_of_all_rivals_is_the_experiment_s():
    shape, settings = SHAPES["sst2 transformer"], reviews.ReviewSettings()
    for name in ("vocabulary", "length", "width", "blocks", "heads", "feed_forward"):
        assert getattr(shape, name) == getattr(settings, name), name
    assert shape.outputs == settings.classes


def test_the_page_has_every_ratio_of_inference_and_says_who_is_absent(monkeypatch, tmp_path):
    assert set(performance_page.INFERENCE) == bench_inference.ROWS.keys()
    monkeypatch.setattr(performance_page, "RECORDS", tmp_path)
    monkeypatch.setattr(performance_page, "INFERENCE", ("one",))
    times = {name: {"median_ms": ms} for name, ms in (("a", 6.0), ("b", 10.0), ("c", 5.0))}
    result = {"steps": times, "ratios": {"a / b": (0.50001, 0.5), "c / b": (0.5, 0.5), "b / a": (1.7, None)}}
    kept = {"command": "python x", "versions": {}, "machine": {"cpu": "c", "cores": 2, "load": 0.1}}
    record = {**kept, "results": {"w": {**result, "absent": {"e": "why"}}}}
    (tmp_path / "inference_one.json").write_text(json.dumps(record))
    page = performance_page.inference()
    for line in (
        "| w | a / b | 0.5 | 6 / 10 |  |",
        "| w | c / b | 0.5 | 5 / 10 |  |",
        "| w | b / a | 1.7 | 10 / 6 |  |",
        "| w | e | – |  | why |",
    ):
        assert line in page


def test_a_record_says_when_and_of_which_code_it_is_and_which_backend_was_timed(tmp_path):
    interleaved.keep("one", {}, tmp_path)
    record = json.loads((tmp_path / "one.json").read_text())
    assert datetime.fromisoformat(record["finished"]).tzinfo is not None
    assert re.fullmatch(r"[0-9a-f]{10,}(-dirty)?|unknown", record["commit"])
    name = ours.PACKAGES[1]
    assert name in importlib.metadata.packages_distributions()[keras.backend.backend()] and name != "keras"


def test_the_page_of_performance_is_made_of_the_records():
    assert performance_page.PAGE.read_text() == performance_page.render()
