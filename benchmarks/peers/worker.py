"""One rival in a process of its own: python -m peers.worker ORDER, with `benchmarks` on the path.

It builds the network, warms up and reports it in one line of JSON. Then it replies to every line "run" with the seconds
of one repeat, until its input ends.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any, TextIO

import numpy as np
from shapes import SHAPES

from peers import NoSuchLayer

THREADS = 2
SHORTEST = 0.3  # seconds; a repeat of training lasts at least as long
TRIAL_DRAWS = 2  # enough to choose a batch size when draws are taken one after another


def serve(prepare: Callable[[], tuple[Callable[[], float], dict[str, Any]]], lines: Iterable[str], out: TextIO) -> None:
    """Answers what came of `prepare`, then every "run"; `prepare` returns a repeat and facts about it."""
    try:
        repeat, facts = prepare()
    except NoSuchLayer as missing:
        _send(out, absent=f"no such layer: {missing}")
        return
    except Exception as error:
        _send(out, absent=f"fails: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}")
        raise
    _send(out, **facts)
    for line in lines:
        if line.strip() == "run":
            _send(out, seconds=repeat())


def _send(out: TextIO, **reply: Any) -> None:
    print(json.dumps(reply), file=out, flush=True)


def prepare(order: dict[str, Any]) -> tuple[Callable[[], float], dict[str, Any]]:
    """Returns one repeat of the job, in seconds a step or a prediction, and what to record about it."""
    peer = importlib.import_module(f"peers.{order['peer']}")
    facts = {"versions": {package: metadata.version(package) for package in peer.PACKAGES}}
    shape = SHAPES[order["network"]]
    if order["job"] == "training":
        options = {"execution": order["execution"]} if order.get("execution", 1) > 1 else {}
        run = peer.train(shape, order["variant"], **options)
        _seconds_a_step(run)  # compiles
        return lambda: _seconds_a_step(run), {**facts, "batch": shape.batch}
    predict = peer.predict(shape, order["variant"])
    x = shape.inputs(order["examples"])
    draws = order["draws"]
    batch = best_batch(predict, x, draws if peer.VECTORISED else min(draws, TRIAL_DRAWS), order["batches"])
    check(predict(x[:batch], min(draws, TRIAL_DRAWS), batch), shape.outputs)
    return lambda: _seconds(lambda: predict(x, draws, batch)), {**facts, "batch": batch}


def best_batch(
    predict: Callable[[np.ndarray, int, int], np.ndarray], x: np.ndarray, draws: int, batches: list[int]
) -> int:
    """Returns the batch size that takes least time an example: larger ones are tried until one is slower."""
    best, least = 0, float("inf")
    for batch in batches:
        predict(x[:batch], draws, batch)  # compiles
        each = _seconds(lambda: predict(x[:batch], draws, batch)) / batch  # noqa: B023
        if each > least:
            break
        best, least = batch, each
    return best


def check(mean: np.ndarray, outputs: int) -> None:
    """Refuses what is no prediction, so that nobody is timed at something else."""
    if mean.ndim != 2 or mean.shape[1] != outputs or not np.isfinite(mean).all():
        raise ValueError(f"a finite prediction of shape (examples, {outputs}) is needed; got shape {mean.shape}")
    if outputs > 1 and not np.allclose(mean.sum(axis=1), 1, atol=1e-3):
        raise ValueError(f"probabilities that sum to 1 are needed; got sums from {mean.sum(axis=1).min()}")


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _seconds_a_step(run: Callable[[], int]) -> float:
    start = time.perf_counter()
    steps = 0
    while (passed := time.perf_counter() - start) < SHORTEST:
        steps += run()
    return passed / steps


if __name__ == "__main__":
    if hasattr(os, "sched_setaffinity"):  # the same cores for all, also for libraries that have no setting for threads
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes elsewhere
    order = json.loads(sys.argv[1])
    serve(lambda: prepare(order), sys.stdin, replies)
