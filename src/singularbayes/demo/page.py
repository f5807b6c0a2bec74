"""The page: one self-contained HTML file, and what a section of it holds."""

import importlib
import io
import math
import platform
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import matplotlib
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

import singularbayes
from singularbayes.evaluation import Column, Comparison
from singularbayes.plots import BLUE, INK, PALE, VERMILION, style

PAGE = "report.html"
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
# Colours of the figures by the names that the page has for them, in light and dark.
_NAMES = {INK: "ink", style.GREY: "soft", PALE: "wash", BLUE: "blue", VERMILION: "vermilion", style.GREEN: "green"}


@dataclass(frozen=True)
class Story:
    """One question, answered by a sentence and a figure; the rest is folded.

    Args:
        name: the section's id on the page, in letters and hyphens.
        sentence: the result, written from the numbers of this run.
        code: the lines that a user types for it.
        ours: the method of the table that the story is about.
        figures: the same figure for wide and for narrow windows.
        alt: the figure in words, for those who cannot see it.
        details: paragraphs about the data, the networks, and what is not a default.
        note: how to read the table.
        settings: of the training, by their names.
    """

    name: str
    title: str
    sentence: str
    code: str
    ours: str
    figures: tuple[Figure, Figure]
    alt: str
    details: tuple[str, ...]
    table: Comparison
    note: str
    settings: dict[str, Any]

    @property
    def losses(self) -> str:
        """Where another method is better in the table, as it shows the numbers."""
        return losses(self.table, self.ours)

    @property
    def heads(self) -> list[str]:
        """The heads of the table's columns, with arrows that point to the better end."""
        return [f"{measure.label} {measure.arrow}".strip() for measure in self.table.measures]

    @property
    def rows(self) -> list[tuple[str, list[tuple[str, bool]]]]:
        """The rows of the table: a method, and each cell as text with whether it is the best of its column."""
        cells = [[(column.number(cell.mean), cell.best) for cell in column.cells] for column in self.table.columns]
        return list(zip(self.table.methods, map(list, zip(*cells, strict=True)), strict=True))


def losses(table: Comparison, ours: str) -> str:
    """Returns a sentence that names every column in which another method is the best, with both numbers.

    >>> from singularbayes import compare
    >>> from singularbayes.evaluation import Evaluation
    >>> runs = [Evaluation(m, "regression", 0, {"rmse": v}) for m, v in (("ours", 1.0), ("theirs", 0.5))]
    >>> losses(compare(runs, ["rmse"]), "ours")
    'Where ours loses: RMSE 1.000 (theirs 0.500).'
    """
    place = table.methods.index(ours)
    found = []
    for column in table.columns:
        best = _lowest_loss(column)
        if best is not None and column.number(column.cells[best].mean) != column.number(column.cells[place].mean):
            numbers = [column.number(column.cells[i].mean) for i in (place, best)]
            found.append(f"{column.measure.label} {numbers[0]} ({table.methods[best]} {numbers[1]})")
    return f"Where {ours} loses: {', '.join(found)}." if found else f"No other method beats {ours} in any column."


def _lowest_loss(column: Column) -> int | None:
    """Returns the place of the best mean, beyond chance or not; None where a column has no better end."""
    losses = [column.measure.loss(cell.mean / column.measure.scale) for cell in column.cells]
    known = {i: loss for i, loss in enumerate(losses) if loss is not None and not math.isnan(loss)}
    return min(known, key=lambda i: known[i]) if known and column.measure.ranked else None


def changed(before: float, after: float, form: str) -> str:
    """Returns "fall from a to b", "rise from a to b" or "stay at a", as the numbers are shown.

    >>> changed(0.127, 0.0912, ".1%"), changed(1.0, 1.004, ".2f")
    ('fall from 12.7\\xa0% to 9.1\\xa0%', 'stay at 1.00')
    """
    first, second = (f"{value:{form}}".replace("%", "\N{NO-BREAK SPACE}%") for value in (before, after))
    if first == second:
        return f"stay at {first}"
    return f"{'fall' if after < before else 'rise'} from {first} to {second}"


def write(stories: Sequence[Story], folder: Path, command: str, quick: bool) -> Path:
    """Writes the page into a folder and returns its path; a failure leaves the old page, or none."""
    text = render(stories, command, quick)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".singularbayes-") as temporary:
        part = Path(temporary) / PAGE
        part.write_text(text, encoding="utf-8")
        return part.replace(folder / PAGE)


def render(stories: Sequence[Story], command: str, quick: bool) -> str:
    """Returns the page; the same stories give the same text."""
    environment = Environment(
        loader=PackageLoader("singularbayes", "demo"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    figures = {
        story.name: {
            width: svg(figure, f"{story.name}-{width}")
            for width, figure in zip(("wide", "narrow"), story.figures, strict=True)
        }
        for story in stories
    }
    names = {"stories": stories, "figures": figures, "command": command, "quick": quick, "versions": versions()}
    return environment.get_template("page.html.j2").render(names)


def svg(figure: Figure, prefix: str) -> str:
    """Returns a figure as an <svg> element in the page's own colours.

    Its ids begin with the prefix, for on a page an id may stand once; it has no background.
    """
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "singularbayes"}):
        figure.savefig(text, format="svg", metadata=_NO_METADATA, dpi=200, transparent=True)
    element = text.getvalue()
    element = element[element.index("<svg") :]
    for colour, name in _NAMES.items():
        element = element.replace(colour.lower(), f"var(--{name})")
    return re.sub(r'(\sid="|href="#|url\(#)', rf"\1{prefix}-", element)


def versions() -> dict[str, str]:
    """Returns the versions that the numbers depend on."""
    backend = keras.backend.backend()
    return {
        "singularbayes": singularbayes.__version__,
        "keras": keras.__version__,
        backend: importlib.import_module(backend).__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
