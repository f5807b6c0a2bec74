"""How work is sped up by more workers and more devices: 1, 2 and 4 of them, and the efficiency of each.

Workers: toy runs on a Ray cluster of this machine, so many at a time. Devices: training steps and predictions of an MLP
784-1200-1200-10 on so many virtual devices of the processor, with the batch split over them, and with the factors split
too. All is compiled before it is timed, and takes turns: one repeat with 1, one with 2, one with 4.

Workers and virtual devices share the cores of the machine: it cannot be faster by more than their number. One device
uses them all already, so more of them show what splitting costs.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from cyclopts import App
from interleaved import keep, seconds, summary
from rich.console import Console
from rich.table import Table

app = App(help=__doc__)
COUNTS = (1, 2, 4)
RUNS = 4
STEPS, DRAWS, BATCH = 50, 128, 256
TOY = ("epochs=100", "warmup=50", "draws=50", "iqr_draws=20")
KINDS = {
    "runs": f"{RUNS} toy runs, workers of a Ray cluster",
    "data": f"{STEPS} steps, batch split over devices",
    "split": f"{STEPS} steps, batch and factors split over devices",
    "predict": f"{DRAWS} draws for {BATCH} images, over devices",
}
Work = Callable[[], object]


def efficiency(times: dict[int, list[float]]) -> dict[str, dict[str, Any]]:
    """Returns for each number of workers the median time, the speed against one, and the speed per worker.

    >>> efficiency({1: [8.0], 2: [5.0]})["2"]["efficiency"]
    0.8
    """
    rows = summary({str(count): values for count, values in times.items()})
    one = rows[str(min(times))]["median_ms"]
    for count, row in rows.items():
        row["speed"] = one / row["median_ms"]
        row["efficiency"] = row["speed"] / int(count)
    return rows


class Child:
    """This program in a process of its own; `run` is one repeat of a piece of its work, in seconds."""

    def __init__(self, *arguments: str, **environment: str):
        self.process = subprocess.Popen(
            [sys.executable, __file__, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        )

    def receive(self) -> float:
        """Waits for a number of seconds; the first comes when all is compiled."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise ChildProcessError(f"A measurement needs a process that replies; got status {self.process.wait()}.")
        return json.loads(line)

    def run(self, name: str) -> float:
        assert self.process.stdin is not None
        print(name, file=self.process.stdin, flush=True)
        return self.receive()

    def close(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def serve(work: dict[str, Work], lines: Iterable[str], out: TextIO) -> None:
    """Does every piece once, so that it is compiled, and prints 0; then replies to each name with its seconds."""
    for do in work.values():
        do()
    print(0.0, file=out, flush=True)
    for line in lines:
        start = time.perf_counter()
        work[line.strip()]()
        print(time.perf_counter() - start, file=out, flush=True)


@app.command
def devices(count: int) -> None:
    """Serves steps and predictions on so many devices; called by the program itself."""
    with _answers() as out:
        serve(_on_devices(count), sys.stdin, out)


@app.command
def workers() -> None:
    """Serves toy runs by 1, 2 and 4 workers of a Ray cluster; called by the program itself."""
    import ray

    with _answers() as out, tempfile.TemporaryDirectory() as folder:
        most = max(COUNTS)
        ray.init("local", num_cpus=most, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False)
        try:
            serve({str(count): partial(_runs, count, most, Path(folder)) for count in COUNTS}, sys.stdin, out)
        finally:
            ray.shutdown()


def _answers() -> TextIO:
    """Returns where replies go; what libraries print goes elsewhere."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return out


def _runs(count: int, most: int, folder: Path) -> None:
    """Does toy runs, `count` at a time: each takes its share of the cluster's cores."""
    from singularbayes_experiments.runs import runner
    from singularbayes_experiments.runs.run_once import Piece

    from singularbayes.ranks import Ray

    jobs = runner.plan("toy", ["low_rank"], range(RUNS), None, TOY)
    with tempfile.TemporaryDirectory(dir=folder) as place:
        list(Ray(cpus=most / count).map(Piece(Path(place)), jobs))


def _on_devices(count: int) -> dict[str, Work]:
    import keras
    import numpy as np

    import singularbayes as sb

    mesh = keras.distribution.DeviceMesh((count,), ("batch",), keras.distribution.list_devices())
    layouts = {"data": keras.distribution.DataParallel(mesh), "split": sb.ModelParallel(mesh, "batch")}
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(BATCH, 784)).astype("float32"), rng.integers(0, 10, BATCH)
    models = {}
    for name, layout in layouts.items():
        with layout.scope():
            keras.utils.set_random_seed(0)
            body = [sb.layers.Dense(units, "relu", posterior=sb.LowRank.paper(25)) for units in (1200, 1200)]
            models[name] = keras.Sequential(
                [keras.Input((784,)), *body, sb.layers.Dense(10, posterior=sb.LowRank.paper(10))]
            )
            models[name].compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            sb.set_kl(models[name], 60000)

    def steps(name: str) -> None:
        with layouts[name].scope():
            for _ in range(STEPS):
                models[name].train_on_batch(x, y)

    def predict() -> None:
        with layouts["data"].scope():
            sb.predict(models["data"], x, DRAWS, batch_size=BATCH)

    return {"data": partial(steps, "data"), "split": partial(steps, "split"), "predict": predict}


@app.default
def main(only: str = "", repeats: int = 3) -> None:
    """Measures every kind of work whose short name (runs, data, split, predict) contains `only`; keeps a record."""
    results: dict[str, Any] = {}
    if only in "runs":
        with tempfile.TemporaryDirectory() as compiled, ExitStack() as ended:
            # One worker compiles, before anything is timed, and the others read it.
            cache = {"JAX_COMPILATION_CACHE_DIR": compiled, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
            child = _started(ended, {0: Child("workers", **cache)})[0]
            results |= _timed("runs", {str(n): partial(child.run, str(n)) for n in COUNTS}, repeats)
    kinds = [kind for kind in ("data", "split", "predict") if only in kind]
    if kinds:
        flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count="
        with ExitStack() as ended:
            children = _started(ended, {n: Child("devices", str(n), XLA_FLAGS=f"{flags}{n}") for n in COUNTS})
            for kind in kinds:
                results |= _timed(kind, {str(n): partial(children[n].run, kind) for n in COUNTS}, repeats)
    keep("scaling" + (f"_{only}" if only else ""), results)


def _started(ended: ExitStack, children: dict[int, Child]) -> dict[int, Child]:
    """Returns processes that are ready, all of them: else the first would be timed while others compile."""
    for child in children.values():
        ended.callback(child.close)
    for child in children.values():
        child.receive()
    return children


def _timed(kind: str, rivals: dict[str, Callable[[], float]], repeats: int) -> dict[str, dict[str, Any]]:
    """Returns what was measured of a kind of work, under its name, and shows it."""
    times, _ = seconds(rivals, repeats, patience=20.0, label=kind)
    rows = efficiency({int(count): values for count, values in times.items()})
    _show(KINDS[kind], rows)
    return {KINDS[kind]: rows}


def _show(what: str, rows: dict[str, dict[str, Any]]) -> None:
    shown = Table("how many", "s (median)", "speed", "efficiency", title=what)
    for count, row in rows.items():
        shown.add_row(count, f"{row['median_ms'] / 1e3:.3f}", f"{row['speed']:.2f}", f"{row['efficiency']:.2f}")
    Console().print(shown)


if __name__ == "__main__":
    app()
