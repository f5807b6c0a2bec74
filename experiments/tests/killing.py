"""Runs an experiment in children that are killed, at random moments and inside writes, until it is finished.

Called as a program by test_killed.py. A child is a fork of a process that has imported everything and started nothing:
it costs no imports, and JAX starts inside it. Prints what happened as JSON.
"""

import contextlib
import json
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import jax
import keras
import numpy as np
from singularbayes_experiments.methods.experiment import Experiment, Problem
from singularbayes_experiments.methods.settings import TrainingSettings
from singularbayes_experiments.methods.stopping import EarlyStop, Plateau
from singularbayes_experiments.methods.training import fit
from singularbayes_experiments.problems import registry
from singularbayes_experiments.records import files
from singularbayes_experiments.records.checkpoints import part
from singularbayes_experiments.records.record import Record, plain, read
from singularbayes_experiments.runs import runner

from singularbayes import LowRank, layers, predict

# A kill inside a system call of a write: which call, on which file, after how many of its kind.
INSIDE = [
    ("write", ".checkpoint", 3),
    ("write", "records.jsonl", 0),
]
MORE_INSIDE = [
    ("replace", ".checkpoint", 4),
    ("write", ".npz", 0),
    *(("write", ".checkpoint", skipped) for skipped in (0, 1, 6)),
    ("fsync", ".checkpoint", 0),
    ("replace", ".checkpoint", 0),
    ("chmod", ".checkpoint", 1),
    ("fsync", ".checkpoint", 2),
    ("replace", ".npz", 0),
    ("ftruncate", "records.jsonl", 0),
    ("fsync", "records.jsonl", 0),
]


@dataclass(frozen=True)
class Settings(TrainingSettings):
    epochs: int = 24
    batch_size: int = 8
    learning_rate: float = 0.05
    cosine: bool = False
    beta: float = 1.0
    warmup: int = 4


def run(method, seed, settings, *, watch=None, keep=None):
    """A network with all that has a state: noise, dropout, an annealed KL, validation, plateau, early stopping."""
    keras.utils.set_random_seed(seed)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(16, 2)).astype("float32")
    y = x[:, :1] - x[:, 1:]
    body = [layers.Dense(3, "tanh", posterior=LowRank(1)), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((2,)), *body])
    rules = [Plateau("val_nll", 1), EarlyStop("val_nll", 8)]
    seconds = fit(
        model,
        "mse",
        x,
        y,
        settings,
        watch=watch,
        keep=part(keep, "network"),
        validation=(x[:5], y[:5]),
        callbacks=rules,
    )
    found = predict(model, x, draws=3, seed=seed, likelihood="gaussian")
    arrays = {"mean": found.mean, "std": found.std}
    metrics = {"error": float(np.abs(found.mean - y).mean())}
    return Record("tiny", method, seed, plain(settings), metrics, model.count_params(), seconds, arrays=arrays)


class Tiny(Problem):
    name = "tiny"
    methods = {"low_rank": ""}  # noqa: RUF012
    run = staticmethod(run)

    def run_many(self, method, seeds, settings=None, *, preset="paper"):
        raise NotImplementedError

    def count_epochs(self, method, settings):
        return settings.epochs


class DeadlySystem:
    """The module `os`, but one call on one file kills the process; a write is half done then."""

    def __init__(self, call, file, skipped):
        self._call, self._file, self._skipped = call, file, skipped

    def __getattr__(self, name):
        real = getattr(os, name)
        return self._deadly(real) if name == self._call else real

    def _deadly(self, real):
        def call(first, *others):
            path = os.readlink(f"/proc/self/fd/{first}") if isinstance(first, int) else str(first)
            if self._file in path:
                self._skipped -= 1
            if self._file in path and self._skipped < 0:
                if real is os.write:
                    real(first, others[0][: len(others[0]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return real(first, *others)

        return call


def start(jobs, folder, deadly=None):
    """Returns the process id of a child that does the runs, or what is left of them."""
    child = os.fork()
    if child:
        return child
    try:
        if deadly is not None:
            files.os = DeadlySystem(*deadly)
        for job in jobs:
            with contextlib.suppress(runner.Skipped):
                runner.carry_out(job, folder, every=0)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def ended(child):
    """Waits for a child and says whether it was killed; raises where it failed otherwise."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    if status:
        raise RuntimeError(f"A run failed with status {status}.")
    return False


def compare(folder, whole):
    """Raises unless the record and the arrays of a folder are those of the run that was left in peace."""
    (found,), (expected,) = read(folder), read(whole)
    assert found == expected, (found, expected)
    for name, array in expected.arrays.items():
        assert found.arrays[name].tobytes() == array.tobytes(), name
    lines = (folder / "records.jsonl").read_bytes()
    assert lines.count(b"\n") == 1 and lines.endswith(b"}\n")
    names = {path.name for path in folder.iterdir()} - {".locks", "unfinished"}
    assert names == {"records.jsonl", f"{found.name}.npz"}, names
    assert not any((folder / "unfinished").iterdir())


def killed_at(moment, jobs, folder):
    """Starts a child, kills it after so many seconds, and says whether it still lived."""
    child = start(jobs, folder)
    time.sleep(moment)
    os.kill(child, signal.SIGKILL)
    return ended(child)


def main(folder: Path, every: bool) -> None:
    """Does some kills, or every one of the lists and more at random moments."""
    random_kills, inside = (11, [*MORE_INSIDE, *INSIDE]) if every else (1, INSIDE)
    registry.EXPERIMENTS["tiny"] = Experiment("", Tiny(), {"paper": Settings()})
    keras.utils.set_random_seed(0)  # imports TensorFlow where there is one
    # Compiled once, in the first child: what is tried here does not depend on it.
    jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jobs = [runner.Job("tiny", "low_rank", seed, Settings(), "paper") for seed in range(2)]
    # Two processes at once, each given both runs: they share them out.
    assert not any(map(ended, [start(jobs, folder / "shared") for _ in range(2)]))
    shared = [record.seed for record in read(folder / "shared")]
    jobs = jobs[:1]
    begun = time.monotonic()
    assert not ended(start(jobs, folder / "whole"))
    life = time.monotonic() - begun

    seed = np.random.SeedSequence().entropy  # printed, so that a failure can be repeated
    print(json.dumps({"seed": seed}), file=sys.stderr)
    rng = np.random.default_rng(seed)
    moments = life * (rng.permutation(random_kills) + rng.random(random_kills)) / random_kills
    kills = [lambda place, moment=moment: killed_at(moment, jobs, place) for moment in moments]
    kills += [lambda place, call=call: ended(start(jobs, place, call)) for call in inside]
    done = rounds = 0
    while done < len(kills):
        place = folder / f"round-{rounds}"
        while done < len(kills) and kills[done](place):
            done += 1
        ended(start(jobs, place))
        compare(place, folder / "whole")
        rounds += 1
        assert rounds < 2 * len(kills), f"kill {done} comes too late in every run"
    print(json.dumps({"life": life, "rounds": rounds, "kills": done, "shared": shared}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), every="all" in sys.argv[2:])
