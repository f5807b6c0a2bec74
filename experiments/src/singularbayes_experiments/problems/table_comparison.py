"""The comparison on tables: our estimators beside other libraries, with defaults and with the same tuning budget.

A piece is one method on one split of one table: with its defaults, or tuned. A tuned one fits eight configurations on
four fifths of the training rows of split 0, takes the one with the least NLL on the other fifth, and fits it on the
training rows of `TUNED_SPLITS`. Scores are of test rows. With defaults programs are compiled again in every fit, so
that seconds are those of a first call; a process has one core. A piece of ours ends in the label of the configuration
of `table_configurations` that it is, so records of other defaults are not taken for it.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from singularbayes_experiments.problems import table_configurations, table_methods
from singularbayes_experiments.problems.table_methods import TableMethod
from singularbayes_experiments.problems.table_scores import scores_of_fit
from singularbayes_experiments.problems.table_sets import CLASSIFICATION, REGRESSION, table

TUNED_SPLITS = (0, 1, 2)
SMALL = ("yacht", "boston_housing", "energy", "concrete", "wine_quality_red")
MIDDLE = ("kin8nm", "power_plant", "naval_propulsion_plant")
LARGE = ("protein_tertiary_structure",)


def methods_of(name: str) -> dict[str, TableMethod]:
    """Returns the methods for a table."""
    return table_methods.REGRESSION if name in REGRESSION else table_methods.CLASSIFICATION


def pieces(labels: dict[str, str]) -> list[tuple]:
    """Returns what is to be done, most needed first: ours with defaults, then every method on one split of all tables
    before the next split.

    Args:
        labels: of the configurations that ours are, by task.
    """

    def piece(kind: str, name: str, split: int, method: str) -> tuple:
        own = (labels[_task(name)],) if method in table_methods.OURS else ()
        return kind, name, split, method, *own

    def defaults(names: Iterable[str], split: int) -> Iterator[tuple]:
        names = list(names)
        for place in range(len(table_methods.REGRESSION)):  # ours on all tables, then the next method
            yield from (piece("defaults", name, split, list(methods_of(name))[place]) for name in names)

    def tuned(names: Iterable[str]) -> Iterator[tuple]:
        yield from (piece("tuned", name, 0, method) for name in names for method in methods_of(name))

    every = [
        *defaults((*LARGE, *MIDDLE, *SMALL, *CLASSIFICATION), 0),  # the longest fits first
        *defaults((*MIDDLE, *SMALL, *CLASSIFICATION), 1),
        *defaults((*SMALL, *CLASSIFICATION), 2),
        *tuned((*SMALL, *CLASSIFICATION, *MIDDLE)),
        *defaults(MIDDLE, 2),
        *defaults(LARGE, 1),
        *(one for split in (3, 4) for one in defaults((*SMALL, *CLASSIFICATION), split)),
        *(one for split in (2, 3, 4) for one in defaults((*LARGE, *MIDDLE), split)),
        *tuned(LARGE),
    ]
    own_defaults = [one for one in every if one[0] == "defaults" and one[3] in table_methods.OURS]
    return list(dict.fromkeys([*own_defaults, *every]))


def _task(name: str) -> str:
    return "regression" if name in REGRESSION else "classification"


def run(piece: tuple) -> dict:
    """Returns the record of one piece; a method that a table has too many rows for has a reason instead of results."""
    kind, name, split, method_name, *label = piece
    one, method = table(name), methods_of(name)[method_name]
    if len(one.splits[split][0]) > method.most_rows:
        return {"left_out": f"more than {method.most_rows} rows"}

    def scores(settings: dict, train: np.ndarray, test: np.ndarray, seed: int) -> dict:
        own = table_configurations.by_label(_task(name), label[0]).arguments(len(train)) if label else {}
        return scores_of_fit(one, method.fit, own | settings, train, test, seed, compile_again=kind == "defaults")

    if kind == "defaults":
        train, test = one.splits[split]
        return {"results": {split: scores({}, train, test, split)}}
    options = method.configurations[1:]
    found = [scores(settings, *one.validation(0), 0) for settings in options]
    best = int(np.argmin([each["nll"] for each in found]))
    return {
        "results": {each: scores(options[best], *one.splits[each], each) for each in TUNED_SPLITS},
        "choice": options[best],
        "validation_nll": [each["nll"] for each in found],
        "tuning_seconds": sum(each["fit_seconds"] for each in found),
    }
