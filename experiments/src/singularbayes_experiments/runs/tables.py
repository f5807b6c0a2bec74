"""Many small fits on the cores of one machine, one process per core: `singularbayes-experiments tables`.

Every fit ends in a line of JSON, so that a second call does what is missing.
"""

import gzip
import importlib
import json
import multiprocessing
import os
import queue
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from singularbayes_experiments.records.record import machine

ALONE = {
    "JAX_PLATFORMS": "cpu",
    "CUDA_VISIBLE_DEVICES": "",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}


KEPT = Path(__file__).parents[3] / "results" / "tables"  # committed records


def read_records(path: Path) -> list[dict]:
    """Returns the records of a file of lines of JSON, which may be compressed; none if there is no such file."""
    if not path.exists():
        return []
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
    return list(map(json.loads, text.splitlines()))


def keep_records(path: Path, kept: Path) -> int:
    """Adds the records of a file without errors to a compressed one of committed records; returns how many are new.

    A record replaces one of the same piece.
    """
    before = {tuple(record["piece"]): record for record in read_records(kept)}
    new = {tuple(record["piece"]): record for record in read_records(path) if "error" not in record}
    lines = [json.dumps(record) + "\n" for record in (before | new).values()]
    kept.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
    return len(new.keys() - before.keys())


def run_pieces(
    module: str, pieces: Sequence[tuple], out: Path, minutes: float, cores: int, known: Sequence[dict] = ()
) -> int:
    """Runs `module.run(piece)` for the pieces that have no record in the file `out`; returns how many are missing.

    Args:
        pieces: tuples of strings and numbers; a record holds its piece.
        minutes: after which fits that have not ended are given up.
        known: records of pieces that are done already, elsewhere.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    done = {tuple(record["piece"]) for record in (*known, *read_records(out))}
    waiting = [piece for piece in pieces if piece not in done]
    end = time.monotonic() + 60 * minutes
    context = multiprocessing.get_context("spawn")
    tasks, results = context.Queue(), context.Queue()
    for piece in waiting:
        tasks.put(piece)
    before = {name: os.environ.get(name) for name in ALONE}
    os.environ.update(ALONE)
    numbers = sorted(os.sched_getaffinity(0))[-cores:]
    workers = [
        context.Process(target=_work, args=(module, tasks, results, number), daemon=True)
        for number in numbers[: len(waiting)]
    ]
    for worker in workers:
        worker.start()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
    left = len(waiting)
    while left and time.monotonic() < end and any(worker.is_alive() for worker in workers):
        try:
            record = results.get(timeout=1)
        except queue.Empty:
            continue
        left -= 1
        with out.open("a") as file:
            file.write(json.dumps(record) + "\n")
        failed = "  FAILED " + record["error"].splitlines()[-1] if "error" in record else ""
        print(
            f"{len(waiting) - left} of {len(waiting)}  {record['piece']}  {record['seconds']:.1f} s{failed}", flush=True
        )
    for worker in workers:
        worker.terminate()
    return left


def _work(module: str, tasks, results, core: int) -> None:
    os.sched_setaffinity(0, {core})
    run = importlib.import_module(module).run
    while True:
        try:
            piece = tasks.get(timeout=5)
        except queue.Empty:
            return
        start = time.perf_counter()
        try:
            record = run(piece)
        except Exception:  # what failed is a result too
            record = {"error": traceback.format_exc()}
        results.put({"piece": piece, **record, "seconds": time.perf_counter() - start, "machine": machine()})
