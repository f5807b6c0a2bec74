"""The gate on speed: every row of rows.py, timed in turn in the working tree and in a commit.

python benchmarks/gate.py --against COMMIT --backend torch    # fails above 1.3 times its time (JAX: 1.15)
python benchmarks/gate.py --backend torch                     # the tree alone: writes the reference of the page
python benchmarks/gate.py --rows MLP --rows head              # rows whose names contain one of these; sst2 needs a GPU

Each version has a process of its own. Rounds go A, B, B, A, so that a slow minute of the machine hits both alike. Rows
of Keras are the same code in both versions: they show the noise of the machine and cannot fail.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Literal

import records
from cyclopts import App
from rich.console import Console
from rich.table import Table
from worker import THREADS

app = App(help=__doc__)
LIMITS = {"jax": 1.15, "torch": 1.30, "tensorflow": 1.30}
FEWEST, PATIENCE = 3, 12.0  # rounds of a row, however slow; seconds after which a row has enough of them
TREE = "tree"
Rows = dict[str, dict[str, Any]]  # by name, the fields of worker.Row
Times = dict[str, dict[str, list[float]]]  # by row and version, in seconds


class Process:
    """A process that serves rows; see worker.py."""

    def __init__(self, python: str, module: str, tiny: bool, **environment: str):
        command = [python, str(Path(__file__).parent / "worker.py"), module, "tiny" if tiny else ""]
        # Flags of the shell, such as a cache of compiled programs, would change what is measured.
        shell = {name: value for name, value in os.environ.items() if not name.startswith(("XLA_", "JAX_", "OMP_"))}
        own = {"OMP_NUM_THREADS": str(THREADS), "TF_CPP_MIN_LOG_LEVEL": "3", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log, "text": True}
        self.process = subprocess.Popen(command, env={**shell, **own, **environment}, **pipes)
        self.facts, self.rows = self.receive().values()

    def send(self, **order: Any) -> None:
        print(json.dumps(order), file=self.process.stdin, flush=True)

    def receive(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            raise ChildProcessError(
                "; ".join(self.log.read().strip().splitlines()[-1:]) or f"status {self.process.returncode}"
            )
        return json.loads(line)

    def run(self, name: str) -> float:
        self.send(run=name)
        return self.receive()

    def close(self) -> None:
        self.process.communicate()
        self.log.close()


def prepare(orders: dict[Process, list[str]]) -> dict[str, str]:
    """Lets processes build rows, all at once; returns why some could not."""
    for process, names in orders.items():
        process.send(prepare=names)
    return {name: why for process in orders for name, why in process.receive().items()}


def alternate(
    measure: Callable[[str, str], dict[str, float]], versions: list[str], rows: list[str], rounds: int
) -> Times:
    """Returns the times of rounds in which the versions go A, B, B, A; `measure` takes a version and a row."""
    times: Times = {}
    spent = dict.fromkeys(rows, 0.0)
    for i in range(rounds):
        for row in [row for row in rows if i < FEWEST or spent[row] < PATIENCE]:
            for version in versions if i % 2 == 0 else versions[::-1]:
                start = time.perf_counter()
                for name, seconds in measure(version, row).items():
                    times.setdefault(name, {}).setdefault(version, []).append(seconds)
                spent[row] += time.perf_counter() - start
    return times


def judge(times: Times, rows: Rows, versions: list[str], limit: float) -> dict[str, dict[str, Any]]:
    """Returns medians, ratios and, of two versions, whether the row passes."""
    found: dict[str, dict[str, Any]] = {}
    for name, by_version in times.items():
        found[name] = {version: records.summary(seconds) for version, seconds in by_version.items()}
        base = rows.get(name, {}).get("base")
        if base in times and base != name:
            found[name]["to_base"] = {v: records.ratio(times[name][v], times[base][v]) for v in versions}
        if len(versions) == 2:
            found[name]["ratio"] = records.ratio(by_version[TREE], by_version[versions[0]])
            found[name]["passed"] = found[name]["ratio"][0] <= limit or base == name
    return found


@contextmanager
def sources(against: str) -> Iterator[dict[str, Path]]:
    """Gives the folder `src` of every version by its name, that of a commit from a worktree."""
    if not against:
        yield {TREE: records.ROOT / "src"}
        return
    with tempfile.TemporaryDirectory() as folder:
        records.git("worktree", "add", "--detach", folder, against)
        try:
            yield {against: Path(folder) / "src", TREE: records.ROOT / "src"}
        finally:
            records.git("worktree", "remove", "--force", folder)


class Measurement:
    """The processes of all versions, what they measured, and which rows failed."""

    def __init__(self, folders: dict[str, Path], backend: str, tiny: bool):
        self.folders, self.backend, self.tiny = folders, backend, tiny
        self.times: Times = {}
        self.absent: dict[str, str] = {}

    def start(self, version: str) -> Process:
        path = str(self.folders[version])
        process = Process(sys.executable, "rows", self.tiny, PYTHONPATH=path, KERAS_BACKEND=self.backend)
        if not process.facts["library"].startswith(path):
            raise ChildProcessError(f"{version} needs the library in {path}; got {process.facts['library']}.")
        return process

    def fresh(self, version: str, row: str) -> dict[str, float]:
        """Returns the seconds of a first and of a second call in a new process."""
        with closing(self.start(version)) as process:
            prepare({process: [row]})
            return {f"{row}, {which} in a process": process.run(row) for which in ("first", "second")}

    def run(self, parts: list[str], rounds: int) -> tuple[Rows, dict[str, Any]]:
        """Measures the rows that `parts` name; returns them, and facts about the tree's process."""
        with ExitStack() as stack:
            running = {version: stack.enter_context(closing(self.start(version))) for version in self.folders}
            rows = choose(running[TREE].rows, self.backend, parts)
            for base in dict.fromkeys(row["base"] for row in rows.values()):
                group = [name for name, row in rows.items() if row["base"] == base]
                failed = prepare(dict.fromkeys(running.values(), group))
                ready = [name for name in group if name not in failed]
                fresh = rows[group[0]]["fresh"]
                measure = self.fresh if fresh else lambda version, row: {row: running[version].run(row)}
                self.times |= alternate(measure, list(running), ready, rounds)
                self.absent |= failed
            return rows, running[TREE].facts


