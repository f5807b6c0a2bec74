"""The table that `bounds_report` returns: one bound per row, or a planning figure, or the reason why there is none."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from singularbayes.bounds import Bound
from singularbayes.evaluation.rank_curves import RankCurves
from singularbayes.text_table import text_table


@dataclass(frozen=True)
class Row:
    """A bound; or a figure that bounds nothing, with the words for it; or the reason why neither is there."""

    name: str
    bound: Bound | None = None
    reason: str | None = None
    figure: float | None = None
    words: str | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """Name, value, confidence, and whether it is a certificate."""
        if self.figure is not None:
            return self.name, f"{self.figure:.4g}", "–", "no bound"
        if self.bound is None:
            return self.name, "–", "–", "does not apply"
        certain = f"{self.bound.confidence:.4g}" if self.bound.deltas else "always"
        worth = "certificate" if self.bound.is_certificate else "no certificate"
        vacuous = ", vacuous" if self.bound.vacuous else ""
        return self.name, f"{self.bound.side} {self.bound.rounded}", certain, worth + vacuous

    @property
    def note(self) -> str:
        """What is bounded, the defect and what is assumed; or what the figure is; or the reason."""
        if self.bound is None:
            return f"{self.name}: {self.words or self.reason}"
        parts = [f"{self.name} bounds the {self.bound.quantity}"]
        parts += [f"no certificate: {self.bound.defect}"] if self.bound.defect else []
        return "; ".join([*parts, f"assumes {', '.join(self.bound.assumptions)}"])


@dataclass(frozen=True)
class BoundsReport:
    """Rows in a fixed order; `report["PAC-Bayes, kl inverse"]` is one by name.

    Attributes:
        curves: the bounds at other ranks, None where no weight has a rank.

    >>> BoundsReport("net", 100, ()).rows
    ()
    """

    model: str
    num_data: int
    rows: tuple[Row, ...]
    curves: RankCurves | None = None

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"BoundsReport has rows {[row.name for row in self.rows]}; got {name!r}.")

    def __repr__(self) -> str:
        table = text_table(("bound", "value", "probability", "what it is"), [row.cells for row in self.rows], "<<<<")
        notes = [textwrap.fill(row.note, 118, initial_indent="- ", subsequent_indent="  ") for row in self.rows]
        return "\n".join([f"Bounds of {self.model!r} on {self.num_data:,} examples", "", table, "", *notes])
