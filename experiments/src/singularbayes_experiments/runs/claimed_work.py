"""Work that several processes share: what each has claimed, records as lines of JSON, and the processes themselves.

A command that works so has the arguments of `add_arguments`. The first process calls `start` for each of the others,
which is the same command with a folder of claims, and `wait` for them in the end. A claim is a file with the name of
the worker; once its work has ended, a file with the suffix `.done` is beside it, or one with `.failed` and the reason.
Where another process ends with an error, the first fails what that one had claimed, so that nobody waits for it.
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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from singularbayes_experiments.records import files

DONE, FAILED = ".done", ".failed"
GRACE = 10.0  # seconds after the deadline in which processes can end by themselves


class OutOfTime(Exception):
    """The deadline has come; not `TimeoutError`, which a download raises, too."""


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
    """Returns the records of some folders: those of packed files first."""
    packed, plain = ([path for each in folders for path in sorted(each.glob(f"*.jsonl{end}"))] for end in (".gz", ""))
    return [line for path in (*packed, *plain) for line in read_file(path)]


def read_file(path: Path) -> list[dict]:
    """Returns the records of a file, packed or not; a line that a kill has cut is left out."""
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith(b"\n")]


def keep(found: Sequence[dict], out: Path, worker: str) -> float:
    """Adds records to the file of a process; returns the least NLL among them."""
    if found:
        files.append_line(out / f"{worker}.jsonl", "\n".join(json.dumps(line) for line in found))
    return min((line.get("nll", math.inf) for line in found), default=math.inf)


def claim(claims: Path, name: str, worker: str = "main") -> bool:
    """Whether a piece of work is this process's from now on, and no other's."""
    try:
        with (claims / name).open("x") as file:
            file.write(worker)
    except FileExistsError:
        return False
    return True


def fail(claims: Path, name: str, reason: str) -> None:
    """Lets all processes know that nobody is going to do a piece of work."""
    (claims / name).touch()
    (claims / f"{name}{FAILED}").write_text(reason)


@contextlib.contextmanager
def attempt(claims: Path, name: str) -> Iterator[None]:
    """Prints and notes a failure of a claimed piece, which leaves the minutes to others; `OutOfTime` is none."""
    try:
        yield
        (claims / f"{name}{DONE}").touch()
    except OutOfTime:
        raise
    except Exception as error:
        print(f"{name} failed:\n{traceback.format_exc()}", flush=True)
        fail(claims, name, repr(error))


def failures(claims: Path) -> dict[str, str]:
    """Returns what failed and why, by name."""
    return {path.name.removesuffix(FAILED): path.read_text() for path in sorted(claims.glob(f"*{FAILED}"))}


def fail_ended(processes: Mapping[str, subprocess.Popen], claims: Path) -> None:
    """Fails every worker whose process ended with an error, and what it has claimed and not finished."""
    ended = {worker: process.returncode for worker, process in processes.items() if process.poll()}
    for path in sorted(claims.iterdir()) if ended else ():
        worker = path.read_text() if path.suffix not in (DONE, FAILED) else ""
        finished = any(path.with_name(f"{path.name}{end}").exists() for end in (DONE, FAILED))
        if worker in ended and not finished:
            fail(claims, path.name, f"its process ended with status {ended[worker]}")
    for worker, status in ended.items():
        fail(claims, worker, f"its process ended with status {status}")


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


def wait(processes: Mapping[str, subprocess.Popen], claims: Path, deadline: float) -> None:
    """Waits until the processes end, and ends all that have not soon after the deadline, which is no failure."""
    while (late := [each for each in processes.values() if each.poll() is None]) and time.time() < deadline + GRACE:
        fail_ended(processes, claims)  # others may wait for it
        time.sleep(0.5)
    fail_ended(processes, claims)
    for process in late:  # it compiles, or predicts what comes too late
        process.kill()
    for process in late:
        process.wait()


def turned(names: Sequence[str], number: int) -> str:
    """Returns the names with commas between, from another one on for each process: it keeps to few programs."""
    first = number % len(names)
    return ",".join([*names[first:], *names[:first]])
