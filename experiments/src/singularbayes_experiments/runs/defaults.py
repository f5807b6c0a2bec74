"""The command that compares defaults (`problems/defaults.py`), for a machine with an accelerator.

    python -m singularbayes_experiments.runs.defaults --out runs/defaults --minutes 9

Work has two stages: all configurations, and both choices with fresh seeds. It is done in chunks, each of which is one
program (`configured_fit`) and ends in lines of JSON in the folder: a second call does what is missing. On a machine
with many cores, processes on the CPU take small tables from the end of the list while this one takes images on the
accelerator, and a second one tables. It prints the choices and how they compare.
"""

import argparse
import itertools
import math
import os
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
from singularbayes_experiments.methods.network_draws import NetworkDraws
from singularbayes_experiments.problems.defaults import (
    COMPONENTS,
    CONFIGURATIONS,
    DRAWS,
    IMAGES,
    PERTURBED,
    RESULT_SEEDS,
    SCALES,
    SETS,
    STOPPED,
    TUNING_SEEDS,
    DefaultsSet,
    Rows,
    configurations,
    kind_of,
    moments,
    network,
    nll_without_inputs,
    pooled,
    rows_of,
    run_name,
    scores,
    uncertainty,
)
from singularbayes_experiments.runs import claimed_work

CHUNK = 96  # members of a program


@dataclass(frozen=True)
class Chunk:
    """Members of one program that are trained together."""

    set: DefaultsSet
    kind: str
    name: str
    members: tuple[Member, ...]

    @property
    def configured(self) -> bool:
        return self.kind != "deterministic"


def chunks(
    sets: Sequence[DefaultsSet], wanted: Sequence[Configuration], seeds: Sequence[int], done: set[tuple]
) -> Iterator[Chunk]:
    """Yields what is left to be trained: set by set, the deterministic networks first."""
    every: dict[str, list[Configuration | None]] = defaultdict(list)
    for configuration in (None, *wanted):
        every[kind_of(configuration)].append(configuration)
    for one, (kind, own) in itertools.product(sets, every.items()):
        most = CHUNK // max(1 if configuration is None else configuration.components for configuration in own)
        runs = list(itertools.product(own, seeds))
        for number, i in enumerate(range(0, len(runs), most)):
            members = [
                Member(configuration, seed, component)
                for configuration, seed in runs[i : i + most]
                for component in range(1 if configuration is None else configuration.components)
                if (one.name, run_name(Member(configuration, seed)), seed) not in done
            ]
            if members:
                count = members[0].configuration.components if members[0].configuration else 1
                yield Chunk(one, kind, f"{one.name}-{kind}-{count}-{seeds[0]}-{number}", tuple(members))


