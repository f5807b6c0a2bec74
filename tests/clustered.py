"""Runs on a Ray cluster of this machine that loses a worker, a machine and the driver; called by test_ray.py.

clustered.py FOLDER            starts the cluster, kills, compares with runs of this process; prints all as JSON
clustered.py FOLDER ADDRESS    a driver: does the runs on the cluster
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from singularbayes import cli
from singularbayes.experiments import record, runner
from singularbayes.experiments.keep import Keep
from singularbayes.experiments.piece import Piece

SETTINGS = ("num_train=64", "num_test=64", "units=8", "rank=2", "epochs=300", "warmup=2", "draws=10", "iqr_draws=10")
ASKED = ["run", "toy", "--methods", "low_rank", "--seeds", "0,1", *(f"--set={setting}" for setting in SETTINGS)]
PATIENCE_S = 120.0  # of this program with the cluster
SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}
# A lost machine is noticed within two seconds instead of twenty.
NOTICED = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}


def plan():
    return runner.plan("toy", ["low_rank"], [0, 1], None, SETTINGS)


def kept(folder, job):
    """How many epochs the newest checkpoint of a run has."""
    found = (folder / runner.UNFINISHED).glob(f"{job.name}.0/**/*.checkpoint")
    return max((int(path.stem) for path in found if path.stem.isdecimal()), default=0)


def attempts(folder, job):
    """The processes that were at a run, one after another: (worker, its raylet, epochs kept before)."""
    path = folder / f"attempts-{job.name}"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def drive(folder, address):
    """Does the runs with a checkpoint after every epoch; each attempt leaves a line first."""
    from singularbayes.experiments.ray_engine import Ray

    def traced(job):
        with (folder / f"attempts-{job.name}").open("a") as file:
            file.write(json.dumps([os.getpid(), os.getppid(), kept(folder, job)]) + "\n")
        save = Keep.save
        Keep.save = lambda *arguments: (save(*arguments), time.sleep(0.1))  # long enough to be killed
        return Piece(folder, every=0)(job)

    for _ in Ray(address).map(traced, plan()):
        pass


def until(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "the cluster does not get there"
        time.sleep(0.02)


def running(folder, job, attempt, more=3):
    """Waits until a run is so many epochs into an attempt; returns its worker and its raylet."""
    until(lambda: len(attempts(folder, job)) > attempt)
    worker, raylet, before = attempts(folder, job)[attempt]
    until(lambda: kept(folder, job) >= before + more)
    return worker, raylet


def main(folder):
    from ray.cluster_utils import Cluster

    # Compiled once: what is tried here does not depend on it.
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder / "compiled")
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    first, second = plan()
    far, near = folder / "far", folder / "near"
    far.mkdir()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": NOTICED, **SMALL})
    try:
        raylets = {}
        for _ in range(3):  # one to spare
            node = cluster.add_node(num_cpus=1, **SMALL)
            raylets[node.all_processes["raylet"][0].process.pid] = node
        driver = subprocess.Popen([sys.executable, __file__, far, cluster.address])
        worker, _ = running(far, first, 0)
        with_it, lost = running(far, second, 0)
        for process in (worker, lost, with_it):  # a machine takes its workers along
            os.kill(process, signal.SIGKILL)
        running(far, first, 1)
        running(far, second, 1)
        driver.kill()
        driver.wait()
        left = [kept(far, job) for job in (first, second)]
        again = [sys.executable, "-m", "singularbayes.cli", *ASKED, "--out", far, "--engine", "ray"]
        shown = subprocess.run([*again, "--address", cluster.address], capture_output=True, text=True, timeout=600)
        assert shown.returncode == 0, shown.stderr
    finally:
        cluster.shutdown()
    assert cli.main([*ASKED, "--out", str(near)]) == 0
    compare(far, near)
    tries = {job.seed: [before for _, _, before in attempts(far, job)] for job in (first, second)}
    print(json.dumps({"attempts": tries, "left": left, "lost": lost in raylets, "shown": shown.stdout}))


def compare(far, near):
    """Raises unless records and arrays are those of the local engine, to the last bit."""
    found, expected = ({one.name: one for one in record.read(folder)} for folder in (far, near))
    assert found.keys() == expected.keys() and record.count(far) == record.count(near)
    for name, one in expected.items():
        assert found[name] == one, name
        assert found[name].arrays.keys() == one.arrays.keys()
        assert all(found[name].arrays[key].tobytes() == array.tobytes() for key, array in one.arrays.items()), name
    assert not list((far / runner.UNFINISHED).iterdir())


if __name__ == "__main__":
    folder, *address = sys.argv[1:]
    drive(Path(folder), *address) if address else main(Path(folder))
