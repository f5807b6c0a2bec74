"""Configurations for the defaults of the estimators: `singularbayes-experiments tables configurations`.

Every configuration is fitted on at most `ROWS` of the four fifths of the training rows of splits 0 and 1 that train, on
nine tables of its task, and scored on the fifth that validates. Test rows are not read. Configurations are ranked by
NLL within every table and split. The choice is the cheapest (fewest examples in training) whose mean rank is not behind
the best by more than a standard error of the paired difference. This was written before the run.

The defaults of regression came from the search in `table_defaults`; here fewer steps and larger batches are tried,
because a fit is to take seconds. Those of classification had not been searched for: β, prior and learning rate are. A
trial on validation rows of split 0 of one table, pima, showed that a rate of .005 is too small, so it is not tried.

Two stages follow, each by the same rule and from what the one before chose. "ranks" tries larger ranks, because the
comparison had shown low rank behind full rank, some with another β or prior. "rows" is of the four large regression
tables with all their training rows, where 1,500 rows do not show what is missing: more epochs, or smaller batches. A
stage without records of two pairs of table and split leaves the choice as it was.

Last comes "robust", of the nine regression tables with all their training rows. Test scores and "rows" had shown that
components die on naval at a learning rate of .015, and low rank behind full rank on protein. Since then the learning
rate rises in the first tenth of the steps, some rows are held out from two components, and errors of components are
made those of all of them one by one; that is in all of these configurations, none of which is the one before. They
differ in learning rate, width, epochs, and in a rank that grows with the number of rows. The cost of a wider one is
larger.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
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
class Configuration:
    """Settings of an estimator; those with the same prior and batches share compiled programs."""

    prior: str
    beta: float
    rate: float
    steps: int
    batch: int = 32  # the smallest: tables with many rows have larger ones
    rank: int = 16
    epochs: int = 50  # at least
    batches: int = 64  # of an epoch at most, about, while batches are below 512
    width: int = 64
    grows: bool = False  # the rank, with the number of rows
    warm: bool = False  # the code since the learning rate rises first

    @property
    def label(self) -> str:
        """What records call it."""
        steps = f"{self.prior}, beta {self.beta:g}, rate {self.rate:g}, {self.steps} steps of {self.batch}"
        later = {
            "rank": f", rank {self.rank}",
            "epochs": f", {self.epochs} epochs",
            "batches": f", {self.batches} batches",
            "width": f", width {self.width}",
            "grows": ", rank by rows",
            "warm": ", warm-up",
        }
        return steps + "".join(
            text for name, text in later.items() if getattr(self, name) != getattr(Configuration, name)
        )

    @property
    def program(self) -> str:
        """Equal for configurations that are compiled once for all."""
        later = f", rank {self.rank}" if self.rank != Configuration.rank else ""
        return f"{self.prior}, {self.batch}{later}" + (
            f", width {self.width}" if self.width != Configuration.width else ""
        )

    @property
    def cost(self) -> int:
        """The examples that training takes, up to a factor: tables with few rows have steps, others epochs."""
        return self.steps * self.batch * self.epochs * self.width

    def arguments(self, rows: int) -> dict[str, Any]:
        """Returns the arguments of an estimator for this many rows."""
        defaults = replace(DEFAULTS, batches=self.batches, fewest_epochs=self.epochs)
        batch = defaults.batch_size(rows, self.batch)
        own = {"hidden_layer_sizes": (self.width, self.width)} if self.warm else {}
        return own | {
            "prior": PRIORS[self.prior],
            "beta": self.beta,
            "learning_rate_init": self.rate,
            "batch_size": batch,
            "max_iter": defaults.epochs(-(-rows // batch), self.steps),
            "rank": rank_by_rows(rows) if self.grows else self.rank,
        }


def rank_by_rows(rows: int) -> int:
    """Returns 16 up to 4,999 rows, 32 up to 19,999, and 64 above."""
    return 16 << int(np.searchsorted([5_000, 20_000], rows, side="right"))


CONFIGURATIONS = {
    "regression": (
        Configuration("anchored 0.3", 0.01, 0.015, 8_000),  # the defaults before
        Configuration("anchored 0.3", 0.01, 0.015, 4_000),
        Configuration("anchored 0.3", 0.03, 0.015, 4_000),
        Configuration("anchored 0.3", 0.01, 0.015, 2_000),
        Configuration("anchored 0.3", 0.01, 0.015, 4_000, 64),
        Configuration("anchored 0.3", 0.01, 0.015, 2_000, 64),
        Configuration("anchored 0.3", 0.01, 0.025, 2_000, 64),
    ),
    "classification": (
        Configuration("anchored 0.3", 0.01, 0.015, 8_000),  # the defaults before
        *(
            Configuration(prior, beta, rate, 2_000)
            for prior in PRIORS
            for beta in (0.03, 0.1, 0.3, 1.0)
            for rate in (0.015, 0.03)
        ),
    ),
}


_CHOSEN = {  # by the stage above
    "regression": Configuration("anchored 0.3", 0.01, 0.015, 2_000, 64),
    "classification": Configuration("anchored 0.3", 0.3, 0.015, 2_000),
}
RANKS = {
    "regression": (
        *(replace(_CHOSEN["regression"], rank=rank) for rank in (16, 32, 64)),
        replace(_CHOSEN["regression"], rank=64, steps=4_000),
        replace(_CHOSEN["regression"], rank=64, beta=0.003),
        replace(_CHOSEN["regression"], rank=64, beta=0.03),
    ),
    "classification": (
        *(replace(_CHOSEN["classification"], rank=rank) for rank in (16, 32, 64)),
        *(replace(_CHOSEN["classification"], rank=rank, beta=0.1) for rank in (32, 64)),
        replace(_CHOSEN["classification"], rank=64, beta=0.1, prior="normal 0.3"),
    ),
}
LARGE = ("kin8nm", "power_plant", "naval_propulsion_plant", "protein_tertiary_structure")
STAGES = ("", "ranks", "rows", "robust")  # pieces of later ones end in its name
OPEN = ("robust",)  # records of the others are of earlier code
_WARM = replace(_CHOSEN["regression"], warm=True)
ROBUST = (
    *(replace(_WARM, rate=rate) for rate in (0.015, 0.007, 0.003)),
    replace(_WARM, rate=0.007, grows=True),
    *(replace(_WARM, rate=rate, width=128) for rate in (0.015, 0.007)),
    *(replace(_WARM, rate=rate, width=128, grows=True) for rate in (0.007, 0.003)),
    replace(_WARM, rate=0.007, width=128, grows=True, epochs=100),
)


def _longer(configuration: Configuration) -> tuple[Configuration, ...]:
    return configuration, replace(configuration, batches=128), replace(configuration, epochs=100)


def configurations_of(stage: str, task: str, records: Iterable[dict]) -> tuple[Configuration, ...]:
    """Returns the configurations of a stage, which may depend on records of the one before."""
    if stage in ("rows", "robust") and task != "regression":
        return ()
    if stage == "robust":
        return ROBUST
    if stage == "rows":
        return _longer(choice(records, task, STAGES[:2]))
    return (RANKS if stage else CONFIGURATIONS)[task]


def pieces(stage: str = "", records: Iterable[dict] = ()) -> list[tuple]:
    """Returns (task, table, split, program) and the stage: all of one split before the next.

    Args:
        records: of the stages before.
    """
    records = list(records)
    if stage == "rows":
        longer = configurations_of(stage, "regression", records)
        return [
            ("regression", name, split, one.label, stage) for split in SPLITS for name in LARGE[::-1] for one in longer
        ]
    if stage == "robust":
        return _robust_pieces()
    return [
        (task, name, split, program, *([stage] if stage else ()))
        for split in SPLITS
        for task, names in TABLES.items()
        for name in names
        for program in dict.fromkeys(one.program for one in configurations_of(stage, task, records))
    ]


def _robust_pieces() -> list[tuple]:
    """Returns one piece per configuration on the large tables, and one per program on the others; the longest first."""
    small = [name for name in REGRESSION if name not in LARGE]
    programs = dict.fromkeys(one.program for one in ROBUST)
    return [
        ("regression", name, split, part, "robust")
        for split in SPLITS
        for names, parts in ((LARGE[::-1], [one.label for one in ROBUST]), (small, list(programs)))
        for name in names
        for part in parts
    ]


def run(piece: tuple) -> dict:
    """Returns the scores of all configurations of one program, by label."""
    task, name, split, program, *stage = piece
    one = table(name)
    train, valid = one.validation(split)
    methods = table_methods.REGRESSION if task == "regression" else table_methods.CLASSIFICATION
    if stage == ["rows"]:
        own = [by_label(task, program)]
    elif stage == ["robust"]:
        own = [each for each in ROBUST if program in (each.label, each.program)]
    else:
        train = train[:ROWS]
        own = [each for each in (RANKS if stage else CONFIGURATIONS)[task] if each.program == program]
    done: dict[str, dict] = {}  # by arguments, which are equal for some configurations on small tables
    scores = {}
    for configuration in own:
        arguments = configuration.arguments(len(train))
        if repr(arguments) not in done:
            done[repr(arguments)] = scores_of_fit(one, methods["ours"].fit, arguments, train, valid, 1000 + split)
        scores[configuration.label] = done[repr(arguments)]
    return {"scores": scores}


def by_label(task: str, label: str) -> Configuration:
    """Returns a configuration by what records call it."""
    every = (longer for one in (*CONFIGURATIONS[task], *RANKS[task], *ROBUST) for longer in _longer(one))
    return next(one for one in every if one.label == label)


def ranks(records: Iterable[dict], task: str, stage: str = "") -> dict[str, np.ndarray]:
    """Returns the ranks of every configuration on the tables and splits where all have a score; 1 is best."""
    records = list(records)
    nll: dict[tuple, dict[str, float]] = {}
    for record in records:
        own, name, split, _, *found_stage = record["piece"]
        if own == task and found_stage == ([stage] if stage else []) and "scores" in record:
            found = {label: scores["nll"] for label, scores in record["scores"].items()}
            nll.setdefault((name, split), {}).update(found)
    labels = [one.label for one in configurations_of(stage, task, records)]
    whole = [found for found in nll.values() if found.keys() >= set(labels)]
    each = np.array([rankdata([found[label] for label in labels]) for found in whole]).reshape(len(whole), len(labels))
    return dict(zip(labels, each.T, strict=True))


def choice(records: Iterable[dict], task: str, stages: Iterable[str] = STAGES) -> Configuration:
    """Returns the configuration that the stages choose: of each the cheapest that is not behind its best by more than a
    standard error; the first one where there are no records."""
    records, chosen = list(records), CONFIGURATIONS[task][0]
    for stage in stages:
        found = ranks(records, task, stage)
        count = len(next(iter(found.values()), ()))
        if count >= 2:
            best = min(found, key=lambda label: found[label].mean())
            near = [
                one for one in configurations_of(stage, task, records) if not _behind(found[one.label] - found[best])
            ]
            chosen = min(near, key=lambda one: (one.cost, found[one.label].mean()))
    return chosen


def _behind(difference: np.ndarray) -> bool:
    return difference.mean() > difference.std(ddof=1) / np.sqrt(len(difference))
