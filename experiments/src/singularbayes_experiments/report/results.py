"""Every number of the report, computed from the views of `records`: means, standard errors, paired differences, counts.

A number is found by the experiment, its task, preset, method and metric. Only results that count are read; one value a
seed. A number that the records lack raises `Missing`, so that a page with a gap is never written.
"""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from duckdb import DuckDBPyConnection

from singularbayes_experiments.protocol import Paired, paired, standard_error

ENSEMBLE = "deep_ensemble"
SHIFTS = ("coronary", "cardiac", "medical", "surgical", "eicu")
_UCI = "concrete energy boston_housing yacht wine_quality_red kin8nm power_plant naval_propulsion_plant"
TABLES = (*_UCI.split(), "protein_tertiary_structure")
# The problems of the comparison, with the main detection of each.
PROBLEMS: dict[tuple[str, str], str | None] = {
    ("sst2", "sst2"): "ag_news/auroc_ood_mi",
    ("beijing", "beijing"): "guangzhou/auroc_ood_epistemic",
    ("icu", "icu"): "held_out_care/auroc_ood_mi",
    ("cnn", "cnn"): "mnist/auroc_ood_mi",
    ("mnist", "mnist"): "fashion_mnist/auroc_ood_mi",
    ("fashion_mnist", "fashion_mnist"): "mnist/auroc_ood_mi",
    ("toy", "toy"): None,
    **{("uci", table): None for table in TABLES},
}
SIDES = ("better", "level", "worse")
MOST = 1000.0  # what a larger score of a table counts as
NOMINAL = 0.9


class Missing(LookupError):
    """The records have no such number."""


class Key(NamedTuple):
    experiment: str
    task: str
    preset: str
    method: str
    metric: str