class Trained:
    """Trains chunks; the data and the programs of a set are kept for its next chunk."""

    def __init__(self) -> None:
        self._rows: tuple[str, Rows] | None = None
        self._programs: dict[tuple[str, str], Program] = {}
        self._moments: dict[tuple[str, str, int], NetworkDraws] = {}

    def rows(self, one: DefaultsSet) -> Rows:
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
        """Returns the records of all members; raises `OutOfTime` where the deadline comes first.

        Every network is scored at the epoch in which the NLL of its mean, of a mixture its first component's, was
        least on the rows that stop; low-rank networks as they end, too. The first component of a mixture is the single
        network of the same configuration and seed, and has records as such.
        """
        start, one, rows, program = time.time(), chunk.set, self.rows(chunk.set), self.program(chunk)
        seeds = sorted({member.seed for member in chunk.members})
        which = np.array([seeds.index(member.seed) for member in chunk.members])
        parts = [rows.x[np.stack([rows.split(seed)[part] for seed in seeds])] for part in (1, 2)]
        runs = [i for i, member in enumerate(chunk.members) if member.component == 0]
        run_of = np.searchsorted(runs, np.arange(len(chunk.members)), side="right") - 1
        watched = self.moments(chunk, draws=1)
        first = [math.ceil(m.configuration.pretrained * one.epochs) if m.configuration else 0 for m in chunk.members]
        least, epochs = np.full(len(runs), math.inf), np.zeros(len(runs), int)
        best: State = []

        def watch(epoch: int, state: State) -> None:
            nonlocal best
            if time.time() > deadline:
                raise claimed_work.OutOfTime
            p = watched(state, parts[0], which)
            nll = np.array([scores(one.task, p[i], rows.y[rows.split(chunk.members[i].seed)[1]])["nll"] for i in runs])
            better = (nll < least) & np.array([epoch >= first[i] for i in runs])
            least[better], epochs[better] = nll[better], epoch + 1
            best = _where(better[run_of], state[:2], best) if best else state[:2]
            best = jax.tree.map(jnp.copy, best)  # the next epoch is given the buffers of this state

        last = program.train(chunk.members, watch)
        averages = self.moments(chunk, DRAWS if chunk.configured else 1)
        perturbed = np.stack([self._perturbed(rows, seed) for seed in seeds])
        ends = {STOPPED: best, "": last} if chunk.configured else {"": best}
        found = []
        for end, state in ends.items():
            every = [averages(state, x, which) for x in (parts[1], perturbed)]
            share = round((time.time() - start) / len(runs), 3)
            for run, i in enumerate(runs):
                epoch = int(epochs[run]) if end or state is best else one.epochs
                parts_of_run = [p[run_of == run] for p in every]
                for member in dict.fromkeys((chunk.members[i], _first_component(chunk.members[i]))):
                    count = member.configuration.components if member.configuration else 1
                    line = {"set": one.name, "method": run_name(member) + end, "seed": member.seed}
                    line |= {} if member.configuration is None else {"configuration": asdict(member.configuration)}
                    line |= {"epochs": epoch, "seconds": share}
                    found.append(line | self._scores(one, rows, member.seed, [p[:count] for p in parts_of_run]))
        return found

    @staticmethod
    def _scores(one: DefaultsSet, rows: Rows, seed: int, components: list[np.ndarray]) -> dict[str, float]:
        """Returns the scores of a run by the averages of its components on validation and on perturbed rows."""
        train, _, validate = rows.split(seed)
        validation, perturbed = (pooled(one.task, p) for p in components)
        found = {"without_inputs": nll_without_inputs(one.task, rows.y[validate], rows.y[train])}
        if np.isfinite(validation).all() and np.isfinite(perturbed).all():
            found |= scores(one.task, validation, rows.y[validate])
            spreads = (uncertainty(one.task, p) for p in (validation, perturbed))
            found["proxy_ood"] = metrics.auroc_ood(*spreads)
        return found

    def moments(self, chunk: Chunk, draws: int) -> NetworkDraws:
        """Returns the averages over draws that the program of a chunk is scored by."""
        key = chunk.set.name, chunk.kind, draws
        if key not in self._moments:
            self._moments[key] = moments(self.program(chunk).model, chunk.set.task, draws)
        return self._moments[key]

    @staticmethod
    def _perturbed(rows: Rows, seed: int) -> np.ndarray:
        train, _, _ = rows.split(seed)
        return protocol.perturbed(rows.x[train[:PERTURBED]], seed)


def _first_component(member: Member) -> Member:
    """Returns the single network that the first component of a mixture is."""
    configuration = member.configuration
    return member if configuration is None else replace(member, configuration=replace(configuration, components=1))


def _where(chosen: np.ndarray, new: State, old: State) -> State:
    def pick(these, those):
        return jnp.where(chosen.reshape(-1, *[1] * (those.ndim - 1)), these, those)

    return jax.tree.map(pick, new, old)


def read(folders: Sequence[Path]) -> list[dict]:
    """Returns the records of some folders, each run once."""
    found = claimed_work.read_lines(folders)
    return list({(one["set"], one["method"], one["seed"]): one for one in found}.values())


