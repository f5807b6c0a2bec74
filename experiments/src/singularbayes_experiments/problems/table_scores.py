"""Scores of predictions for rows of a table."""

import math
import time
from collections.abc import Callable

import numpy as np
import scoringrules
from scipy.stats import norm, t

from singularbayes_experiments.problems.table_methods import quietly
from singularbayes_experiments.problems.table_sets import Table

COVERAGE = 0.9


def value_scores(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, low: np.ndarray, high: np.ndarray, freedom: float = math.inf
) -> dict[str, float]:
    """Returns the scores of predictions and of intervals, in the units of y.

    Args:
        freedom: degrees of freedom of predictions that are Student-t; infinite ones are normal. "normal_nll" is the NLL
            of the normal distribution with the same mean and standard deviation.
    """
    normal = float(-np.mean(norm.logpdf(y, mean, std)))  # that of scoringrules is infinite 39 deviations out
    scores = {
        "nll": normal,
        "crps": float(np.mean(scoringrules.crps_normal(y, mean, std))),
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "coverage": float(np.mean((low <= y) & (y <= high))),
        "width": float(np.mean(high - low)),
    }
    if math.isinf(freedom):
        return scores
    scale = std * math.sqrt(1 - 2 / freedom)  # the variance of Student-t is ν/(ν − 2) times its squared scale
    heavy = {
        "nll": float(-np.mean(t.logpdf(y, freedom, mean, scale))),
        "crps": float(np.mean(scoringrules.crps_t(y, freedom, mean, scale))),
    }
    return scores | heavy | {"normal_nll": normal, "freedom": freedom}


def class_scores(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """Returns the scores of probabilities (rows, classes) for labels 0, 1, …; they count as at least 1e-12."""
    own = p[np.arange(len(y)), y]
    return {
        "nll": float(-np.mean(np.log(np.maximum(own, 1e-12)))),
        "brier": float(np.mean(((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1))),
        "accuracy": float(np.mean(p.argmax(axis=1) == y)),
    }


def scores_of_fit(
    one: Table,
    fit: Callable,
    settings: dict,
    train: np.ndarray,
    test: np.ndarray,
    seed: int,
    compile_again: bool = False,
) -> dict[str, float]:
    """Returns the scores of a method that is fitted on some rows of a table, on others, and its seconds.

    Args:
        compile_again: whether programs are compiled again, so that seconds are those of a first call.
    """
    import jax

    if compile_again:
        jax.clear_caches()
    start = time.perf_counter()
    predict = quietly(fit, one.x[train], one.y[train], seed, **settings)
    fitted = time.perf_counter()
    predictions = quietly(predict, one.x[test])
    end = time.perf_counter()
    scores = class_scores(one.y[test], predictions) if one.classes else value_scores(one.y[test], *predictions)
    return {**scores, "rows": len(test), "fit_seconds": fitted - start, "predict_seconds": end - fitted}
