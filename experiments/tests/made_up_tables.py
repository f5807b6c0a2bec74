"""Regression tables made up, in the place of those of UCI: no test of a command needs the data sets."""

import numpy as np
from singularbayes_experiments.data.uci import Regression

ROWS, TRAIN = 60, 50


def made_up_table(name: str, changed=()) -> Regression:
    """A table with six splits, protein with one; `changed` rows are other ones."""
    rng = np.random.default_rng(len(name))
    x = 5 + 3 * rng.normal(size=(ROWS, 3))
    x[:, 2] = 7.0
    y = 100 + 20 * x[:, 0] + rng.normal(size=ROWS)
    x[list(changed)] *= 9
    y[list(changed)] -= 500
    splits = [
        np.split(np.random.default_rng(i).permutation(ROWS), [TRAIN]) for i in range(1 if "protein" in name else 6)
    ]
    return Regression(x, y, tuple((train, test) for train, test in splits), "made up")
