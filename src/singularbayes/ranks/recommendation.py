"""Ranks by shape and by the spectrum of a trained network, and the table that a recommendation is."""

import math
from dataclasses import dataclass

import keras

from singularbayes.checks import require_integer
from singularbayes.convert import MatrixSpectrum, spectrum
from singularbayes.text_table import text_table


@dataclass(frozen=True)
class Row:
    """The rank of one matrix and why."""

    layer: str  # its path in the model
    matrix: str  # which of the layer's
    shape: tuple[int, int]
    rank: int
    reason: str

    @property
    def saves(self) -> float:
        """The parameters of the factors, r (m + n), over those of the matrix, m n: from 1 on nothing is saved."""
        rows, columns = self.shape
        return self.rank * (rows + columns) / (rows * columns)


@dataclass(frozen=True)
class Recommendation:
    """Ranks with their reasons, in the order of the layers. Printed, it is a table and what was assumed.

    >>> import keras
    >>> model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32, name="hidden")])
    >>> by_shape(model).ranks  # for bayesianize(model, rules=…)
    {'hidden': 16}
    """

    model: str
    rows: tuple[Row, ...]
    how: str

    @property
    def ranks(self) -> dict[str, int]:
        """The rank of every layer, the largest of its matrices: rules for `bayesianize(model, rules=…)`."""
        ranks: dict[str, int] = {}
        for row in self.rows:
            ranks[row.layer] = max(ranks.get(row.layer, 0), row.rank)
        # The first rule that fits is taken, and "head" also fits "block/head": the longer path goes first.
        return dict(sorted(ranks.items(), key=lambda item: -item[0].count("/")))

    def __str__(self) -> str:
        head = ("matrix", "size", "rank", "of its parameters", "because")
        cells = [
            (f"{row.layer}/{row.matrix}", f"{row.shape[0]}×{row.shape[1]}", row.rank, f"{row.saves:.0%}", row.reason)
            for row in self.rows
        ]
        dear = [f"{row.layer}/{row.matrix}" for row in self.rows if row.saves >= 1]
        more = [f"Factors have as many parameters as the matrix, or more, in {', '.join(dear)}."] if dear else []
        return "\n".join([f"Ranks for {self.model!r}", text_table(head, cells), self.how, *more])


def default_rank(rows: int, columns: int) -> int:
    """Returns the rank to begin with when nothing is known: √min(m, n), at least 16, at most min(m, n).

    A rule of thumb, no more. It is near the ranks that the paper chose: 15 for 44 × 128, 16 for 256 × 256, 25
    for 784 × 1200, and the full rank for a head of 10 columns.

    >>> default_rank(44, 128), default_rank(256, 256), default_rank(784, 1200), default_rank(1200, 10)
    (16, 16, 28, 10)
    """
    require_integer("default_rank", rows=rows, columns=columns)
    return min(max(16, math.ceil(math.sqrt(min(rows, columns)))), rows, columns)


def by_shape(model: keras.Model) -> Recommendation:
    """Returns the rank by the rule of thumb for every weight matrix of a built model, trained or not.

    >>> import keras
    >>> model = keras.Sequential([keras.Input((784,)), keras.layers.Dense(1200), keras.layers.Dense(10)])
    >>> list(by_shape(model).ranks.values())
    [28, 10]
    """
    found = spectrum(model)
    rows = [Row(row.layer, row.matrix, row.shape, default_rank(*row.shape), "of its shape") for row in found.rows]
    how = "A rule of thumb: √min(m, n), at least 16 and at most min(m, n). Training was not looked at."
    return Recommendation(found.model, tuple(rows), how)


def by_spectrum(model: keras.Model, explained: float = 0.9) -> Recommendation:
    """Returns for every matrix of a trained model the smallest rank that keeps this share of ‖W‖_F².

    The relative error of W in Frobenius norm is then at most √(1 − explained): 32 % for 0.9. Take 0.99 where that is
    too much.

    >>> import keras
    >>> model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, kernel_initializer="ones", name="head")])
    >>> by_spectrum(model).ranks
    {'head': 1}
    """
    found = spectrum(model)
    rows = tuple(
        Row(row.layer, row.matrix, row.shape, row.rank_for(explained), _why(row, explained)) for row in found.rows
    )
    error = math.sqrt(1 - explained)
    rest = f"the rest is an error of at most {error:.1%} of ‖W‖ in each matrix"
    how = f"Smallest ranks that keep {explained:.6g} of ‖W‖²; {rest}."
    return Recommendation(found.model, rows, how)


def _why(row: MatrixSpectrum, explained: float) -> str:
    rank = row.rank_for(explained)
    kept = f"keeps {row.explained[rank - 1]:.1%}"
    return kept if rank == 1 else f"{kept}; rank {rank - 1} keeps {row.explained[rank - 2]:.1%}"