def chosen(records: Sequence[dict], sets: Sequence[str], components: int = 1) -> protocol.Choice:
    """Returns the default by the tuning seeds; every configuration needs all sets, unless it diverged on one."""
    differences, ood = _differences(records, sets, components)
    return protocol.choose_default(differences, ood)


def _differences(
    records: Sequence[dict], sets: Sequence[str], components: int
) -> tuple[dict[str, dict[str, list[float]]], dict[str, float]]:
    """Returns what `protocol.choose_default` takes; without the sets on which the deterministic network diverged."""
    by_run = {(one["set"], one["method"], one["seed"]): one for one in records}
    base = {one: [by_run[one, "deterministic", seed].get("nll", math.nan) for seed in TUNING_SEEDS] for one in sets}
    base = {one: nll for one, nll in base.items() if all(map(math.isfinite, nll))}
    differences: dict[str, dict[str, list[float]]] = {}
    ood = {}
    own = {one["method"] for one in records if one.get("configuration", {}).get("components", 1) == components}
    for name in own - {"deterministic"}:
        runs = {one: [by_run.get((one, name, seed)) for seed in TUNING_SEEDS] for one in sets}
        flat = [run for each in runs.values() for run in each]
        if not all(run is not None and run.get("nll", math.inf) <= run["without_inputs"] for run in flat):
            continue
        ours = {one: [run["nll"] for run in each] for one, each in runs.items()}  # type: ignore[index]
        differences[name] = {one: list(np.subtract(ours[one], theirs)) for one, theirs in base.items()}
        ood[name] = float(np.mean([run["proxy_ood"] for run in flat]))  # type: ignore[index]
    return dict(sorted(differences.items())), ood


def report(records: Sequence[dict], name: str, seeds: Sequence[int]) -> str:
    """Returns a line per set: the NLL of a configuration less that of the early-stopped deterministic network."""
    by_run = {(one["set"], one["method"], one["seed"]): one for one in records}
    lines = []
    for one in SETS:
        runs = [(by_run.get((one, name, seed)), by_run.get((one, "deterministic", seed))) for seed in seeds]
        if not all(run for pair in runs for run in pair):
            continue
        ours, theirs = ([run.get("nll", math.nan) for run in each if run] for each in zip(*runs, strict=True))
        diverged = [who for who, nll in ((name, ours), ("deterministic", theirs)) if not all(map(math.isfinite, nll))]
        if diverged:
            lines.append(f"{one:28} diverged: {', '.join(diverged)}")
            continue
        found = protocol.paired(ours, theirs)
        verdict = "not worse" if found.not_worse else "WORSE"
        lines.append(
            f"{one:28} {np.mean(ours):8.4f} deterministic {np.mean(theirs):8.4f} difference {found.mean:+.4f} "
            f"[{found.low:+.4f}, {found.high:+.4f}] {verdict}"
        )
    return "\n".join(lines)


