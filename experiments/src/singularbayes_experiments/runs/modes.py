"""The command that compares modes (`problems/modes.py`), for a machine with an accelerator.

    python -m singularbayes_experiments.runs.modes --out runs/modes --minutes 9

A task is one method on one data set: a round of its tuning, or the results of what it chose, trained in few programs.
Runs are kept as lines of JSON as soon as their program ends, and a second call does what is missing. Processes on the
accelerator take large data first, processes on the CPU the tables of UCI. It prints the tables of what is complete.
"""

import argparse
import itertools
import json
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import keras
import numpy as np

from singularbayes import metrics
from singularbayes_experiments.methods import protocol
from singularbayes_experiments.methods.network_draws import NetworkDraws
from singularbayes_experiments.methods.network_fit import Fit, Network, Settings
from singularbayes_experiments.problems import modes_data, modes_large
from singularbayes_experiments.problems.modes import METHODS, SETS, TUNING_SEEDS, ModesMethod, ModesSet
from singularbayes_experiments.problems.modes_data import Data, data_of, result_seeds
from singularbayes_experiments.problems.modes_grids import configurations, round_of
from singularbayes_experiments.records.record import machine
from singularbayes_experiments.runs import claimed_work
from singularbayes_experiments.runs.claimed_work import read_lines
from singularbayes_experiments.runs.modes_records import (
    DIVERGED,
    RESULTS,
    TUNING,
    Records,
    by_run,
    chosen,
)

_TABLES = [one.name for one in SETS.values() if one.family == "uci"]
_SETS_HELP = (
    "data sets with commas between, in the order of work, name:2 for the second round of one alone; a process for each "
    "list between semicolons"
)


@dataclass(frozen=True)
class ModesTask:
    """One method on one data set: all its configurations of a round, or the one chosen of all rounds up to it."""

    set: ModesSet
    method: str
    stage: str
    round: int = 1

    @property
    def name(self) -> str:
        return f"{self.set.name}-{self.method}-{self.stage}{self.round}"

    @property
    def seeds(self) -> tuple[int, ...]:
        return TUNING_SEEDS if self.stage == TUNING else result_seeds(self.set)

    def settings(self, records: Records, tiny: bool = False) -> dict[str, Settings] | None:
        """Returns the configurations to train by name; None while what they follow from is missing."""
        every = configurations(self.set, self.method, self.set.rounds)
        if self.stage == RESULTS:
            name = chosen(records, self.set, self.method, self.round)
            every = {name: every[name]} if name else {}
        else:
            every = {name: own for name, own in every.items() if round_of(self.set, name) == self.round}
        if not every or (METHODS[self.method].svd and not self._ensemble(records, every)):
            return None
        return {name: replace(own, epochs=min(own.epochs, 2)) for name, own in every.items()} if tiny else every

    def _ensemble(self, records: Records, every: Collection[str]) -> str | None:
        return chosen(records, self.set, "deep_ensemble", max(round_of(self.set, name) for name in every))

    def runs(self, records: Records) -> list[tuple[str, int]] | None:
        """Returns the configurations and seeds that are not done; None where it is not known yet."""
        every = configurations(self.set, self.method, self.set.rounds)
        if self.stage == TUNING:
            names = [name for name in every if round_of(self.set, name) == self.round]
        else:
            name = chosen(records, self.set, self.method, self.round)
            if name is None:
                return None
            names = [] if name == DIVERGED else [name]
        key = self.set.name, self.stage, self.method
        return [(n, s) for n in names for s in self.seeds if (*key, n, s) not in records]

    def missing(self, records: Records) -> bool:
        return self.runs(records) != []

    @property
    def needs(self) -> list["ModesTask"]:
        """Returns the tasks whose records it follows from: tuning of its own, and of the ensemble it starts at."""
        methods = [self.method] if self.stage == RESULTS else []
        methods += ["deep_ensemble"] if METHODS[self.method].svd else []
        one = self.set.tuned_on or self.set
        return [ModesTask(one, method, TUNING, i) for method in methods for i in range(1, self.round + 1)]

    def can_follow(self, records: Records, failed: Collection[str]) -> bool:
        """Whether what it needs is missing and can still come: none of it failed, or waits for what failed."""
        missing = [task for task in self.needs if task.missing(records)]
        return bool(missing) and all(
            task.name not in failed and (task.settings(records) is not None or task.can_follow(records, failed))
            for task in missing
        )


