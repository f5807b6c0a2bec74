"""The paper's profile of the SST-2 Transformer: python benchmarks/profile_sst2.py, on a GPU with JAX; five minutes.

Protocol: batches of 64 × 64 tokens, 10 steps to warm up and two epochs of 25 steps; prediction of 872 sentences by one
pass, 20 and 100 draws, five times each. Every row is a process of its own, because an allocator's peak is a process's.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import records
from cyclopts import App

app = App(help=__doc__)
SENTENCES = 872
RANKS = ((4, 8), (8, 12), (10, 16), (12, 24), (16, 32), (24, 48), (32, 64))  # of the embedding and of the matrices


ROWS = {"Keras": (16, 16), "full-rank": (16, 16), "low-rank": (16, 16)} | {
    f"low-rank {e}, {r}": (e, r) for e, r in RANKS
}


def measure(name: str, tiny: bool) -> dict[str, Any]:
    """Returns parameters, bytes and seconds of one network."""
    import jax
    import keras
    from rows import facts
    from timed_networks import KINDS, Transformer, compiled, program
    from worker import seconds

    import singularbayes as sb

    keras.utils.set_random_seed(0)
    kind, (embedding_rank, rank) = KINDS[name.split()[0]], ROWS[name]
    network = replace(Transformer(), embedding_rank=embedding_rank, rank=rank)
    if tiny:
        network = replace(network, vocabulary=50, width=16, blocks=1, feed_forward=16)
    model = compiled(network.build(kind), kind)
    step = program(model, network.inputs(64))
    parameters = sum(int(np.prod(v.shape)) for v in model.trainable_variables)
    found: dict[str, Any] = {"facts": facts(), "parameters": parameters}
    step(10)
    found["peak_bytes"] = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    found["epoch"] = [25 * seconds(partial(step, 25), 0) for _ in range(2)]
    x = network.inputs(8 if tiny else SENTENCES)

    def predict(draws: int) -> int:
        return len(sb.predict(model, x, draws=draws, batch_size=SENTENCES).mean) // len(x)

    for draws in (1, 20, 100) if name.startswith("low-rank") else ():
        predict(draws)
        found[f"draws_{draws}"] = [seconds(partial(predict, draws), 0) for _ in range(5)]
    return found


@app.default
def main(*, tiny: bool = False, row: str = "") -> None:
    """Profiles every row and keeps the record; `row` is how a process measures its own."""
    if row:
        print(json.dumps(measure(row, tiny)))
        return
    found, facts, environment = {}, {}, {**os.environ, "KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    for name in ROWS:
        command = [sys.executable, str(Path(__file__)), "--row", name, *(["--tiny"] if tiny else [])]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
        found[name] = json.loads(done.stdout.splitlines()[-1])
        facts = found[name].pop("facts")
        print(name, found[name], flush=True)
    if not tiny:
        del facts["library"]
        records.write("sst2_profile", {**facts, "rows": found})


if __name__ == "__main__":
    app()
