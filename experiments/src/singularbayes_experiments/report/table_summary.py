"""What the records of the comparison on tables say: scores by split, mean ranks, paired differences.

Lower is better for every score here; accuracy is read as error, coverage as the distance from 90 %.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from singularbayes_experiments.methods.protocol import standard_error
from singularbayes_experiments.problems.table_scores import COVERAGE

OURS = "ours"
MOST = 1000.0  # what a larger or infinite score counts as
OWN = (OURS, "ours, full rank")


@dataclass(frozen=True)
class Comparison:
    """scores[table][method][split] is the record of scores of one fit."""

    scores: dict[str, dict[str, dict[int, dict[str, float]]]]

    @classmethod
    def of(cls, records: Iterable[dict], kind: str = "defaults") -> "Comparison":
        """Returns the results of records: of the "defaults", or the "tuned" ones."""
        scores: dict = defaultdict(lambda: defaultdict(dict))
        for record in records:
            own, name, _, method, *_ = record["piece"]
            if own == kind and "results" in record:
                for split, result in record["results"].items():
                    scores[name][method][int(split)] = result
        return cls({name: dict(methods) for name, methods in scores.items()})

    def values(self, name: str, method: str, score: str) -> dict[int, float]:
        """Returns a score by split, without the splits that have none, such as seconds of fits on another machine."""
        found = {split: _value(result, score) for split, result in self.scores[name].get(method, {}).items()}
        return {split: value for split, value in found.items() if not math.isnan(value)}

    def mean(self, name: str, method: str, score: str) -> tuple[float, float, int]:
        """Returns the mean over splits, its standard error, and the number of splits."""
        return _mean(list(self.values(name, method, score).values()))

    def difference(self, name: str, one: str, other: str, score: str) -> tuple[float, float, int]:
        """Returns the mean over common splits of one less other, its standard error, and how many splits they are."""
        a, b = self.values(name, one, score), self.values(name, other, score)
        return _mean([a[split] - b[split] for split in sorted(a.keys() & b.keys())])

    def methods(self, names: Iterable[str]) -> list[str]:
        """Returns the methods that have a result for one of the tables: ours, then the others by name."""
        found = {method for name in names for method in self.scores.get(name, {})}
        return [method for method in OWN if method in found] + sorted(found - set(OWN))

    def relative(self, name: str, method: str, score: str) -> float:
        """Returns the mean difference to ours over the splits that both have, so that missing splits favour nobody."""
        return self.difference(name, method, OURS, score)[0]

    def ranks(self, names: Iterable[str], score: str) -> dict[str, float]:
        """Returns the mean rank of every method that has results for all tables; 1 is best."""
        names = [name for name in names if name in self.scores]
        everywhere = [m for m in self.methods(names) if all(self.difference(n, m, OURS, score)[2] for n in names)]
        ranks = [rankdata([self.relative(name, method, score) for method in everywhere]) for name in names]
        return dict(zip(everywhere, np.mean(ranks, axis=0).tolist(), strict=True)) if ranks else {}

    def best(self, name: str, score: str, without: Iterable[str] = ()) -> str:
        """Returns the method with the least mean score."""
        found = {m: self.relative(name, m, score) for m in self.scores[name] if m not in set(without)}
        return min((m for m in found if not math.isnan(found[m])), key=lambda method: found[method])


def _value(result: dict, score: str) -> float:
    if score == "error":
        return 1 - result["accuracy"]
    if score == "miscoverage":
        return abs(result["coverage"] - COVERAGE)
    if score == "normal_nll":  # that of predictions which are normal is their NLL
        return min(result.get("normal_nll", result["nll"]), MOST)
    return min(result.get(score, math.nan), MOST)


def _mean(values: list[float]) -> tuple[float, float, int]:
    if not values:
        return math.nan, math.nan, 0
    return float(np.mean(values)), standard_error(values), len(values)


@dataclass(frozen=True)
class Statement:
    """A statement about ours, with the tables on which it holds, and those on which it does not."""

    sentence: str
    holds: tuple[str, ...]
    fails: tuple[str, ...]


def statements(comparison: Comparison, names: list[str]) -> list[Statement]:
    """Returns the statements about regression, each with the tables on which it holds."""

    def within(name: str, other: str, score: str = "nll") -> bool:
        """Whether ours is not behind by more than one standard error of the paired difference."""
        difference, error, _ = comparison.difference(name, OURS, other, score)
        return difference <= (0.0 if math.isnan(error) else error)

    def ahead(name: str, other: str, score: str = "nll") -> bool:
        return comparison.difference(name, OURS, other, score)[0] < 0

    def covers(name: str) -> bool:
        results = comparison.scores[name][OURS].values()
        rows = sum(result["rows"] for result in results)
        coverage = sum(result["coverage"] * result["rows"] for result in results) / rows
        mean_rows = rows / len(results)
        return abs(coverage - COVERAGE) <= 2 * math.sqrt(COVERAGE * (1 - COVERAGE) / mean_rows)

    def statement(sentence: str, holds) -> Statement:
        found = {name: holds(name) for name in names}
        return Statement(sentence, *(tuple(n for n in names if found[n] is wanted) for wanted in (True, False)))

    best = {name: comparison.best(name, "nll", without=OWN) for name in names}
    return [
        statement("NLL below that of all others", lambda n: ahead(n, best[n])),
        statement("NLL within one standard error of the best of the others", lambda n: within(n, best[n])),
        statement("NLL below that of the deep ensemble", lambda n: ahead(n, "deep ensemble")),
        statement("NLL below that of full rank", lambda n: ahead(n, "ours, full rank")),
        statement("NLL within one standard error of full rank, or below", lambda n: within(n, "ours, full rank")),
        statement(
            "RMSE not above that of the deep ensemble by a standard error",
            lambda n: within(n, "deep ensemble", "rmse"),
        ),
        statement(
            "ours as a normal distribution: NLL within one standard error of the best of the others",
            lambda n: within(n, best[n], "normal_nll"),
        ),
        statement(
            "ours as a normal distribution: NLL below that of the deep ensemble",
            lambda n: ahead(n, "deep ensemble", "normal_nll"),
        ),
        statement("90 % intervals cover 90 % within two standard errors of a test set", covers),
    ]
