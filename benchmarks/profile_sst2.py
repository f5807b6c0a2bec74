"""The paper's profile of the SST-2 Transformer, on a GPU: training steps, peak memory, Monte Carlo prediction, ranks.

Protocol: batches of 64 × 64 tokens, 10 warm-up steps and two epochs of 25 steps by `train_on_batch`; prediction of 872
sentences by one pass, by 20 and by 100 draws. Every row is a process of its own, so that its peak memory is its own;
the steps that ratios are made of are taken in turn. `--ids FILE.npy` gives real token ids (872, 64), else made up;
`--ranks` adds the seven ranks.
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
    """A network, how it is asked, and what is measured of it."""

    method: str
    embedding_rank: int = 16
    rank: int = 16
    policy: str = "float32"
    trimmed: bool = False
    jobs: tuple[str, ...] = ("train", "mc1", "mc20", "mc100")


ROWS = {
    "keras": Row("keras", jobs=("train", "fit")),
    "low_rank": Row("low_rank", jobs=("train", "fit", "mc100")),
    "full_rank": Row("full_rank", jobs=("train", "fit")),
    "low_rank, bfloat16": Row("low_rank", policy="mixed_bfloat16", jobs=("mc100",)),
    "low_rank, trimmed": Row("low_rank", trimmed=True, jobs=("mc100",)),
    "low_rank, bfloat16, trimmed": Row("low_rank", policy="mixed_bfloat16", trimmed=True, jobs=("mc100",)),
    "low_rank, 10000 draws": Row("low_rank", jobs=("mc10000",)),
}
RANKS = {f"low_rank ({e}, {r})": Row("low_rank", e, r) for e, r in SWEEP}
IN_TURN = ("keras", "low_rank", "full_rank")


class Worker:
    """A process with one row and a share of the memory; `ask` gives the numbers of one job."""

    def __init__(self, row: Row, ids: str, share: float):
        order = json.dumps({"row": asdict(row), "ids": ids})
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--worker", order],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{share:.3f}", "KERAS_BACKEND": "jax"},
        )
        self.facts: dict[str, Any] = {}

    def ready(self) -> None:
        self.facts = self._answer()

    def ask(self, job: str) -> Any:
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
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    row = Row(**order["row"])
    jobs, facts = _jobs(row, order["ids"])
    print(json.dumps(facts), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(jobs[line.strip()]()), file=answers, flush=True)


def _jobs(row: Row, path: str) -> tuple[dict[str, Callable[[], Any]], dict[str, Any]]:
    """Returns what the row can be asked, each compiled, and its parameters and peak memory."""
    import builders
    import keras

    import singularbayes as sb
    from singularbayes.experiments import sst2

    keras.config.set_dtype_policy(row.policy)
    keras.utils.set_random_seed(0)
    rng = np.random.default_rng(0)
    ids = np.load(path) if path else rng.integers(1, 30_522, (SENTENCES, TOKENS)).astype("int32")
    x = rng.integers(1, 30_522, (BATCH, TOKENS)).astype("int32")
    y = rng.integers(0, 2, BATCH).astype("int32")
    if row.method == "keras":
        model = builders.rivals("sst2 transformer")["keras"]()
    else:
        model = sst2.network(row.method, sst2.Settings(rank=row.rank, embedding_rank=row.embedding_rank))
    model.compile(keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    sb.set_kl(model, num_data=NUM_DATA)
    facts: dict[str, Any] = {"parameters": sum(int(np.prod(v.shape)) for v in model.trainable_variables)}
    jobs: dict[str, Callable[[], Any]] = {}
    if "train" in row.jobs:
        for _ in range(10):
            model.train_on_batch(x, y)
        facts["training_peak_bytes"] = _peak()
        jobs["train"] = lambda: [_seconds(lambda: [model.train_on_batch(x, y) for _ in range(25)]) for _ in range(2)]
    if "fit" in row.jobs:
        jobs["step"] = _stepper(model, x, y)
        many = (np.tile(x, (100, 1)), np.tile(y, 100))
        epoch = lambda: _seconds(lambda: model.fit(*many, batch_size=BATCH, verbose=0)) / 100  # noqa: E731
        jobs["fit"] = lambda: [epoch() for _ in range(3)]
        jobs["step"](), epoch()

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


def _stepper(model, x, y):
    """Returns the time of one compiled step, the data on the device and the weights kept there, over 50 steps."""

    def steps() -> float:
        import jax

        model.make_train_function()
        names = ("trainable_variables", "non_trainable_variables", "optimizer_variables", "metrics_variables")
        state = model._get_jax_state(**dict.fromkeys(names, True))
        data = jax.device_put((x, y))

        def run(state, times):
            # Keras's own compiled step takes a batch from an iterator; it donates the state, so a copy is given.
            for _ in range(times):
                logs, state = model.train_function(state, iter([data]))
            jax.block_until_ready(logs)
            return state

        state = run(jax.tree.map(lambda array: array + 0, state), 5)
        return _seconds(lambda: run(state, 50)) / 50

    return steps


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
        results[name]["step"] = []
    for _ in range(repeats):
        for name in in_turn:
            results[name]["step"].append(workers[name].ask("step"))
    for name, worker in workers.items():
        for job in rows[name].jobs:
            if job != "mc10000":  # its memory is asked for alone
                results[name][job] = worker.ask(job)
        worker.close()
        print(name, json.dumps(results[name]), file=sys.stderr, flush=True)
    return results


@app.default
def main(ids: str = "", ranks: bool = False, only: str = "", repeats: int = 8, record: str = "", worker: str = ""):
    """Profiles the methods, and the ranks too if asked; `only` picks rows by a part of their name.

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
    # Rows that are timed in turn are made one by one, for the compiler times kernels too; then the others all at once.
    in_turn = [name for name in rows if name in IN_TURN]
    results: dict[str, Any] = {"accelerator": jax.devices()[0].device_kind, "rates": measured}
    results |= {"ids": Path(ids).name or "made up", "rows": {}}
    for group in ([[name] for name in in_turn], [[name for name in rows if name not in in_turn]]):
        workers: dict[str, Worker] = {}
        for names in group:
            share = 0.8 / max(1, len(in_turn if in_turn and names[0] in in_turn else names))
            workers |= {name: Worker(rows[name], ids, share) for name in names}
            for name in names:
                workers[name].ready()
                print(name, workers[name].facts, file=sys.stderr, flush=True)
        results["rows"] |= _measured(workers, rows, repeats)
        keep("sst2_profile", results, Path(record) if record else None)


if __name__ == "__main__":
    app()
