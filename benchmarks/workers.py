"""Rivals in processes of their own, so that libraries cannot clash and all have the same number of threads."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import PEERS, DoesNotInstall, interpreter, without_places
from interleaved import Absent
from rich.console import Console

HERE = Path(__file__).parent
# Two threads for all. How threads wait is left alone: those of a worker whose turn it is not sleep after milliseconds
# anyhow, and OMP_WAIT_POLICY=PASSIVE makes the LSTMs of PyTorch take twice the time.
SETTINGS = {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2", "TF_CPP_MIN_LOG_LEVEL": "3"}


@dataclass(frozen=True)
class Rival:
    """Who is timed: a file of `peers`, and which of its variants.

    Args:
        times: what its time is multiplied by, for "50 x keras".
        note: what a reader of the row must know.
        backend: Keras's, where it is not the one of this process.
        execution: Keras's `steps_per_execution`.
    """

    peer: str
    variant: str = ""
    times: int = 1
    note: str = ""
    batches: tuple[int, ...] = ()
    backend: str = ""
    execution: int = 1


class Worker:
    """A process with one rival; `run` is one repeat."""

    def __init__(self, rival: Rival, order: dict[str, Any], command: list[str]):
        self.rival = rival
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        order = {**order, "peer": rival.peer, "variant": rival.variant, "execution": rival.execution}
        if rival.batches:
            order["batches"] = rival.batches
        self.process = subprocess.Popen(
            [*command, json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **SETTINGS, **_backend(rival), "PYTHONPATH": _path()},
        )
        self.facts = self._answer()
        if "absent" in self.facts:
            self.close()
            raise Absent(without_places(self.facts["absent"]))

    def run(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        return self._answer()["seconds"] * self.rival.times

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            last = self.log.read().strip().splitlines()[-1:]
            self.close()
            raise Absent(without_places(f"fails with status {self.process.returncode}: {''.join(last)}"))
        return json.loads(line)


@contextmanager
def working(rivals: dict[str, Rival], order: dict[str, Any]) -> Iterator[tuple[dict[str, Worker], dict[str, str]]]:
    """Gives the workers that are ready, and why the other rivals are absent; ends the workers afterwards."""
    started: dict[str, Worker | str] = {}
    at_once = 1 if order["job"] == "prediction" else 2  # alone, where the batch size is chosen by time
    try:
        with ThreadPoolExecutor(at_once) as pool, Console(stderr=True).status(f"{order['network']}: preparing"):
            commands = {name: _command(rival) for name, rival in rivals.items()}
            jobs = {name: pool.submit(start, rivals[name], order, command) for name, command in commands.items()}
            for name, job in jobs.items():
                started[name] = job.result()
        ready = {name: worker for name, worker in started.items() if isinstance(worker, Worker)}
        yield ready, {name: why for name, why in started.items() if isinstance(why, str)}
    finally:
        for worker in started.values():
            if isinstance(worker, Worker):
                worker.close()


def start(rival: Rival, order: dict[str, Any], command: list[str] | str) -> Worker | str:
    """Returns a worker that is ready, or why there is none."""
    if isinstance(command, str):
        return command
    try:
        return Worker(rival, order, command)
    except Absent as absent:
        return str(absent)


def _command(rival: Rival) -> list[str] | str:
    """Returns how to start the worker, or why its peer is not to be had."""
    try:
        python = interpreter(rival.peer) if rival.peer in PEERS else Path(sys.executable)
    except DoesNotInstall as error:
        return f"does not install: {error}"
    return [str(python), "-m", "peers.worker"]


def _backend(rival: Rival) -> dict[str, str]:
    return {"KERAS_BACKEND": rival.backend} if rival.backend else {}


def _path() -> str:
    return os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
