"""The command that compares defaults (`problems/defaults.py`), for a machine with an accelerator.

    python -m singularbayes_experiments.runs.defaults --out runs/defaults --minutes 9

Work is done in chunks, each of which is one program (`configured_fit`) and ends in lines of JSON in the folder: a
second call does what is missing. On a machine with many cores, processes on the CPU take small tables from the end of
the list while this one takes images and tables on the accelerator. When all tuning runs are there, it prints the
choice, confirms it with fresh seeds, and prints how it compares.
"""

import argparse
import gzip
import itertools
import json
import math
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import jax
import numpy as np
from jax import numpy as jnp

from singularbayes import metrics
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.configured_fit import Configuration, Member, Program, State
from singularbayes_experiments.problems.defaults import (
    CONFIGURATIONS,
    DRAWS,
    PERTURBED,
    RESULT_SEEDS,
    SCALES,
    SETS,
    TUNING_SEEDS,
    Moments,
    Rows,
    Set,
    configurations,
    kind_of,
    network,
    nll_without_inputs,
    rows_of,
    run_name,
    scores,
    uncertainty,
)

CHUNK = 288  # members of a program


@dataclass(frozen=True)
class Chunk:
    """Members of one program that are trained together."""

    set: Set
    kind: str
    name: str
    members: tuple[Member, ...]


def chunks(sets: Sequence[Set], names: Sequence[str], seeds: Sequence[int], done: set[tuple]) -> Iterator[Chunk]:
    """Yields what is left to be trained: set by set, the deterministic networks first."""
    every: dict[str, list[Configuration | None]] = defaultdict(list)
    for configuration in (None, *(CONFIGURATIONS[name] for name in names)):
        every[kind_of(configuration)].append(configuration)
    for one, (kind, wanted) in itertools.product(sets, every.items()):
        members = [Member(configuration, seed) for configuration in wanted for seed in seeds]
        for number, i in enumerate(range(0, len(members), CHUNK)):
            missing = [m for m in members[i : i + CHUNK] if (one.name, run_name(m), m.seed) not in done]
            if missing:
                yield Chunk(one, kind, f"{one.name}-{kind}-{seeds[0]}-{number}", tuple(missing))


