"""What a section of the demo's page holds."""

from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from singularbayes.evaluation import Comparison


@dataclass(frozen=True)
class Story:
    """One question, answered by a sentence, a figure and a table.

    Args:
        name: the section's id on the page, in letters and hyphens.
        setup: the data and the networks.
        sentence: the result, written from the numbers of this run.
        alt: the figure in words, for those who cannot see it.
        note: how to read the table.
        settings: of the training, by their names.
    """

    name: str
    title: str
    setup: str
    sentence: str
    figure: Figure
    alt: str
    table: Comparison
    note: str
    settings: dict[str, Any]

    @property
    def heads(self) -> list[str]:
        """The heads of the table's columns, with arrows that point to the better end."""
        return [f"{measure.label} {measure.arrow}".strip() for measure in self.table.measures]

    @property
    def rows(self) -> list[tuple[str, list[tuple[str, bool]]]]:
        """The rows of the table: a method, and each cell as text with whether it is the best of its column."""
        cells = [
            [(column.number(cell.mean), cell.place == 1) for cell in column.cells] for column in self.table.columns
        ]
        return list(zip(self.table.methods, map(list, zip(*cells, strict=True)), strict=True))