def work(
    sets: Sequence[DefaultsSet],
    configurations: Sequence[Configuration],
    seeds: Sequence[int],
    *,
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
        for chunk in chunks([one], configurations, seeds, done):
            if not claimed_work.claim(claims, chunk.name, worker):
                continue
            try:
                with claimed_work.attempt(claims, chunk.name):
                    found = trained(chunk, deadline)
                    best = claimed_work.keep(found, out, worker)
                    print(f"{worker} {one.name} {chunk.kind}: {len(found)} runs, best NLL {best:.4f}", flush=True)
            except claimed_work.OutOfTime:
                return False
            if time.time() > deadline:
                return False
    return True


STAGES = {"tuning": TUNING_SEEDS, "results": RESULT_SEEDS}


def wanted_in(stage: str, records: Sequence[dict], sets: Sequence[str], tiny: bool) -> list[Configuration]:
    """Returns the configurations of a stage: all, or the two that the records choose, each with its components."""
    if stage == "tuning":
        return list(CONFIGURATIONS.values())[:: len(CONFIGURATIONS) // 2 if tiny else 1]
    single = {replace(one, components=1).name: one for one in CONFIGURATIONS.values()}
    names = [chosen(records, sets, number).name.removesuffix(STOPPED) for number in (1, COMPONENTS)]
    return list(dict.fromkeys({**single, **CONFIGURATIONS}[name] for name in names))


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing for this many minutes, and prints the choices when all is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    claimed_work.add_arguments(parser, tiny="few configurations and epochs")
    parser.add_argument("--sets", default=",".join(SETS), help="data sets with commas between")
    parser.add_argument("--workers", type=int, default=None, help="processes on the CPU beside this one")
    parser.add_argument("--beside", type=int, default=0, help="processes on the accelerator beside this one: tables")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    protocol.require_equal_tuning({m: {c.name: asdict(c) for c in configurations(m)} for m in SCALES})
    protocol.require_result_seeds(TUNING_SEEDS, RESULT_SEEDS)
    sets = [SETS[name] for name in given.sets.split(",")]
    if given.tiny:
        sets = [replace(one, units=tuple(min(u, 16) for u in one.units), epochs=2) for one in sets]
    given.deadline = given.deadline or time.time() + 60 * given.minutes
    out, deadline = given.out, given.deadline
    out.mkdir(parents=True, exist_ok=True)
    every = sorted(one.name for one in sets)  # processes on the CPU have them in another order

    def wanted(stage: str) -> list[Configuration]:
        return wanted_in(stage, read([out, *given.earlier]), every, given.tiny)

    if given.claims is not None:  # one of the processes beside
        sets = [one for one in sets if one.name not in IMAGES]
        work(
            sets,
            wanted(given.stage),
            STAGES[given.stage],
            out=out,
            earlier=given.earlier,
            deadline=deadline,
            claims=given.claims,
            worker=given.worker,
        )
        return 0
    cores = os.cpu_count() or 1
    count = given.workers if given.workers is not None else max(0, cores // 2 - 2)
    failed = 0
    for stage, seeds in STAGES.items():
        given.claims = out / f"claims-{time.time_ns()}"
        given.claims.mkdir()
        names, more = given.sets.split(","), ["--stage", stage]
        # On the accelerator the largest tables first, on the CPU the smallest.
        orders = {f"accelerator{i}": claimed_work.turned(names, i) for i in range(given.beside)}
        orders |= {f"cpu{i}": claimed_work.turned(names[::-1], i) for i in range(min(count, len(sets)))}
        module = "singularbayes_experiments.runs.defaults"
        workers = {name: claimed_work.start(module, given, name, order, more) for name, order in orders.items()}
        work(
            sets,
            wanted(stage),
            seeds,
            out=out,
            earlier=given.earlier,
            deadline=deadline,
            claims=given.claims,
            worker="main",
        )
        claimed_work.wait(workers, given.claims, deadline)
        failed = max(failed, claimed_work.report_failures(given.claims))
        done = _keys(read([out, *given.earlier]))
        missing = sum(len(chunk.members) for chunk in chunks(sets, wanted(stage), seeds, done))
        if missing:
            print(f"{missing} runs of {stage} are missing: call it again with --earlier {out}, or the same --out.")
            return failed
    records = read([out, *given.earlier])
    for number in (1, COMPONENTS):
        choice = chosen(records, every, number)
        print(f"chosen by the tuning seeds, components {number}: {choice.name}; {len(choice.ties)} tied")
        print(f"{report(records, choice.name, TUNING_SEEDS)}\nfive fresh seeds:")
        print(report(records, choice.name, RESULT_SEEDS))
    return failed


def _keys(records: Sequence[dict]) -> set[tuple]:
    return {(one["set"], one["method"], one["seed"]) for one in records}


if __name__ == "__main__":
    sys.exit(main())
