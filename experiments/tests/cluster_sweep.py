"""A sweep of ranks on a Ray cluster that loses a machine and then its head, and goes on with another head.

cluster_sweep.py FOLDER ADDRESS    a driver: does the sweep on the cluster, or what is left of it

A trial leaves a line when it begins. That of rank 2 waits while a file holds it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import keras
import numpy as np

from singularbayes import LowRank, layers, ranks

PATIENCE_S = 240.0  # with the cluster


def until(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "the cluster does not get there"
        time.sleep(0.02)


def sweep(folder, engine=None, storage=None):
    """Returns two trials; those of another process than this one leave a line and wait."""
    here = os.getpid()

    def build(rank):
        if os.getpid() != here:
            with (folder / "trials").open("a") as file:
                file.write(json.dumps([rank, os.getpid(), os.getppid()]) + "\n")
            while rank == 2 and (folder / "held").exists():
                time.sleep(0.05)
        model = keras.Sequential([keras.Input((4,)), layers.Dense(3, posterior=LowRank(rank))])
        model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 4)).astype("float32"), rng.integers(0, 3, 40)
    budget = ranks.Budget(trials=2, epochs=1, draws=2)
    data = ranks.Data((x, y), (x, y))
    return ranks.sweep(build, data, {"rank": [1, 2]}, ["nll"], budget, storage=storage, engine=engine)


def begun(folder, rank):
    """The processes that began with the trial of a rank, in turn: (worker, its raylet)."""
    path = folder / "trials"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [processes for found, *processes in lines if found == rank]


def drive(folder, address):
    from singularbayes.ranks import engines

    engines.HEAD_S = 2.0
    try:
        found = sweep(folder, engines.Ray(address), folder / "sweep.log")
    except ConnectionError as error:
        sys.exit(str(error))
    print(found)


def _driver(folder, cluster):
    command = [sys.executable, __file__, folder, cluster.address]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def lose(folder, cluster):
    """Loses a machine during a trial, and the head when the trial is under way again; returns how the driver ends."""
    (folder / "held").touch()
    driver, storage = _driver(folder, cluster), folder / "sweep.log"
    until(lambda: storage.exists() and '"metrics"' in storage.read_text())  # the other trial has ended
    until(lambda: begun(folder, 2))
    ((worker, raylet),) = begun(folder, 2)
    for process in (raylet, worker):
        os.kill(process, signal.SIGKILL)
    until(lambda: len(begun(folder, 2)) == 2)
    for kind in ("gcs_server", "raylet"):
        os.kill(cluster.head_node.all_processes[kind][0].process.pid, signal.SIGKILL)
    _, said = driver.communicate(timeout=PATIENCE_S)
    return {"status": driver.returncode, "said": said.splitlines()[-1]}


def go_on(folder, cluster):
    """Returns what the same command prints on another cluster."""
    (folder / "held").unlink()
    driver = _driver(folder, cluster)
    found, failed = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0, failed
    return found


def counts(folder):
    """How often each trial was begun."""
    return [len(begun(folder, rank)) for rank in (1, 2)]


if __name__ == "__main__":
    drive(Path(sys.argv[1]), sys.argv[2])
