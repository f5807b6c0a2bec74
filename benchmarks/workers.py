"""Rivals in processes of their own, so that libraries cannot clash and all have the same number of threads."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from environments import PEERS, DoesNotInstall, interpreter, without_places
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
    """

    peer: str
    variant: str = ""
    times: int = 1
    note: str = ""
    batches: tuple[int, ...] = ()


class Absent(Exception):
    """A rival that cannot take part, and why."""


class Worker:
    """A process with one rival; `run` is one repeat."""

    def __init__(self, rival: Rival, order: dict[str, Any], command: list[str] | None = None):
        self.rival = rival
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        order = {**order, "peer": rival.peer, "variant": rival.variant}
        if rival.batches:
            order["batches"] = rival.batches
        self.process = subprocess.Popen(
            [*(command or _command(rival)), json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            env={**os.environ, **SETTINGS, "PYTHONPATH": _path()},
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
            raise Absent(without_places(f"fails with status {self.process.returncode}: {''.join(last)}"))
        return json.loads(line)


@contextmanager
def working(rivals: dict[str, Rival], order: dict[str, Any]) -> Iterator[tuple[dict[str, Worker], dict[str, str]]]:
    """Gives the workers that are ready, and why the other rivals are absent; ends the workers afterwards."""
    ready: dict[str, Worker] = {}
    absent: dict[str, str] = {}
    try:
        for name, rival in rivals.items():
            with Console(stderr=True).status(f"{order['network']}: preparing {name}"):
                try:
                    ready[name] = Worker(rival, order)
                except DoesNotInstall as error:
                    absent[name] = f"does not install: {error}"
                except Absent as error:
                    absent[name] = str(error)
        yield ready, absent
    finally:
        _close(ready.values())


def _close(workers: Iterable[Worker]) -> None:
    for worker in workers:
        worker.close()


def _command(rival: Rival) -> list[str]:
    python = interpreter(rival.peer) if rival.peer in PEERS else Path(sys.executable)
    return [str(python), "-m", "peers.worker"]


def _path() -> str:
    return os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
