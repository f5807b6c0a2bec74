"""Candidates for the defaults of the estimators: `singularbayes-experiments tables candidates`.

Every candidate is fitted on at most `ROWS` of the four fifths of the training rows of splits 0 and 1 that train, on
nine tables of its task, and scored on the fifth that validates. Test rows are not read. Candidates are ranked by NLL
within every table and split. The choice is the cheapest (fewest examples in training) whose mean rank is not behind the
best by more than a standard error of the paired difference. This was written before the run.

The defaults of regression came from the search in `table_defaults`; here fewer steps and larger batches are tried,
because a fit is to take seconds. Those of classification had not been searched for: β, prior and learning rate are. A
trial on validation rows of split 0 of one table, pima, showed that a rate of .005 is too small, so it is not tried.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata

from singularbayes.estimators import DEFAULTS
from singularbayes.posteriors import Anchored, Normal
from singularbayes_experiments.problems import table_methods
from singularbayes_experiments.problems.table_scores import scores_of_fit
from singularbayes_experiments.problems.table_sets import CLASSIFICATION, REGRESSION, table

ROWS, SPLITS = 1_500, (0, 1)
PRIORS = {"anchored 0.3": Anchored(0.3), "anchored 1": Anchored(1.0), "normal 0.3": Normal(0.3)}
TABLES = {"regression": REGRESSION, "classification": CLASSIFICATION}


@dataclass(frozen=True)
class Candidate:
    """Settings of an estimator; those with the same prior and batches share compiled programs."""

    prior: str
    beta: float
    rate: float
    steps: int
    batch: int = 32  # the smallest: tables with many rows have larger ones

    @property
    def label(self) -> str:
        """What records call it."""
        return f"{self.prior}, beta {self.beta:g}, rate {self.rate:g}, {self.steps} steps of {self.batch}"

    @property
    def program(self) -> str:
        """Equal for candidates that are compiled once for all."""
        return f"{self.prior}, {self.batch}"

    @property
    def cost(self) -> int:
        """The examples that training takes."""
        return self.steps * self.batch

    def arguments(self, rows: int) -> dict[str, Any]:
        """Returns the arguments of an estimator for so many rows."""
        batch = DEFAULTS.batch_size(rows, self.batch)
        return {
            "prior": PRIORS[self.prior],
            "beta": self.beta,
            "learning_rate_init": self.rate,
            "batch_size": batch,
            "max_iter": DEFAULTS.epochs(-(-rows // batch), self.steps),
        }


CANDIDATES = {
    "regression": (
        Candidate("anchored 0.3", 0.01, 0.015, 8_000),  # the defaults before
        Candidate("anchored 0.3", 0.01, 0.015, 4_000),
        Candidate("anchored 0.3", 0.03, 0.015, 4_000),
        Candidate("anchored 0.3", 0.01, 0.015, 2_000),
        Candidate("anchored 0.3", 0.01, 0.015, 4_000, 64),
        Candidate("anchored 0.3", 0.01, 0.015, 2_000, 64),
        Candidate("anchored 0.3", 0.01, 0.025, 2_000, 64),
    ),
    "classification": (
        Candidate("anchored 0.3", 0.01, 0.015, 8_000),  # the defaults before
        *(
            Candidate(prior, beta, rate, 2_000)
            for prior in PRIORS
            for beta in (0.03, 0.1, 0.3, 1.0)
            for rate in (0.015, 0.03)
        ),
    ),
}


def pieces() -> list[tuple[str, str, int, str]]:
    """Returns (task, table, split, program): all of one split before the next."""
    return [
        (task, name, split, program)
        for split in SPLITS
        for task, names in TABLES.items()
        for name in names
        for program in dict.fromkeys(one.program for one in CANDIDATES[task])
    ]


def run(piece: tuple[str, str, int, str]) -> dict:
    """Returns the scores of all candidates of one program, by label."""
    task, name, split, program = piece
    one = table(name)
    train, valid = one.validation(split)
    train = train[:ROWS]
    methods = table_methods.REGRESSION if task == "regression" else table_methods.CLASSIFICATION
    own = [candidate for candidate in CANDIDATES[task] if candidate.program == program]
    return {
        "scores": {
            candidate.label: scores_of_fit(
                one, methods["ours"].fit, candidate.arguments(len(train)), train, valid, 1000 + split
            )
            for candidate in own
        }
    }


def by_label(task: str, label: str) -> Candidate:
    """Returns a candidate by what records call it."""
    return next(one for one in CANDIDATES[task] if one.label == label)


def ranks(records: Iterable[dict], task: str) -> dict[str, np.ndarray]:
    """Returns the ranks of every candidate on the tables and splits where all have a score; 1 is best."""
    nll: dict[tuple, dict[str, float]] = {}
    for record in records:
        own, name, split, _ = record["piece"]
        if own == task and "scores" in record:
            found = {label: scores["nll"] for label, scores in record["scores"].items()}
            nll.setdefault((name, split), {}).update(found)
    labels = [one.label for one in CANDIDATES[task]]
    whole = [found for found in nll.values() if found.keys() == set(labels)]
    each = np.array([rankdata([found[label] for label in labels]) for found in whole]).reshape(-1, len(labels))
    return dict(zip(labels, each.T, strict=True))


def choice(records: Iterable[dict], task: str) -> Candidate:
    """Returns the cheapest candidate that is not behind the best by more than a standard error; the first one where
    there are no records."""
    found = ranks(records, task)
    count = len(next(iter(found.values())))
    if count < 2:
        return CANDIDATES[task][0]
    best = min(found, key=lambda label: found[label].mean())

    def behind(label: str) -> bool:
        difference = found[label] - found[best]
        return difference.mean() > difference.std(ddof=1) / np.sqrt(count)

    near = [one for one in CANDIDATES[task] if not behind(one.label)]
    return min(near, key=lambda one: (one.cost, found[one.label].mean()))