class Trained:
    """Trains chunks; the data and the programs of a set are kept for its next chunk."""

    def __init__(self) -> None:
        self._rows: tuple[str, Rows] | None = None
        self._programs: dict[tuple[str, str], Program] = {}
        self._moments: dict[tuple[str, str], Moments] = {}

    def rows(self, one: Set) -> Rows:
        if self._rows is None or self._rows[0] != one.name:
            self._rows, self._programs = (one.name, rows_of(one)), {}
            self._moments = {}
        return self._rows[1]

    def program(self, chunk: Chunk) -> Program:
        rows, one = self.rows(chunk.set), chunk.set
        count = len(rows.split(0)[0])
        size = min(one.batch_size, count)

        def order(seed: int, epoch: int) -> np.ndarray:
            ids = np.random.default_rng([seed, epoch]).permutation(rows.split(seed)[0])
            return ids[: count // size * size].reshape(-1, size).astype("int32")

        if (one.name, chunk.kind) not in self._programs:
            self._programs[one.name, chunk.kind] = Program(
                lambda seed: network(one, rows, chunk.kind), rows.x, rows.y, count, order, one.epochs
            )
        return self._programs[one.name, chunk.kind]

    def __call__(self, chunk: Chunk, deadline: float) -> list[dict]:
        """Returns a record of every member; raises `TimeoutError` where the deadline comes first."""
        start, one, rows, program = time.time(), chunk.set, self.rows(chunk.set), self.program(chunk)
        splits = [rows.split(member.seed) for member in chunk.members]
        best: list = [None] * len(chunk.members)
        seeds = sorted({member.seed for member in chunk.members})
        which = np.array([seeds.index(member.seed) for member in chunk.members])
        parts = [rows.x[np.stack([rows.split(seed)[part] for seed in seeds])] for part in (1, 2)]
        moments = self.moments(chunk)

        def stop_early(epoch: int, state: State) -> None:
            if time.time() > deadline:
                raise TimeoutError
            if chunk.kind == "deterministic":
                p = moments(state, parts[0], which)
                for i, (_, stop, _) in enumerate(splits):
                    nll = scores(one.task, p[i], rows.y[stop])["nll"]
                    if best[i] is None or nll < best[i][0]:
                        best[i] = (nll, epoch + 1, jax.tree.map(lambda values: values[i], state[:2]))  # noqa: B023

        state = program.train(chunk.members, stop_early)
        if chunk.kind == "deterministic":
            state = jax.tree.map(lambda *values: jnp.stack(values), *(each[2] for each in best))
        validation = moments(state, parts[1], which)
        strange = moments(state, np.stack([self._perturbed(rows, seed) for seed in seeds]), which)
        share = (time.time() - start) / len(chunk.members)
        found = []
        for i, (member, (train, _, validate)) in enumerate(zip(chunk.members, splits, strict=True)):
            line = {"set": one.name, "method": run_name(member), "seed": member.seed}
            line |= {} if member.configuration is None else {"configuration": asdict(member.configuration)}
            line |= {"epochs": best[i][1] if best[i] else one.epochs, "seconds": round(share, 3)}
            line["without_inputs"] = nll_without_inputs(one.task, rows.y[validate], rows.y[train])
            if np.isfinite(validation[i]).all() and np.isfinite(strange[i]).all():
                line |= scores(one.task, validation[i], rows.y[validate])
                spreads = (uncertainty(one.task, p[i]) for p in (validation, strange))
                line["proxy_ood"] = metrics.auroc_ood(*spreads)
            found.append(line)
        return found

    def moments(self, chunk: Chunk) -> Moments:
        """Returns the averages over draws that the program of a chunk is scored by."""
        key = chunk.set.name, chunk.kind
        if key not in self._moments:
            draws = 1 if chunk.kind == "deterministic" else DRAWS
            self._moments[key] = Moments(self.program(chunk).model, chunk.set.task, draws)
        return self._moments[key]

    @staticmethod
    def _perturbed(rows: Rows, seed: int) -> np.ndarray:
        train, _, _ = rows.split(seed)
        return protocol.perturbed(rows.x[train[:PERTURBED]], seed)


def read(folders: Sequence[Path]) -> list[dict]:
    """Returns the records of some folders, each run once."""
    texts = [path.read_text() for folder in folders for path in sorted(folder.glob("*.jsonl"))]
    texts += [gzip.decompress(path.read_bytes()).decode() for f in folders for path in sorted(f.glob("*.jsonl.gz"))]
    found = [json.loads(line) for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return list({(one["set"], one["method"], one["seed"]): one for one in found}.values())


def chosen(records: Sequence[dict], sets: Sequence[str]) -> protocol.Choice:
    """Returns the default by the tuning seeds; every configuration needs all sets, unless it diverged on one."""
    by_run = {(one["set"], one["method"], one["seed"]): one for one in records}
    differences: dict[str, dict[str, list[float]]] = {}
    ood = {}
    for name in {one["method"] for one in records} - {"deterministic"}:
        runs = {one: [by_run.get((one, name, seed)) for seed in TUNING_SEEDS] for one in sets}
        flat = [run for each in runs.values() for run in each]
        if not all(run is not None and run.get("nll", math.inf) <= run["without_inputs"] for run in flat):
            continue
        own = {one: [run["nll"] for run in each] for one, each in runs.items()}  # type: ignore[index]
        theirs = {one: [by_run[one, "deterministic", seed]["nll"] for seed in TUNING_SEEDS] for one in sets}
        differences[name] = {one: list(np.subtract(own[one], theirs[one])) for one in sets}
        ood[name] = float(np.mean([run["proxy_ood"] for run in flat]))  # type: ignore[index]
    return protocol.choose_default(dict(sorted(differences.items())), ood)


def report(records: Sequence[dict], name: str, seeds: Sequence[int]) -> str:
    """Returns a line per set: the NLL of a configuration less that of the early-stopped deterministic network."""
    by_run = {(one["set"], one["method"], one["seed"]): one for one in records}
    lines = []
    for one in SETS:
        runs = [(by_run.get((one, name, seed)), by_run.get((one, "deterministic", seed))) for seed in seeds]
        if not all(ours and theirs and "nll" in ours for ours, theirs in runs):
            continue
        ours, theirs = ([run["nll"] for run in each] for each in zip(*runs, strict=True))
        found = protocol.paired(ours, theirs)
        said = "not worse" if found.not_worse else "WORSE"
        lines.append(
            f"{one:28} {np.mean(ours):8.4f} deterministic {np.mean(theirs):8.4f} difference {found.mean:+.4f} "
            f"[{found.low:+.4f}, {found.high:+.4f}] {said}"
        )
    return "\n".join(lines)


def work(
    sets: Sequence[Set],
    names: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    earlier: Sequence[Path],
    deadline: float,
    claims: Path,
    worker: str,
) -> bool:
    """Does the chunks that no other process is at until the deadline; returns whether it came to their end."""
    trained = Trained()
    for one in sets:
        done = {(run["set"], run["method"], run["seed"]) for run in read([out, *earlier])}
        for chunk in chunks([one], names, seeds, done):
            try:
                (claims / chunk.name).touch(exist_ok=False)
            except FileExistsError:
                continue
            try:
                found = trained(chunk, deadline)
            except TimeoutError:
                return False
            with (out / f"{worker}.jsonl").open("a") as file:
                file.write("".join(f"{json.dumps(line)}\n" for line in found))
            best = min((line.get("nll", math.inf) for line in found), default=math.inf)
            print(f"{worker} {one.name} {chunk.kind}: {len(found)} runs, best NLL {best:.4f}", flush=True)
            if time.time() > deadline:
                return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing for so many minutes, and prints the choice when all is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder of the records")
    parser.add_argument("--earlier", type=Path, action="append", default=[], help="folders of earlier records")
    parser.add_argument("--minutes", type=float, default=9.0, help="end after so many minutes")
    parser.add_argument("--sets", default=",".join(SETS), help="data sets with commas between")
    parser.add_argument("--workers", type=int, default=None, help="processes on the CPU beside this one")
    parser.add_argument("--tiny", action="store_true", help="few configurations and epochs, to see that it works")
    parser.add_argument("--claims", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--worker", default="main", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    protocol.require_equal_tuning({m: {c.name: asdict(c) for c in configurations(m)} for m in SCALES})
    protocol.require_result_seeds(TUNING_SEEDS, RESULT_SEEDS)
    names, wanted = list(CONFIGURATIONS), [SETS[name] for name in given.sets.split(",")]
    if given.tiny:
        names = names[::37]
        wanted = [replace(one, units=tuple(min(u, 16) for u in one.units), epochs=5) for one in wanted]
    out, deadline = given.out, given.deadline or time.time() + 60 * given.minutes
    out.mkdir(parents=True, exist_ok=True)
    if given.claims is not None:  # one of the processes on the CPU
        work(wanted, names, TUNING_SEEDS, out, given.earlier, deadline, given.claims, given.worker)
        return 0
    claims = out / f"claims-{time.time_ns()}"
    claims.mkdir()
    cores = os.cpu_count() or 1
    count = given.workers if given.workers is not None else max(0, cores // 2 - 2)
    small = [one.name for one in wanted if one.name not in ("mnist", "fashion_mnist")][::-1]
    workers = [_start_worker(given, small[i % len(small) :] + small[: i % len(small)], claims, deadline, f"cpu{i}")
               for i in range(min(count, len(small)))]  # fmt: skip
    whole = work(wanted, names, TUNING_SEEDS, out, given.earlier, deadline, claims, "main")
    for process in workers:
        try:
            process.wait(timeout=max(1.0, deadline - time.time()) + 15)
        except subprocess.TimeoutExpired:  # it compiles, or makes the draws of a chunk that comes too late
            process.kill()
    records = read([out, *given.earlier])
    missing = sum(len(chunk.members) for chunk in chunks(wanted, names, TUNING_SEEDS, _keys(records)))
    if missing or not whole:
        print(f"{missing} tuning runs are missing: call it again with --earlier {out}, or the same --out.")
        return 0
    choice = chosen(records, [one.name for one in wanted])
    print(f"chosen by the tuning seeds: {choice.name}; {len(choice.ties)} tied\n{report(records, choice.name, (0, 1))}")
    whole = work(wanted, [choice.name], RESULT_SEEDS, out, given.earlier, deadline, claims, "main")
    print(f"five fresh seeds{'' if whole else ' (unfinished)'}:")
    print(report(read([out, *given.earlier]), choice.name, RESULT_SEEDS))
    return 0


def _keys(records: Sequence[dict]) -> set[tuple]:
    return {(one["set"], one["method"], one["seed"]) for one in records}


def _start_worker(given, sets: list[str], claims: Path, deadline: float, name: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "singularbayes_experiments.runs.defaults", "--out", str(given.out)]
    command += [part for folder in given.earlier for part in ("--earlier", str(folder))]
    command += ["--sets", ",".join(sets), "--claims", str(claims), "--deadline", str(deadline), "--worker", name]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    return subprocess.Popen([*command, *(["--tiny"] if given.tiny else [])], env=environment)


if __name__ == "__main__":
    sys.exit(main())
