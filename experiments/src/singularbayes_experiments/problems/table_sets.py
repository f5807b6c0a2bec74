"""Tables with fixed splits: nine of regression, and classification tables that come inside packages."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn.model_selection import train_test_split

from singularbayes_experiments import data

SPLITS = 5


@dataclass(frozen=True)
class Table:
    """x float64 (rows, features), y values or labels 0, 1, …; a split is the rows of (train, test)."""

    name: str
    x: np.ndarray
    y: np.ndarray
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]

    @property
    def classes(self) -> bool:
        return self.y.dtype.kind == "i"

    def validation(self, split: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the training rows of a split in two parts: four fifths to train on, and a fifth to choose by."""
        rows = self.splits[split][0]
        return train_test_split(
            rows, test_size=0.2, random_state=100 + split, stratify=self.y[rows] if self.classes else None
        )


REGRESSION = data.UCI_SETS


@cache
def table(name: str) -> Table:
    """Returns a table by its name."""
    uci = data.uci_regression(name)
    return Table(name, uci.x, uci.y, uci.splits[:SPLITS])
