"""The paper's profile of the SST-2 Transformer, on a GPU: training steps, peak memory, Monte Carlo prediction, ranks.

Protocol: batches of 64 × 64 tokens, 10 warm-up steps and two epochs of 25 steps of Keras's step; prediction of 872
sentences by one pass, by 20 and by 100 draws. Every row is a process of its own, so that its peak memory is its own;
the steps that ratios are made of are taken in turn. The memory of training is what XLA reports for its program: the
allocator's peak, kept beside it, also holds what the compiler took to try kernels out. `--ids FILE.npy` gives real
token ids (872, 64), else made up; `--ranks` adds the seven ranks. Next to times stands their floor (`floor.py`).
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from cyclopts import App

app = App(help=__doc__)
SENTENCES, TOKENS, BATCH, NUM_DATA = 872, 64, 64, 67_349
SWEEP = ((4, 8), (8, 12), (10, 16), (12, 24), (16, 32), (24, 48), (32, 64))  # ranks of the embedding and the matrices


@dataclass(frozen=True)
class Row:
    """A network, how it predicts, and what is measured of it."""

    method: str
    embedding_rank: int = 16
    rank: int = 16
    policy: str = "float32"
    trimmed: bool = False
    share: float = 0.2  # of the GPU's memory; rows of a group live side by side
    jobs: tuple[str, ...] = ("train", "mc1", "mc20", "mc100")

    @property
    def settings(self):
        from singularbayes_experiments.problems import reviews

        return reviews.ReviewSettings(rank=self.rank, embedding_rank=self.embedding_rank)


ROWS = {
    "keras": Row("keras", share=0.1, jobs=("train",)),
    "low_rank": Row("low_rank", share=0.5, jobs=("train", "mc1", "mc20", "mc100")),
    "full_rank": Row("full_rank", share=0.1, jobs=("train",)),
    "fit, keras": Row("keras", share=0.1, jobs=("fit", "fit10")),
    "fit, low_rank": Row("low_rank", share=0.1, jobs=("fit", "fit10")),
    "fit, full_rank": Row("full_rank", share=0.1, jobs=("fit", "fit10")),
    "low_rank, bfloat16": Row("low_rank", policy="mixed_bfloat16", jobs=("mc100",)),
    "low_rank, trimmed": Row("low_rank", trimmed=True, jobs=("mc100",)),
    "low_rank, bfloat16, trimmed": Row("low_rank", policy="mixed_bfloat16", trimmed=True, jobs=("mc100",)),
    "low_rank, 10000 draws": Row("low_rank", share=0.4, jobs=("mc1", "mc20", "mc100", "mc10000")),
}
RANKS = {f"low_rank ({e}, {r})": Row("low_rank", e, r, share=0.1) for e, r in SWEEP}
IN_TURN = ("keras", "low_rank", "full_rank")


class Worker:
    """A process with one row and a share of the memory; `measure` gives the numbers of one job."""

    def __init__(self, row: Row, ids: str):
        order = json.dumps({"row": asdict(row), "ids": ids})
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", order],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "KERAS_BACKEND": "jax",
                "XLA_PYTHON_CLIENT_MEM_FRACTION": str(row.share),
            },
        )
        self.facts: dict[str, Any] = {}

    def ready(self) -> None:
        self.facts = self._answer()

    def measure(self, job: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(job + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"A row failed: {self.process.args!r}")
        return json.loads(line)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(order: dict[str, Any]) -> None:
    """Answers jobs line by line, after one line of facts when all of them are compiled."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    row = Row(**order["row"])
    jobs, facts = _jobs(row, order["ids"])
    print(json.dumps(facts), file=replies, flush=True)
    for line in sys.stdin:
        print(json.dumps(jobs[line.strip()]()), file=replies, flush=True)


def _jobs(row: Row, path: str) -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
    """Returns what can be measured of the row, each compiled, and its parameters and peak memory."""
    import builders
    import keras
    from singularbayes_experiments.problems import reviews
    from step import Step, prepared

    import singularbayes as sb

    keras.config.set_dtype_policy(row.policy)
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    ids = np.load(path) if path else rng.integers(1, 30_522, (SENTENCES, TOKENS)).astype("int32")
    x = rng.integers(1, 30_522, (BATCH, TOKENS)).astype("int32")
    y = rng.integers(0, 2, BATCH).astype("int32")

    def build() -> keras.Model:
        if row.method == "keras":
            return builders.rivals("sst2 transformer")["keras"]()
        return reviews.network(row.method, row.settings)

    model = build()
    facts: dict[str, Any] = {"parameters": sum(int(np.prod(v.shape)) for v in model.trainable_variables)}
    jobs: dict[str, Callable[[], Any]] = {}
    if "train" in row.jobs:
        step = Step(model, x, y, NUM_DATA)
        facts["training_program_bytes"] = step.bytes
        jobs["step"] = step.seconds
        step.run(10)
        facts["training_peak_bytes"] = _peak()
        jobs["train"] = lambda: [_seconds(partial(step.run, 25)) for _ in range(2)]
    for name, together in (("fit", 1), ("fit10", 10)):
        if name in row.jobs:
            fitted = prepared(build(), NUM_DATA, steps_per_execution=together)
            epoch = partial(fitted.fit, np.tile(x, (100, 1)), np.tile(y, 100), batch_size=BATCH, verbose=0)
            epoch()
            jobs[name] = partial(_epochs, epoch)

    def predict(draws: int):
        padding = 0 if row.trimmed else None
        return sb.predict(model, ids, draws, likelihood="categorical_logits", batch_size=SENTENCES, padding=padding)

    for name in row.jobs:
        if name.startswith("mc"):
            draws = int(name[2:])
            predict(draws)
            facts[f"{name}_peak_bytes"] = _peak()
            jobs[name] = partial(_five, partial(predict, draws))
    return jobs, facts


