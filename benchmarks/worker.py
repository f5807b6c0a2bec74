"""A process that builds and times rows: python worker.py MODULE TINY. One line of JSON in, one line out.

`MODULE.rows(tiny)` returns the rows by name. The first reply has facts and rows. Then it replies to
{"prepare": [names]} with the rows that failed, and to {"run": name} with the seconds of one unit of work.
"""

import gc
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

THREADS = 2  # the same for all, also for libraries that have no setting for it
SHORTEST = 0.1  # seconds; a measurement repeats its work for at least as long


@dataclass(frozen=True)
class Row:
    """What is timed.
    Args:
        make: builds everything and returns the work; a call of the work returns how many units it did.
        base: the row of plain Keras that this one is compared with; `at_most`: the design's largest ratio, on JAX.
        times: what the seconds are multiplied by, for "50 Keras passes".
        fresh: every measurement needs a process of its own, and the first call counts, compilation included.
        backends: where it is measured; `default`: whether without being named.
    """

    make: Callable[[], Callable[[], int]]
    base: str = ""
    at_most: float | None = None
    times: int = 1
    fresh: bool = False
    backends: tuple[str, ...] = ("jax", "torch", "tensorflow")
    default: bool = True


def seconds(work: Callable[[], int], shortest: float = SHORTEST) -> float:
    """Returns the seconds of a unit; work is repeated until `shortest` seconds have passed."""
    start, units = time.perf_counter(), 0
    while not units or time.perf_counter() - start < shortest:
        units += work()
    return (time.perf_counter() - start) / units


def prepare(rows: dict[str, Row]) -> tuple[dict[str, Callable[[], int]], dict[str, str]]:
    """Returns the work of rows, compiled, and why others have none."""
    ready, errors = {}, {}
    for name, row in rows.items():
        try:
            ready[name] = row.make()
            if not row.fresh:
                ready[name]()
        except Exception as error:
            errors[name] = f"{type(error).__name__}: {str(error).strip()[:300]}"
    return ready, errors


def main(module: str, tiny: str) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes elsewhere
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    source: Any = importlib.import_module(module)
    rows, ready = source.rows(tiny == "tiny"), dict[str, Callable[[], int]]()
    shown = {n: {f.name: getattr(row, f.name) for f in fields(row) if f.name != "make"} for n, row in rows.items()}
    print(json.dumps({"facts": source.facts(), "rows": shown}), file=out, flush=True)
    for line in sys.stdin:
        [(command, names)] = json.loads(line).items()
        if command == "prepare":
            ready.clear()  # before others are built, for their memory
            gc.collect()
            ready, reply = prepare({name: rows[name] for name in names})
        else:
            row = rows[names]
            reply = row.times * seconds(ready[names], 0 if row.fresh else SHORTEST)
        print(json.dumps(reply), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