def choose(rows: Rows, backend: str, parts: list[str]) -> Rows:
    """Returns the rows that are measured, with the rows of Keras that they are compared with."""
    here = {name: row for name, row in rows.items() if backend in row["backends"]}
    named = {n for n, row in here.items() if any(part in n for part in parts) or (row["default"] and not parts)}
    wanted = named | {here[name]["base"] for name in named}
    return {name: row for name, row in here.items() if name in wanted}


def show(found: dict[str, dict[str, Any]], rows: Rows, versions: list[str]) -> None:
    table = Table("row", *(f"{version}, ms" for version in versions), "/ Keras", "design", "ratio (95 %)", "")
    for name, row in found.items():
        about = rows.get(name, {"at_most": None, "base": ""})
        to_base = f"{row['to_base'][TREE][0]:.3g}" if "to_base" in row else ""
        cells = [to_base, f"≤ {about['at_most']}" if about["at_most"] else ""]
        if "ratio" in row:
            verdict = "control" if about["base"] == name else "pass" if row["passed"] else "FAIL"
            cells += ["{:.2f} ({:.2f} to {:.2f})".format(*row["ratio"]), verdict]
        table.add_row(name, *(f"{row[version]['median_ms']:.3g}" for version in versions), *cells)
    Console().print(table)


@app.default
def main(
    *,
    against: str = "",
    backend: Literal["jax", "torch", "tensorflow"] = "jax",
    rows: list[str] | None = None,
    rounds: int = 15,
    tiny: bool = False,
) -> int:
    """Measures, prints, and writes records/gate_BACKEND.json or, of the tree alone, records/reference_BACKEND.json.

    Args:
        against: a commit; rows: parts of the names of rows; tiny: small sizes, which only show that all rows run.
    """
    with sources(against) as folders:
        measurement = Measurement(folders, backend, tiny)
        chosen, facts = measurement.run(rows or [], FEWEST if tiny else rounds)
    found = judge(measurement.times, chosen, list(folders), LIMITS[backend])
    show(found, chosen, list(folders))
    for name, why in measurement.absent.items():
        print(f"FAIL {name}: {why}")
    if not tiny:
        name = "_".join(["gate" if against else "reference", backend, *(rows or [])]).replace(" ", "_")
        limit = (
            {"against": records.git("rev-parse", "--short=10", against), "limit": LIMITS[backend]} if against else {}
        )
        del facts["library"]
        records.write(name, {"backend": backend, **facts, **limit, "absent": measurement.absent, "rows": found})
    return int(bool(measurement.absent) or not all(row.get("passed", True) for row in found.values()))


if __name__ == "__main__":
    sys.exit(app())
