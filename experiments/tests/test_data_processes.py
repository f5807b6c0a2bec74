"""Processes that fetch the same file at once, or are killed while they do, leave whole files or none."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from made_up_data import BYTES, made_up, sends, serving
from singularbayes_experiments.data import store
from singularbayes_experiments.data.read import read

HERE = Path(__file__).parent

# The package is imported without Keras.
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
from made_up_data import BYTES, made_up
from singularbayes_experiments.data.read import read
assert read(made_up({"a.bin": BYTES}, sys.argv[2]), "a.bin") == BYTES
assert not {"keras", "jax"} & set(sys.modules)
"""


@pytest.fixture
def server():
    with serving() as server:
        yield server


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(store.FOLDER, raising=False)
    return tmp_path / "singularbayes"


def start(server):
    return subprocess.Popen([sys.executable, "-c", CODE, str(HERE), server.base], stderr=subprocess.DEVNULL)


def test_two_processes_at_once_end_with_one_whole_file(server, cache):
    both = threading.Barrier(2, timeout=600)

    def together(request):
        both.wait()
        sends(BYTES)(request)

    server.answers["a.bin"] = together
    running = [start(server), start(server)]
    assert [process.wait(60) for process in running] == [0, 0]
    assert server.asked == ["a.bin"] * 2
    assert os.listdir(cache / "made_up") == ["a.bin"]
    assert (cache / "made_up" / "a.bin").read_bytes() == BYTES


def test_a_process_killed_midway_leaves_no_file_under_the_name_and_the_next_one_ends_well(server, cache):
    midway, over = threading.Event(), threading.Event()

    def half(request):
        sends(BYTES[: len(BYTES) // 2], len(BYTES))(request)
        midway.set()
        over.wait(60)

    server.answers["a.bin"] = [half, sends(BYTES)]
    running = start(server)
    assert midway.wait(60)
    running.send_signal(signal.SIGKILL)
    assert running.wait(60) == -signal.SIGKILL
    over.set()
    source = made_up({"a.bin": BYTES}, server.base)
    assert store.find(source, source.files[0]) is None
    assert read(source, "a.bin") == BYTES
