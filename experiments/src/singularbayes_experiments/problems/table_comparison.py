"""The comparison on tables: our estimators beside other libraries, with defaults and with the same tuning budget.

A piece is one method on one split of one table: with its defaults, or tuned. A tuned one fits eight configurations on
four fifths of the training rows of split 0, takes the one with the least NLL on the other fifth, and fits it on the
training rows of `TUNED_SPLITS`. Scores are of test rows. Programs are compiled anew in every fit, so that seconds are
those of a first call; a process has one core.
"""

import time
from collections.abc import Iterator

import numpy as np

from singularbayes_experiments.problems import table_methods
from singularbayes_experiments.problems.table_methods import Method, quietly
from singularbayes_experiments.problems.table_scores import class_scores, value_scores
from singularbayes_experiments.problems.table_sets import CLASSIFICATION, REGRESSION, Table, table

TUNED_SPLITS = (0, 1, 2)
SMALL = ("yacht", "boston_housing", "energy", "concrete", "wine_quality_red")
MIDDLE = ("kin8nm", "power_plant", "naval_propulsion_plant")
LARGE = ("protein_tertiary_structure",)


def methods_of(name: str) -> dict[str, Method]:
    """Returns the methods for a table."""
    return table_methods.REGRESSION if name in REGRESSION else table_methods.CLASSIFICATION


def pieces() -> list[tuple]:
    """Returns what is to be done, most needed first: defaults on small and on large tables, then tuned methods."""

    def defaults(names, splits) -> Iterator[tuple]:
        for split in splits:
            for name in names:
                yield from (("defaults", name, split, method) for method in methods_of(name))

    def tuned(names) -> Iterator[tuple]:
        for name in names:
            yield from (("tuned", name, 0, method) for method in methods_of(name))

    every = [
        *defaults(LARGE, (0,)),  # the longest fits first
        *defaults(MIDDLE, (0,)),
        *defaults(SMALL, (0, 1, 2)),
        *defaults(CLASSIFICATION, (0, 1)),
        *defaults(MIDDLE, (1,)),
        *defaults(SMALL, (3, 4)),
        *defaults(MIDDLE, (2,)),
        *defaults(CLASSIFICATION, (2,)),
        *tuned(SMALL),
        *defaults((*LARGE, *MIDDLE, *CLASSIFICATION), range(5)),
        *tuned((*CLASSIFICATION, *MIDDLE, *LARGE)),
    ]
    return list(dict.fromkeys(every))


def run(piece: tuple[str, str, int, str]) -> dict:
    """Returns the record of one piece; a method that a table has too many rows for has a reason instead of results."""
    kind, name, split, method_name = piece
    one, method = table(name), methods_of(name)[method_name]
    if len(one.splits[split][0]) > method.most_rows:
        return {"left_out": f"more than {method.most_rows} rows"}
    if kind == "defaults":
        return {"results": {split: _fitted(one, method, {}, *one.splits[split], split)}}
    options = method.configurations[1:]
    train, valid = one.validation(0)
    found = [_fitted(one, method, settings, train, valid, 0) for settings in options]
    best = int(np.argmin([scores["nll"] for scores in found]))
    results = {each: _fitted(one, method, options[best], *one.splits[each], each) for each in TUNED_SPLITS}
    seconds = sum(scores["fit_seconds"] for scores in found)
    return {
        "results": results,
        "choice": options[best],
        "validation_nll": [scores["nll"] for scores in found],
        "tuning_seconds": seconds,
    }


def _fitted(one: Table, method: Method, settings: dict, train: np.ndarray, test: np.ndarray, seed: int) -> dict:
    import jax

    jax.clear_caches()
    start = time.perf_counter()
    predict = quietly(method.fit, one.x[train], one.y[train], seed, **settings)
    fitted = time.perf_counter()
    predictions = quietly(predict, one.x[test])
    end = time.perf_counter()
    scores = class_scores(one.y[test], predictions) if one.classes else value_scores(one.y[test], *predictions)
    return {**scores, "rows": len(test), "fit_seconds": fitted - start, "predict_seconds": end - fitted}
