"""Ranks that are recommended, each with its reason."""

from dataclasses import dataclass

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
        """The numbers of the factors, r (m + n), over those of the matrix, m n: from 1 on a low rank saves nothing."""
        rows, columns = self.shape
        return self.rank * (rows + columns) / (rows * columns)


@dataclass(frozen=True)
class Recommendation:
    """Ranks with their reasons, in the order of the layers. Printed, it is a table and what was assumed."""

    model: str
    rows: tuple[Row, ...]
    how: str

    @property
    def ranks(self) -> dict[str, int]:
        """The rank of every layer, the largest of its matrices: rules for `bayesianize(model, rules=…, cap=True)`."""
        ranks: dict[str, int] = {}
        for row in self.rows:
            ranks[row.layer] = max(ranks.get(row.layer, 0), row.rank)
        # The first rule that fits is taken, and "head" also fits "block/head": the longer path goes first.
        return dict(sorted(ranks.items(), key=lambda item: -item[0].count("/")))

    def __str__(self) -> str:
        head = ("matrix", "size", "rank", "of its numbers", "because")
        cells = [
            (f"{row.layer}/{row.matrix}", f"{row.shape[0]}×{row.shape[1]}", row.rank, f"{row.saves:.0%}", row.reason)
            for row in self.rows
        ]
        dear = [f"{row.layer}/{row.matrix}" for row in self.rows if row.saves >= 1]
        more = [f"Factors have as many numbers as the matrix, or more, in {', '.join(dear)}."] if dear else []
        return "\n".join([f"Ranks for {self.model!r}", text_table(head, cells), self.how, *more])