def _epochs(run: Callable[[], object]) -> list[float]:
    return [_seconds(run) / 100 for _ in range(3)]


def _five(run: Callable[[], object]) -> list[float]:
    return [_seconds(run) for _ in range(5)]


def _peak() -> int | None:
    import jax

    return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")


def _seconds(run) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def rates() -> dict[str, float]:
    """Returns the machine's measured rates: products in float32 (as JAX multiplies by default) and bfloat16, copies."""
    code = """
import json, time, jax, jax.numpy as jnp
def best(f, *a):
    jax.block_until_ready(f(*a)); times = []
    for _ in range(20):
        t = time.perf_counter(); jax.block_until_ready(f(*a)); times.append(time.perf_counter() - t)
    return min(times)
size = 8192 if jax.default_backend() != "cpu" else 1024
out = {}
for dtype in ("float32", "bfloat16"):
    m = jax.random.normal(jax.random.key(0), (size, size)).astype(dtype)
    out["operations_" + dtype] = 2 * size**3 / best(jax.jit(jnp.matmul), m, m)
a = jnp.ones((size * size * 4,), "float32")
out["bytes"] = 2 * a.nbytes / best(jax.jit(lambda a: a * 2.0), a)
print(json.dumps(out))
"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return json.loads(found.stdout.strip().splitlines()[-1])


def _measured(workers: dict[str, Worker], rows: dict[str, Row], repeats: int) -> dict[str, dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {name: dict(worker.facts) for name, worker in workers.items()}
    in_turn = [name for name in IN_TURN if name in workers]
    for name in in_turn:
        results[name]["step"] = []  # seconds
    for _ in range(repeats):
        for name in in_turn:
            results[name]["step"].append(workers[name].measure("step"))
    for name, worker in workers.items():
        for job in rows[name].jobs:
            if job != "mc10000":  # its memory is measured alone
                results[name][job] = worker.measure(job)
        worker.close()
        print(name, json.dumps(results[name]), file=sys.stderr, flush=True)
    return results


def floors(row: Row, parameters: int, measured: dict[str, float], length: float) -> dict[str, float]:
    """Returns the least seconds of a training step and of every prediction of a row, at the machine's rates."""
    import floor

    size, kind = (2, "bfloat16") if "bfloat16" in row.policy else (4, "float32")
    at = (measured[f"operations_{kind}"], measured["bytes"])
    found = {}
    if "train" in row.jobs:
        found["step"] = floor.training(row.method, parameters, row.settings, BATCH, TOKENS).seconds(*at)
    for job in row.jobs:
        if job.startswith("mc"):
            positions = length if row.trimmed else TOKENS
            least = floor.prediction(row.method, row.settings, SENTENCES, int(job[2:]), size, positions)
            found[job] = least.seconds(*at)
    return found


@app.default
def main(ids: str = "", ranks: bool = False, only: str = "", repeats: int = 8, record: str = "", worker: str = ""):
    """Profiles the methods, and the ranks too if requested; `only` picks rows by a part of their name.

    Args:
        ids: a file of token ids; record: another folder for the record; worker: how a row starts itself.
    """
    if worker:
        return serve(json.loads(worker))
    import jax
    from interleaved import keep

    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    measured = rates()
    rows = {name: row for name, row in (ROWS | RANKS if ranks else ROWS).items() if only in name}
    # Rows timed in turn are made one by one, for the compiler times kernels too; then the others, four at once.
    in_turn = [name for name in rows if name in IN_TURN]
    results: dict[str, Any] = {"accelerator": jax.devices()[0].device_kind, "rates": measured}
    length = float((np.load(ids) != 0).sum(axis=1).mean()) if ids else float(TOKENS)
    results |= {"ids": Path(ids).name or "made up", "mean_length": length, "rows": {}}
    rest = [name for name in rows if name not in in_turn]
    for group in ([[name] for name in in_turn], *([rest[i : i + 4]] for i in range(0, len(rest), 4))):
        workers: dict[str, Worker] = {}
        for names in group:
            workers |= {name: Worker(rows[name], ids) for name in names}
            for name in names:
                workers[name].ready()
                print(name, workers[name].facts, file=sys.stderr, flush=True)
        found = _measured(workers, rows, repeats)
        for name, row in found.items():
            row["floors"] = floors(rows[name], row["parameters"], measured, length)
        results["rows"] |= found
        keep("sst2_profile", results, Path(record) if record else None)


if __name__ == "__main__":
    app()