class Numbers:
    """The numbers of the records that a connection of `records` holds."""

    def __init__(self, connection: DuckDBPyConnection):
        self.connection = connection
        self._values: dict[Key, dict[int, float]] = {}
        rows = connection.execute(
            "SELECT experiment, task, preset, method, metric, seed, value FROM scores "
            "WHERE stage = 'result' AND counts ORDER BY seed"
        ).fetchall()
        for *key, seed, value in rows:
            self._values.setdefault(Key(*key), {})[seed] = value

    def methods(self, experiment: str, task: str, preset: str) -> list[str]:
        """Returns the methods that have results, by name."""
        task = SHIFTS[0] if (experiment, task) == ("icu", "icu") else task
        return sorted({key.method for key in self._values if key[:3] == (experiment, task, preset)})

    def has(self, *key: str) -> bool:
        return bool(self._found(Key(*key)))

    def values(self, *key: str) -> pd.Series:
        """Returns the values of a metric by seed, in the unit that is printed; values that are NaN are left out."""
        found = self._found(Key(*key))
        kept = {seed: value for seed, value in found.items() if not math.isnan(value)}
        if not kept:
            raise Missing(f"The records have no {Key(*key)}.")
        return pd.Series(kept) * _scale(Key(*key))

    def mean(self, *key: str) -> float:
        return float(np.mean(self.values(*key)))

    def error(self, *key: str) -> float:
        return standard_error(self.values(*key).to_numpy())

    def first(self, *key: str) -> float:
        """Returns the value of the first seed: parameters and products are the same for all."""
        return float(self.values(*key).iloc[0])

    def cost(self, experiment: str, task: str, preset: str, method: str) -> float:
        """Returns the multiplications of a training as a multiple of the deterministic network's."""
        own, base = (self.first(experiment, task, preset, name, "products") for name in (method, "deterministic"))
        return own / base

    def paired(self, experiment: str, task: str, preset: str, ours: str, rival: str, metric: str) -> Paired:
        """Returns the difference of two methods over the seeds that both have; no interval for one common seed."""
        one, other = (self.values(experiment, task, preset, name, metric) for name in (ours, rival))
        both = one.index.intersection(other.index)
        if not len(both):
            raise Missing(f"{ours} and {rival} have no common seed ({experiment}, {task}, {metric}).")
        if len(both) == 1:
            return Paired(float(one[both[0]] - other[both[0]]), math.nan, math.nan)
        return paired(one[both].to_list(), other[both].to_list())

    def diverged(self, experiment: str, task: str, method: str) -> str:
        """Returns why a method of the protocol has no scores, "" where it has: it diverged, or it was not run."""
        name = SHIFTS[0] if experiment == task == "icu" else task
        seeds = self._values.get(Key(experiment, name, "protocol", method, "parameters"), {})
        nll = self._found(Key(experiment, task, "protocol", method, "nll"))
        if seeds:
            return "" if len(nll) == len(seeds) and all(map(math.isfinite, nll.values())) else "diverged"
        (tuned, alive), *_ = self.connection.execute(
            "SELECT count(DISTINCT configuration), count(DISTINCT configuration) FILTER (metric = 'nll') FROM scores "
            "WHERE experiment = ? AND task = ? AND method = ? AND preset = 'protocol' AND stage = 'tuning' AND counts",
            [experiment, name, method],
        ).fetchall()
        return "diverged" if tuned and not alive else "not run"

    def chosen(self, experiment: str, task: str, preset: str, method: str) -> tuple[str, Mapping[str, Any]]:
        """Returns the name and the settings of the configuration whose results count."""
        own = [experiment, SHIFTS[0] if experiment == task == "icu" else task, preset, method]
        found = self.connection.execute(
            "SELECT configuration, any_value(settings) FROM runs WHERE stage = 'result' AND counts AND experiment = ? "
            "AND task = ? AND preset = ? AND method = ? GROUP BY configuration",
            own,
        ).fetchall()
        if len(found) != 1:
            raise Missing(f"There must be one choice of {own}; got {len(found)}.")
        return found[0][0], json.loads(found[0][1])

    def configurations(self, experiment: str, task: str, method: str) -> int:
        """Returns how many configurations were tried among which the protocol chose."""
        task = SHIFTS[0] if (experiment, task) == ("icu", "icu") else task
        (found,), *_ = self.connection.execute(
            "SELECT count(DISTINCT configuration) FROM runs WHERE stage = 'tuning' AND preset = 'protocol' AND counts "
            "AND experiment = ? AND task = ? AND method = ?",
            [experiment, task, method],
        ).fetchall()
        return found

    # Counts over the problems of the comparison.

    def group(self, name: str) -> list[tuple[str, str]]:
        """Returns all problems, or those where the mixture has fewer ("smaller") or more parameters ("larger")."""
        mixed = {
            problem: self.first(*problem, "protocol", "mixture_repeat", "parameters")
            < self.first(*problem, "protocol", ENSEMBLE, "parameters")
            for problem in PROBLEMS
        }
        return [
            problem for problem in PROBLEMS if name in ("all", "hindsight") or mixed[problem] == (name == "smaller")
        ]

    def sides(self, ours: str, rival: str, score: str = "nll", group: str = "all") -> dict[str, list[tuple[str, str]]]:
        """Returns the problems on which ours is better, level or worse: a paired 95 % interval excludes 0 or not."""
        found: dict[str, list[tuple[str, str]]] = {side: [] for side in SIDES}
        for problem in self.group(group):
            metric = "nll" if score == "nll" else PROBLEMS[problem]
            key = (*problem, "protocol")
            if metric and all(self.has(*key, method, metric) for method in (ours, rival)):
                if group == "hindsight":
                    each = paired(self.values(*key, ours, metric).to_list(), self.hindsight(*problem).to_list())
                else:
                    each = self.paired(*key, ours, rival, metric)
                found[each.side(higher_is_better=score != "nll")].append(problem)
        return found

    def hindsight(self, experiment: str, task: str) -> pd.Series:
        """Returns the test NLL of the ensemble's choice, or of one that an earlier round had, if that is better."""
        name = SHIFTS[0] if experiment == task == "icu" else task
        earlier = self.connection.execute(
            "SELECT configuration, seed, value FROM scores s WHERE stage = 'result' AND NOT counts AND metric = 'nll' "
            "AND preset = 'protocol' AND method = $method AND experiment = $experiment AND task = $task "
            "AND EXISTS (FROM runs t WHERE t.stage = 'tuning' AND t.counts AND t.experiment = $experiment "
            "AND t.task = $task AND t.method = $method AND t.configuration = s.configuration) ORDER BY seed",
            {"method": ENSEMBLE, "experiment": experiment, "task": name},
        ).df()
        tried = [group.set_index("seed").value for _, group in earlier.groupby("configuration")]
        last = self.values(experiment, task, "protocol", ENSEMBLE, "nll")
        return min([last, *tried], key=lambda each: float(each.mean()))

    # Tables beside other libraries: lower is better for every score.

    def relative(self, table: str, method: str, other: str, score: str, preset: str = "defaults") -> np.ndarray:
        """Returns the differences of two estimators over the splits that both have."""
        one, two = (self._found(Key("tables", table, preset, name, score)) for name in (method, other))
        return np.array([one[split] - two[split] for split in sorted(one.keys() & two.keys())])

    def ranks(self, tables: Iterable[str], score: str, preset: str = "defaults") -> dict[str, float]:
        """Returns the mean rank of every estimator that has results for all tables; 1 is the best."""
        tables = list(tables)
        every = sorted({name for table in tables for name in self.methods("tables", table, preset)})
        whole = [name for name in every if all(len(self.relative(t, name, "ours", score, preset)) for t in tables)]
        means = [[self.relative(table, name, "ours", score, preset).mean() for name in whole] for table in tables]
        ranks = pd.DataFrame(means, columns=whole).rank(axis=1).mean()
        return {str(name): float(rank) for name, rank in ranks.items()}

    def tables_of(self, kind: str, preset: str = "defaults") -> list[str]:
        """Returns the regression tables (they have a coverage) or those of classification."""
        ours = {key for key in self._values if key[0] == "tables" and key[2:4] == (preset, "ours")}
        regression = {key.task for key in ours if key.metric == "coverage"}
        return sorted(regression if kind == "regression" else {key.task for key in ours} - regression)

    def _found(self, key: Key) -> dict[int, float]:
        if (key.experiment, key.task) == ("icu", "icu") and key not in self._values:
            parts = [self._values.get(key._replace(task=shift), {}) for shift in SHIFTS]
            if key.metric in ("parameters", "stored"):
                return parts[0]
            both = set(parts[0]).intersection(*parts[1:])
            return {seed: float(np.mean([part[seed] for part in parts])) for seed in sorted(both)}
        if key.experiment == "tables":
            return self._of_table(key)
        return self._values.get(key, {})

    def _of_table(self, key: Key) -> dict[int, float]:
        source = {"error": "accuracy", "miscoverage": "coverage"}.get(key.metric, key.metric)
        found = self._values.get(key._replace(metric=source), {})
        if key.metric == "normal_nll":  # that of predictions which are normal is their NLL
            found = self._values.get(key._replace(metric="nll"), {}) | found
        change = {"error": lambda value: 1 - value, "miscoverage": lambda value: abs(value - NOMINAL)}.get(key.metric)
        return {seed: change(value) if change else min(value, MOST) for seed, value in found.items()}


def _scale(key: Key) -> float:
    """Returns 100 for what is printed in per cent."""
    if key.metric == "accuracy" and (key.experiment == "cifar10" or key.preset in ("paper", "chosen")):
        return 100 if key.experiment in ("mnist", "fashion_mnist", "cifar10") else 1
    return 100 if key.experiment == "monitoring" and key.metric.startswith("false") else 1
