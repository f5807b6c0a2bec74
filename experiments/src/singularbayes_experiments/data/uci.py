"""Small regression tables, each with fixed splits into train and test."""

from dataclasses import dataclass

import numpy as np

from singularbayes_experiments.data.files import SETS, locate

UCI_SETS = tuple(name.removesuffix(".npz") for name in SETS["uci_regression"].files)


@dataclass(frozen=True)
class Regression:
    """x float64 (n, features) and y float64 (n,), unscaled; a split is the row numbers of (train, test)."""

    x: np.ndarray
    y: np.ndarray
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]


def uci_regression(name: str) -> Regression:
    """Returns one of the nine sets of `UCI_SETS`, with 20 splits (protein_tertiary_structure: 5)."""
    if name not in UCI_SETS:
        raise ValueError(f"uci_regression needs one of {', '.join(UCI_SETS)}; got {name!r}.")
    with np.load(locate("uci_regression", f"{name}.npz")) as arrays:
        count = sum(key.startswith("train_") for key in arrays)
        splits = tuple((arrays[f"train_{i}"], arrays[f"test_{i}"]) for i in range(count))
        return Regression(arrays["X"], arrays["y"], splits)
