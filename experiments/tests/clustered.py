"""Runs on a Ray cluster of this machine that loses a worker, a machine and the driver; called by test_ray.py.

clustered.py FOLDER            starts the cluster, kills, compares with runs of this process; prints all as JSON
clustered.py FOLDER ADDRESS    a driver: does the runs on the cluster

The runs are one network, and an ensemble of two members that are pieces of work of their own. Then a sweep of ranks
loses a machine and the head (cluster_sweep.py).
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cluster_sweep
from cluster_sweep import until
from rich.console import Console
from singularbayes_experiments.cli import app as cli
from singularbayes_experiments.records import record
from singularbayes_experiments.records.checkpoints import Keep
from singularbayes_experiments.runs import distributed, runner
from singularbayes_experiments.runs.run_once import Piece

SIZES = ("num_train=64", "num_test=64", "units=8", "rank=2", "members=2", "draws=10", "iqr_draws=10")
SETTINGS = (*SIZES, "epochs=300", "warmup=2")
METHODS = ["low_rank", "deep_ensemble"]
ASKED = ["run", "toy", "--methods", ",".join(METHODS), *(f"--set={setting}" for setting in SETTINGS)]
PACKAGES = ("singularbayes", "singularbayes_experiments")
SMALL = {"object_store_memory": 80 << 20, "include_dashboard": False}
# A lost machine is noticed within two seconds instead of twenty.
NOTICED = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 2}


def plan():
    return runner.plan("toy", METHODS, overrides=SETTINGS)


def kept(folder, job):
    """How many epochs the newest checkpoint of a run or a member has."""
    place = f"{job.name}.0/*" if isinstance(job, runner.Job) else f"{job.job.name}.0/*-{job.number}"
    found = (folder / runner.UNFINISHED).glob(f"{place}/*.checkpoint")
    return max((int(path.stem) for path in found if path.stem.isdecimal()), default=0)


def attempts(folder, job):
    """The processes that were at a run or a member, in turn: (worker, its raylet, epochs kept before)."""
    path = folder / f"attempts-{job.name}"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def drive(folder, address):
    """Does the runs with a checkpoint after every epoch; each attempt leaves a line first. The last member is fast."""
    from singularbayes.ranks import Ray

    def traced(job):
        used = [importlib.import_module(name).__file__ for name in PACKAGES]
        (folder / f"code-{job.name}").write_text("\n".join(used))
        with (folder / f"attempts-{job.name}").open("a") as file:
            file.write(json.dumps([os.getpid(), os.getppid(), kept(folder, job)]) + "\n")
        if not job.name.endswith(".1"):
            save = Keep.save
            Keep.save = lambda *arguments: (save(*arguments), time.sleep(0.1))  # long enough to be killed
        return Piece(folder, every=0)(job)

    class Traced(Ray):
        def map(self, function, items, tick=None):
            yield from super().map(traced, items, tick)

    jobs = plan()
    for _ in distributed.carry_out(
        jobs, METHODS, folder=folder, again=False, engine=Traced(address, packages=PACKAGES[1:]), console=Console()
    ):
        pass


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
    one, ensemble = plan()
    lost_member, spared = ensemble.members
    far, near = folder / "far", folder / "near"
    far.mkdir()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": NOTICED, **SMALL})
    try:
        raylets = {}
        for _ in range(3):  # one to spare
            node = cluster.add_node(num_cpus=1, **SMALL)
            raylets[node.all_processes["raylet"][0].process.pid] = node
        driver = subprocess.Popen([sys.executable, __file__, far, cluster.address])
        until(lambda: kept(far, spared) == 300)
        worker, _ = running(far, one, 0)
        with_it, lost = running(far, lost_member, 0)
        for process in (worker, lost, with_it):  # a machine takes its workers along
            os.kill(process, signal.SIGKILL)
        running(far, one, 1)
        running(far, lost_member, 1)
        driver.kill()
        driver.wait()
        left, spared_at = [kept(far, piece) for piece in (one, lost_member)], kept(far, spared)
        again = [sys.executable, "-m", "singularbayes_experiments", *ASKED, "--out", far, "--engine", "ray"]
        shown = subprocess.run([*again, "--address", cluster.address], capture_output=True, text=True, timeout=600)
        assert shown.returncode == 0, shown.stderr
        said = cluster_sweep.lose(folder, cluster)
    finally:
        cluster.shutdown()
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **SMALL})
    try:
        swept = cluster_sweep.go_on(folder, cluster)
    finally:
        cluster.shutdown()
    assert cli.main([*ASKED, "--out", str(near)]) == 0
    compare(far, near)
    tries = [[before for _, _, before in attempts(far, piece)] for piece in (one, lost_member, spared)]
    found = {"attempts": tries[:2], "left": left, "spared": [tries[2], spared_at], "lost": lost in raylets}
    found["code"] = [line for path in sorted(far.glob("code-*")) for line in path.read_text().splitlines()]
    sweep = {**said, "far": swept, "near": f"{cluster_sweep.sweep(folder)}\n", "begun": cluster_sweep.counts(folder)}
    print(json.dumps(found | {"shown": shown.stdout, "sweep": sweep}))


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
