"""How work is sped up by more workers and more devices: 1, 2 and 4 of them, and the efficiency of each.

Runs: eight toy runs on a Ray cluster of this machine with so many cores. One model: a training step and a prediction of
an MLP 784-1200-1200-10 on so many virtual devices of the processor, with the batch split over them, and with the
factors split too. Virtual devices share the cores of the machine: beyond these they can only lose.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cyclopts import App
from interleaved import keep, seconds, summary
from rich.console import Console
from rich.table import Table

app = App(help=__doc__)
COUNTS = (1, 2, 4)
RUNS = 8
STEPS, DRAWS, BATCH = 20, 32, 256
TOY = ("epochs=100", "warmup=50")


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


def runs(workers: int) -> float:
    """Returns the seconds of eight toy runs by so many workers, which are started before."""
    import ray

    from singularbayes.experiments import runner
    from singularbayes.experiments.piece import Piece
    from singularbayes.experiments.ray_engine import Ray

    jobs = runner.plan("toy", ["low_rank"], range(RUNS), None, TOY)
    ray.init("local", num_cpus=workers, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            engine = Ray()
            warm = runner.plan("toy", ["low_rank"], range(RUNS, RUNS + workers), None, ("epochs=1", "warmup=0"))
            list(engine.map(Piece(Path(folder)), warm))  # every worker has imported all
            start = time.perf_counter()
            list(engine.map(Piece(Path(folder)), jobs))
            return time.perf_counter() - start
    finally:
        ray.shutdown()


def in_child(*arguments: str, devices: int = 1) -> float:
    """Returns the seconds that this program, called with these arguments and so many devices, prints."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    child = [sys.executable, __file__, "measure", *arguments]
    done = subprocess.run(child, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


@app.command
def measure(what: str, count: int) -> None:
    """Prints the seconds of one measurement; called by the program itself."""
    print(json.dumps(runs(count) if what == "runs" else _one_model(what, count)))


def _one_model(what: str, devices: int) -> float:
    import keras
    import numpy as np

    import singularbayes as sb

    mesh = keras.distribution.DeviceMesh((devices,), ("batch",), keras.distribution.list_devices())
    split = sb.ModelParallel(mesh, "batch") if what == "split" else keras.distribution.DataParallel(mesh)
    keras.distribution.set_distribution(split)
    keras.utils.set_random_seed(0)
    body = [sb.layers.Dense(units, "relu", posterior=sb.LowRank(25)) for units in (1200, 1200)]
    model = keras.Sequential([keras.Input((784,)), *body, sb.layers.Dense(10, posterior=sb.LowRank(10))])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    sb.set_kl(model, 60000)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(BATCH, 784)).astype("float32"), rng.integers(0, 10, BATCH)

    def work() -> None:
        if what == "predict":
            sb.predict(model, x, DRAWS, batch_size=BATCH)
            return
        for _ in range(STEPS):
            model.train_on_batch(x, y)

    work()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


WORK: dict[str, tuple[str, Callable[[int], float]]] = {
    f"{RUNS} toy runs, workers of a Ray cluster": ("runs", lambda n: in_child("runs", str(n))),
    f"{STEPS} steps, batch split over devices": ("data", lambda n: in_child("data", str(n), devices=n)),
    f"{STEPS} steps, batch and factors split over devices": ("split", lambda n: in_child("split", str(n), devices=n)),
    f"{DRAWS} draws for {BATCH} images, over devices": ("predict", lambda n: in_child("predict", str(n), devices=n)),
}


@app.default
def main(only: str = "", repeats: int = 5) -> None:
    """Measures every kind of work whose short name (runs, data, split, predict) contains `only`; keeps a record."""
    results = {}
    for what, (name, work) in WORK.items():
        if only not in name:
            continue
        rivals: dict[str, Callable[[], float]] = {str(count): partial(work, count) for count in COUNTS}
        times, _ = seconds(rivals, repeats, patience=120.0, label=name)
        results[what] = efficiency({int(count): values for count, values in times.items()})
        shown = Table("how many", "s (median)", "speed", "efficiency", title=what)
        for count, row in results[what].items():
            shown.add_row(count, f"{row['median_ms'] / 1e3:.3f}", f"{row['speed']:.2f}", f"{row['efficiency']:.2f}")
        Console().print(shown)
    keep("scaling" + (f"_{only}" if only else ""), results)


if __name__ == "__main__":
    app()
