"""Processes share work: each piece is one's alone, and records that a kill has cut are left away."""

import argparse
import contextlib
import gzip
import math
import subprocess
import sys
import time

import pytest
from singularbayes_experiments.runs import claimed_work


def test_a_piece_is_claimed_once(tmp_path):
    assert claimed_work.claim(tmp_path, "a") and claimed_work.claim(tmp_path, "b")
    assert not claimed_work.claim(tmp_path, "a")


def test_a_failure_is_kept_with_its_claim_and_the_end_of_the_time_is_none(tmp_path, capsys):
    late, download = claimed_work.OutOfTime(), TimeoutError("no answer")
    for name, error in (("a", None), ("b", ValueError("no data")), ("c", late), ("d", download)):
        assert claimed_work.claim(tmp_path, name)
        expected = pytest.raises(claimed_work.OutOfTime) if name == "c" else contextlib.nullcontext()
        with expected, claimed_work.attempt(tmp_path, name):
            if error is not None:
                raise error
    assert claimed_work.failures(tmp_path) == {"b": "ValueError('no data')", "d": "TimeoutError('no answer')"}
    assert not claimed_work.claim(tmp_path, "b")  # nobody tries again
    assert claimed_work.report_failures(tmp_path) == 1
    assert capsys.readouterr().out.endswith("failed: d: TimeoutError('no answer')\n")


def test_records_are_kept_and_read_but_for_a_line_that_was_cut(tmp_path):
    (tmp_path / "records.jsonl.gz").write_bytes(gzip.compress(b'{"seed": 0}\n'))
    assert claimed_work.keep([{"nll": 0.5}, {"nll": 0.3}, {}], tmp_path, "main") == 0.3
    assert claimed_work.keep([{}], tmp_path, "cpu0") == math.inf
    with (tmp_path / "main.jsonl").open("a") as file:
        file.write('{"nll": 0.1}')
    assert claimed_work.read_lines([tmp_path]) == [{"seed": 0}, {}, {"nll": 0.5}, {"nll": 0.3}, {}]
    claimed_work.keep([{"nll": 0.2}], tmp_path, "main")  # a second call, in place of the cut line
    assert claimed_work.read_lines([tmp_path])[2:] == [{"nll": 0.5}, {"nll": 0.3}, {}, {"nll": 0.2}]


@pytest.mark.parametrize("worker", ["cpu1", "accelerated1"])
def test_another_process_has_the_same_command_with_its_claims_and_the_deadline(worker, tmp_path, monkeypatch):
    parser = argparse.ArgumentParser()
    claimed_work.add_arguments(parser, tiny="small")
    parser.add_argument("--sets")
    parser.add_argument("--more")
    given = parser.parse_args(["--out", "there", "--earlier", "one", "--earlier", "two", "--tiny"])
    given.claims, given.deadline = tmp_path, 12.5
    started = []
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda command, env: started.append((command, env)))
    claimed_work.start("a.module", given, worker, claimed_work.turned(["x", "y", "z"], 4), ["--more", "7"])
    [(command, environment)] = started
    assert command[1:3] == ["-m", "a.module"]
    told = parser.parse_args(command[3:])
    assert vars(told) == vars(given) | {"worker": worker, "sets": "y,z,x", "more": "7"}
    assert (environment.get("JAX_PLATFORMS") == "cpu") == (worker == "cpu1")


def process(code):
    """Returns a process that runs a line of Python."""
    return subprocess.Popen([sys.executable, "-c", code])


def test_what_a_process_left_that_ended_with_an_error_is_failed(tmp_path):
    for worker, name in (("cpu0", "done"), ("cpu0", "left"), ("cpu1", "until the deadline"), ("cpu2", "at work")):
        assert claimed_work.claim(tmp_path, name, worker)
    with claimed_work.attempt(tmp_path, "done"):
        pass
    processes = {
        "cpu0": process("import os; os.kill(os.getpid(), 9)"),
        "cpu1": process(""),
        "cpu2": process("import time; time.sleep(60)"),
    }
    for worker in ("cpu0", "cpu1"):
        processes[worker].wait()
    found = dict.fromkeys(("cpu0", "left"), "its process ended with status -9")
    for _ in range(2):  # a second time changes nothing
        claimed_work.fail_ended(processes, tmp_path)
        assert claimed_work.failures(tmp_path) == found
    claimed_work.wait(processes, tmp_path, deadline=0.0)
    assert processes["cpu2"].returncode == -9
    assert claimed_work.failures(tmp_path) == found  # the end of the time is no failure
    assert claimed_work.report_failures(tmp_path) == 1


def test_a_failure_is_noted_while_others_are_waited_for(tmp_path):
    assert claimed_work.claim(tmp_path, "left", "cpu0")
    waits = "import sys, time, pathlib\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.05)"
    waiting = subprocess.Popen([sys.executable, "-c", waits, str(tmp_path / "left.failed")])
    claimed_work.wait({"cpu0": process("raise SystemExit(3)"), "cpu1": waiting}, tmp_path, time.time() + 50)
    assert waiting.returncode == 0
    assert claimed_work.failures(tmp_path)["left"] == "its process ended with status 3"


def test_processes_that_do_not_end_are_ended_at_one_time(tmp_path, monkeypatch):
    monkeypatch.setattr(claimed_work, "GRACE", 1.0)
    hung = {f"cpu{i}": process("import time; time.sleep(60)") for i in range(6)}
    begun = time.time()
    claimed_work.wait(hung, tmp_path, deadline=begun)
    assert 1.0 <= time.time() - begun < 5  # not a second for each
    assert [each.returncode for each in hung.values()] == [-9] * 6
