"""Work that several processes share: what each has claimed, records as lines of JSON, and the processes themselves.

A command that works so has the arguments of `add_arguments`. The first process calls `start` for each of the others,
which is the same command with a folder of claims, and `wait` for them in the end. The file of a claim is empty unless
its work failed.
"""

import argparse
import contextlib
import gzip
import json
import math
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from singularbayes_experiments.records import files


def add_arguments(parser: argparse.ArgumentParser, tiny: str) -> None:
    """Adds where records are, how long it takes, and what the other processes are given."""
    parser.add_argument("--out", type=Path, required=True, help="folder of the records")
    parser.add_argument("--earlier", type=Path, action="append", default=[], help="folders of earlier records")
    parser.add_argument("--minutes", type=float, default=9.0, help="end after this many minutes")
    parser.add_argument("--tiny", action="store_true", help=f"{tiny}, to see that it works")
    parser.add_argument("--claims", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--worker", default="main", help=argparse.SUPPRESS)


def read_lines(folders: Sequence[Path]) -> list[dict]:
    """Returns the records of some folders, packed or not; a line that a kill has cut is left out."""
    packed = [gzip.decompress(path.read_bytes()) for each in folders for path in sorted(each.glob("*.jsonl.gz"))]
    plain = [path.read_bytes() for each in folders for path in sorted(each.glob("*.jsonl"))]
    lines = [line for text in (*packed, *plain) for line in text.splitlines(keepends=True)]
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def keep(found: Sequence[dict], out: Path, worker: str) -> float:
    """Adds records to the file of a process; returns the least NLL among them."""
    if found:
        files.append_line(out / f"{worker}.jsonl", "\n".join(json.dumps(line) for line in found))
    return min((line.get("nll", math.inf) for line in found), default=math.inf)


def claim(claims: Path, name: str) -> bool:
    """Whether a piece of work is this process's from now on, and no other's."""
    try:
        (claims / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def fail(claims: Path, name: str, reason: str) -> None:
    """Lets all processes know that nobody is going to do a piece of work."""
    (claims / name).write_text(reason)


@contextlib.contextmanager
def attempt(claims: Path, name: str) -> Iterator[None]:
    """Prints and notes a failure of a claimed piece, which leaves the minutes to others; `TimeoutError` is none."""
    try:
        yield
    except TimeoutError:
        raise
    except Exception as error:
        print(f"{name} failed:\n{traceback.format_exc()}", flush=True)
        fail(claims, name, repr(error))


def failures(claims: Path) -> dict[str, str]:
    """Returns what failed and why, by name."""
    return {path.name: reason for path in sorted(claims.iterdir()) if (reason := path.read_text())}


def report_failures(claims: Path) -> int:
    """Prints what failed; returns the exit status, 1 if anything did."""
    found = failures(claims)
    for name, reason in found.items():
        print(f"failed: {name}: {reason}")
    return min(1, len(found))


def start(module: str, given: argparse.Namespace, worker: str, sets: str, more: Sequence[str] = ()) -> subprocess.Popen:
    """Returns a process that works on these data sets; one whose name begins with "cpu" has no accelerator.

    Args:
        given: arguments of this process, with the claims and the deadline of all.
    """
    command = [sys.executable, "-m", module, "--out", str(given.out)]
    command += [part for folder in given.earlier for part in ("--earlier", str(folder))]
    command += ["--sets", sets, "--claims", str(given.claims), "--deadline", str(given.deadline)]
    command += ["--worker", worker, *more, *(["--tiny"] if given.tiny else [])]
    on_cpu = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    return subprocess.Popen(command, env={**os.environ, **(on_cpu if worker.startswith("cpu") else {})})


def wait(processes: Sequence[subprocess.Popen], deadline: float) -> None:
    """Waits until the processes end, and ends those that do not soon after the deadline."""
    for process in processes:
        try:
            process.wait(timeout=max(1.0, deadline - time.time()) + 10)
        except subprocess.TimeoutExpired:  # it compiles, or predicts what comes too late
            process.kill()


def turned(names: Sequence[str], number: int) -> str:
    """Returns the names with commas between, from another one on for each process: it keeps to few programs."""
    first = number % len(names)
    return ",".join([*names[first:], *names[:first]])