def tasks(
    sets: Sequence[tuple[ModesSet, Sequence[int]]], methods: Sequence[str] = tuple(METHODS)
) -> Iterator[ModesTask]:
    """Yields what there is to do, set by set and round by round, the most important methods first."""
    for one, rounds in sets:
        for number, method in itertools.product(rounds, [method for method in one.methods if method in methods]):
            if one.tuned_on is None:
                yield ModesTask(one, method, TUNING, number)
            yield ModesTask(one, method, RESULTS, number)


def _named(names: str, tiny: bool = False) -> list[tuple[ModesSet, Sequence[int]]]:
    """Returns data sets and their rounds from names with commas between: all rounds, or with `name:2` the second."""
    found: list[tuple[ModesSet, Sequence[int]]] = []
    for name, _, number in (each.partition(":") for each in names.split(",")):
        one = SETS[name]
        rounds = [int(number)] if number else range(1, one.rounds + 1)
        found.append((replace(one, units=(8,) * len(one.units), tiny=True) if tiny else one, rounds))
    return found


class Trainer:
    """Carries tasks out; data and programs are kept for the next."""

    def __init__(self, deadline: float, tiny: bool = False):
        self.deadline, self.tiny = deadline, tiny
        self._data: dict[tuple, Data] = {}
        self._fits: dict[tuple, Fit] = {}
        self._network_draws: dict[tuple, NetworkDraws] = {}

    def data(self, task: ModesTask) -> Data:
        key = task.set.name, task.stage
        if key not in self._data:
            self._data[key] = data_of(task.set, task.stage == TUNING)
        return self._data[key]

    def fit(self, task: ModesTask, method: ModesMethod, rank: int | None = None) -> Fit:
        """Returns what trains networks of a method, with the ranks of the data set or another one."""
        one, own = task.set, self.data(task)
        key = one.name, method.kind, method.newton, rank, task.stage if one.family == "uci" else ""
        if key not in self._fits:
            count = len(own.train(task.seeds[0]))

            def build():
                return modes_data.network(_with_rank(one, rank), method.kind, own.x.shape[1])

            size = min(one.batch_size, count)
            text = {"buckets": modes_large.buckets(own.x), "parts": modes_large.TEXT_PARTS}
            options: dict[str, Any] = text if one.family == "text" else {}
            self._fits[key] = Fit(
                build, own.x, own.y, rows=own.train, size=size, num_data=count, newton=method.newton, **options
            )
        return self._fits[key]

    def network_draws(self, task: ModesTask, fit: Fit, draws: int) -> NetworkDraws:
        key = id(fit), draws
        if key not in self._network_draws:
            together = {"text": 1, "cnn": 1, "air": 2}.get(task.set.family, 8)  # so that activations fit
            self._network_draws[key] = modes_data.network_draws(fit.model, task.set.task, draws, together)
        return self._network_draws[key]

    def __call__(self, task: ModesTask, records: Records) -> Iterator[list[dict]]:
        """Yields the records of a task, program by program; raises `OutOfTime` where the deadline comes first."""
        wanted, left = task.settings(records, self.tiny), task.runs(records)
        assert wanted is not None and left is not None
        start, method = time.time(), METHODS[task.method]
        members = self._members(task, records, left) if method.svd else {}
        starts: dict[int | None, dict[tuple[int, int], list[np.ndarray]]] = {}  # of components, by rank
        for runs in _programs(task.set, wanted, left, method.components):
            rank = wanted[runs[0][0]].rank
            fit = self.fit(task, method, rank)
            if rank not in starts:
                starts[rank] = {key: fit.start_at(*member) for key, member in members.items()}
            networks = [
                Network(wanted[name], seed, k, method.components, method.examples)
                for name, seed in runs
                for k in range(method.components)
            ]
            state = fit.train(networks, [starts[rank].get((n.seed, n.component)) for n in networks], self._watch)
            found = self._predictions(task, fit, state, networks)
            seconds, lines = time.time() - start, []
            for i, (name, seed) in enumerate(runs):
                own = slice(i * method.components, (i + 1) * method.components)
                line: dict[str, Any] = {
                    "set": task.set.name,
                    "stage": task.stage,
                    "method": task.method,
                    "configuration": name,
                }
                line |= {"seed": seed, "settings": asdict(wanted[name]), "parameters": self._parameters(fit, method)}
                line |= {"products": self._products(task, name, records)}
                line |= {"seconds": round(seconds / len(runs), 3), "device": jax.devices()[0].device_kind}
                lines.append(line | self._scores(task, {part: p[own] for part, p in found.items()}, seed))
            yield lines
            start = time.time()

    def _watch(self, epoch: int) -> None:
        if time.time() > self.deadline:
            raise claimed_work.OutOfTime

    def _members(
        self, task: ModesTask, records: Records, runs: Sequence[tuple[str, int]]
    ) -> dict[tuple[int, int], tuple[keras.Model, list[np.ndarray]]]:
        """Returns model and weights of the members of the chosen deep ensemble, by seed and number."""
        name, settings = self._ensemble(task, [name for name, _ in runs], records)
        own, count = METHODS["deep_ensemble"], METHODS[task.method].components
        seeds = list(dict.fromkeys(seed for _, seed in runs))
        networks = [Network(settings[name], s, k, own.components, own.examples) for s in seeds for k in range(count)]
        plain = self.fit(task, own)
        trained = [np.asarray(weights) for weights in plain.train(networks, [None] * len(networks), self._watch)[0]]
        return {
            (network.seed, network.component): (plain.model, [weights[i] for weights in trained])
            for i, network in enumerate(networks)
        }

    def _ensemble(self, task: ModesTask, names: Sequence[str], records: Records) -> tuple[str, dict[str, Settings]]:
        """Returns the deep ensemble that was chosen in the round of these configurations, and the settings of all."""
        name = chosen(records, task.set, "deep_ensemble", max(round_of(task.set, each) for each in names))
        every = configurations(task.set, "deep_ensemble", task.set.rounds)
        assert name
        return name, {n: replace(s, epochs=min(s.epochs, 2)) if self.tiny else s for n, s in every.items()}

    def _predictions(self, task: ModesTask, fit: Fit, state, networks: Sequence[Network]) -> dict[str, np.ndarray]:
        """Returns by part the predictions of all networks, on the first axis."""
        own = self.data(task)
        seeds = sorted(own.parts)
        which = np.array([seeds.index(n.seed) if n.seed in seeds else 0 for n in networks], "int32")
        lengths = {name: len(part.x) for name, part in own.parts[seeds[0]].items()}
        x = np.stack([np.concatenate([part.x for part in own.parts[seed].values()]) for seed in seeds])
        every = self.network_draws(task, fit, METHODS[task.method].draws)(state, x, which)
        cuts = np.cumsum(list(lengths.values()))[:-1]
        return dict(zip(lengths, np.split(every, cuts, axis=-2), strict=True))

    def _scores(self, task: ModesTask, found: dict[str, np.ndarray], seed: int) -> dict[str, float]:
        kind, parts = task.set.task, self.data(task).evaluation_parts(seed)
        p = {name: modes_data.pooled(kind, each) for name, each in found.items()}
        known = self.data(task).y[self.data(task).train(seed)]
        held = "validation" if task.stage == TUNING else "test"
        scores = {"without_inputs": 1e9 if self.tiny else modes_data.without_inputs(kind, parts[held], known)}
        if not all(np.isfinite(each).all() for each in p.values()):
            return scores
        if kind == "forecast":
            scores |= modes_data.forecast_scores(p, parts)
            return {name: float(value) for name, value in scores.items()}
        scores |= modes_data.scores(kind, p[held], parts[held])
        if task.stage == TUNING:
            scores["proxy_ood"] = metrics.auroc_ood(*(modes_data.uncertainty(kind, p[n]) for n in (held, "perturbed")))
        elif kind == "classes":
            several = METHODS[task.method].components * METHODS[task.method].draws > 1
            for name in [name for name in p if name != held]:
                one = modes_data.ood_scores(p[held], p[name], several)
                scores |= {f"{name}/{score}": value for score, value in one.items()}
        elif "grid" in p and len(p["grid"]) > 1:
            scores |= modes_data.band_scores(p["grid"])
        return {name: float(value) for name, value in scores.items()}

    @staticmethod
    def _parameters(fit: Fit, method) -> int:
        return fit.num_parameters * method.components

    def _products(self, task: ModesTask, name: str, records: Records, of: str = "") -> float:
        """Returns the multiplications of all matrix products of a training: three times those of the forward passes."""
        method, own = METHODS[of or task.method], self.data(task)
        settings = configurations(task.set, of or task.method, task.set.rounds)[name]
        passes = settings.epochs * (1 if method.examples == "split" else method.components)
        count = len(own.train(task.seeds[0]))
        found = 3.0 * passes * count * modes_data.products(task.set, self.fit(task, method, settings.rank).model)
        if method.svd:
            found += self._products(task, self._ensemble(task, [name], records)[0], records, "deep_ensemble")
        return found


