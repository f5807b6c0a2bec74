"""Processes share work: each piece is one's alone, and records that a kill has cut are left away."""

import argparse
import contextlib
import gzip
import math
import subprocess

import pytest
from singularbayes_experiments.runs import claimed_work


def test_a_piece_is_claimed_once(tmp_path):
    assert claimed_work.claim(tmp_path, "a") and claimed_work.claim(tmp_path, "b")
    assert not claimed_work.claim(tmp_path, "a")


def test_a_failure_is_kept_with_its_claim_and_the_end_of_the_time_is_none(tmp_path, capsys):
    for name, error in (("a", None), ("b", ValueError("no data")), ("c", TimeoutError())):
        assert claimed_work.claim(tmp_path, name)
        expected = pytest.raises(TimeoutError) if name == "c" else contextlib.nullcontext()
        with expected, claimed_work.attempt(tmp_path, name):
            if error is not None:
                raise error
    assert claimed_work.failures(tmp_path) == {"b": "ValueError('no data')"}
    assert not claimed_work.claim(tmp_path, "b")  # nobody tries again
    assert claimed_work.report_failures(tmp_path) == 1
    assert capsys.readouterr().out.endswith("failed: b: ValueError('no data')\n")


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


def test_a_process_that_does_not_end_is_ended():
    class Hung:
        killed = False

        def wait(self, timeout):
            raise subprocess.TimeoutExpired("python", timeout)

        def kill(self):
            self.killed = True

    process = Hung()
    claimed_work.wait([process], deadline=0.0)
    assert process.killed
