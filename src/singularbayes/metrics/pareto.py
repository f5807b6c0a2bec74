"""Scores against size: settings that no other beats in everything, and scores weighed by the number of parameters."""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from singularbayes.checks import require_finite


def pareto_front(values: np.ndarray, signs: Sequence[int]) -> np.ndarray:
    """Returns for every row whether no other is at least as good in all columns and better in one.

    Args:
        values: (settings, measures).
        signs: of every measure, 1 where higher is better and −1 where lower is.

    >>> pareto_front(np.array([[0.9, 0.3], [0.8, 0.2], [0.8, 0.4]]), signs=(1, -1))
    array([ True,  True, False])
    """
    table, sign = np.asarray(values, "float64"), np.asarray(signs)
    if table.ndim != 2 or not table.size or sign.shape != table.shape[1:] or not np.isin(sign, (-1, 1)).all():
        raise ValueError(
            "pareto_front needs values of shape (settings, measures), not empty, and a sign, 1 or -1, for each "
            f"measure; got shape {table.shape} and signs {list(signs)}."
        )
    require_finite("pareto_front", values=table)
    good = table * sign
    as_good = (good[:, None] >= good[None]).all(axis=-1)
    better = (good[:, None] > good[None]).any(axis=-1)
    return ~(as_good & better).any(axis=0)


def efficiency_factors(parameters: Mapping[str, int]) -> dict[str, float]:
    """Returns √(fewest parameters / parameters) of every model: 1 for the smallest.

    >>> efficiency_factors({"low-rank": 100, "ensemble": 400})
    {'low-rank': 1.0, 'ensemble': 0.5}
    """
    if not parameters or not all(0 < count < math.inf for count in parameters.values()):
        raise ValueError(f"efficiency_factors needs models with at least one parameter each; got {dict(parameters)}.")
    fewest = min(parameters.values())
    return {model: math.sqrt(fewest / count) for model, count in parameters.items()}