def _with_rank(one: ModesSet, rank: int | None) -> ModesSet:
    """Returns the data set with another rank of the hidden weights; outputs keep theirs."""
    return one if rank is None else replace(one, ranks=(*(rank for _ in one.units), *one.ranks[len(one.units) :]))


def _programs(
    one: ModesSet, wanted: dict[str, Settings], runs: Sequence[tuple[str, int]], components: int
) -> Iterator[list[tuple[str, int]]]:
    """Yields the runs that are trained as one program: of as many epochs and one rank, in equal shares that fit."""
    shapes = {name: (own.rank or 0, own.epochs) for name, own in wanted.items()}
    for shape in sorted({shapes[name] for name, _ in runs}):
        same = [run for run in runs if shapes[run[0]] == shape]
        parts = -(-len(same) * components // max(one.together, components))
        yield from _shares(same, parts)


def _shares(runs: Sequence[tuple[str, int]], parts: int) -> list[list[tuple[str, int]]]:
    """Returns the runs in this many lists of nearly the same length."""
    cuts = [round(i * len(runs) / parts) for i in range(parts + 1)]
    return [list(runs[a:b]) for a, b in itertools.pairwise(cuts)]


def work(
    every: Sequence[ModesTask],
    out: Path,
    earlier: Sequence[Path],
    trainer: Trainer,
    claims: Path,
    worker: str,
    others: Mapping[str, subprocess.Popen] = MappingProxyType({}),
) -> None:
    """Does the tasks that no other process is at until the deadline or until nothing can follow any more.

    Args:
        others: processes that this one has started, by worker.
    """
    while time.time() < trainer.deadline:
        claimed_work.fail_ended(others, claims)
        failed, records = claimed_work.failures(claims), by_run(read_lines([out, *earlier]))
        left = [task for task in every if task.missing(records) and not (claims / task.name).exists()]
        ready = (task for task in left if task.settings(records) is not None)
        task = next((task for task in ready if claimed_work.claim(claims, task.name, worker)), None)
        if task is None:
            if not any(task.can_follow(records, failed) for task in left):
                return
            time.sleep(1)  # another process is at what it needs
            continue
        start = time.time()
        try:
            with claimed_work.attempt(claims, task.name):
                for found in trainer(task, records):
                    best = claimed_work.keep(found, out, worker)
                    took, start = time.time() - start, time.time()
                    print(f"{worker} {task.name}: {len(found)} runs in {took:.0f} s, best NLL {best:.4f}", flush=True)
        except claimed_work.OutOfTime:
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what is missing for this many minutes, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    claimed_work.add_arguments(parser, tiny="small networks and few epochs")
    parser.add_argument("--sets", default=",".join(SETS), help=_SETS_HELP)
    parser.add_argument("--methods", default=",".join(METHODS), help="methods with commas between")
    parser.add_argument("--workers", type=int, default=0, help="processes on the CPU beside, for --tables")
    parser.add_argument("--tables", default=",".join(_TABLES), help="data sets of the processes on the CPU")
    given = parser.parse_args(arguments)
    first, *beside = given.sets.split(";")
    for one in SETS.values():
        grids = {m: {n: asdict(s) for n, s in configurations(one, m, one.rounds).items()} for m in one.methods}
        protocol.require_equal_tuning(grids)
        protocol.require_result_seeds(TUNING_SEEDS, result_seeds(one))
    given.deadline = given.deadline or time.time() + 60 * given.minutes
    given.out.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(given.deadline, given.tiny)
    methods = given.methods.split(",")
    every = list(tasks(_named(first, given.tiny), methods))
    if given.claims is not None:  # one of the other processes
        work(every, given.out, given.earlier, trainer, given.claims, given.worker)
        return 0
    (given.out / "machine.json").write_text(json.dumps(_about(given)))
    with tempfile.TemporaryDirectory() as folder:
        given.claims = Path(folder)
        orders = {f"accelerated{i}": names for i, names in enumerate(beside, start=1)}
        orders |= {f"cpu{i}": claimed_work.turned(given.tables.split(","), i) for i in range(given.workers)}
        planned = {task: None for names in (first, *orders.values()) for task in tasks(_named(names), methods)}
        for task in _not_planned(planned, by_run(read_lines([given.out, *given.earlier]))):
            claimed_work.fail(given.claims, task.name, "other tasks need it, and it is not in --sets and --methods")
        module, more = "singularbayes_experiments.runs.modes", ["--methods", given.methods]
        others = {name: claimed_work.start(module, given, name, names, more) for name, names in orders.items()}
        work(every, given.out, given.earlier, trainer, given.claims, given.worker, others)
        claimed_work.wait(others, given.claims, given.deadline)
        failed = claimed_work.report_failures(given.claims)
    records = read_lines([given.out, *given.earlier])
    found = by_run(records)
    left = [task for task in planned if task.missing(found)]
    print(f"{len(left)} tasks are missing: call it again with the same --out." if left else "All tasks are done.")
    return failed


def _not_planned(planned: Collection[ModesTask], records: Records) -> list[ModesTask]:
    """Returns the tasks that planned ones need, which are missing and no process has."""
    needed = {need: None for task in planned if task.missing(records) for need in task.needs if need.missing(records)}
    names = {task.name for task in planned}
    return [task for task in needed if task.name not in names]


def _about(given) -> dict[str, Any]:
    """Returns what a reader needs to know about a run: its command, machine and versions."""
    command = shlex.join(["python", "-m", "singularbayes_experiments.runs.modes", *sys.argv[1:]])
    versions = {"python": platform.python_version(), "jax": jax.__version__, "keras": keras.__version__}
    return {"command": command, "machine": machine(), "minutes": given.minutes, **versions}


if __name__ == "__main__":
    sys.exit(main())
