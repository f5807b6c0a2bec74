"""The page: one self-contained HTML file, and what a section of it holds."""

import importlib
import io
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
from singularbayes.evaluation import Comparison

PAGE = "report.html"
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


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
    figures = {story.name: svg(story.figure, story.name) for story in stories}
    names = {"stories": stories, "figures": figures, "command": command, "quick": quick, "versions": versions()}
    return environment.get_template("page.html.j2").render(names)


def svg(figure: Figure, prefix: str) -> str:
    """Returns a figure as an <svg> element whose ids begin with the prefix: on a page an id may stand once."""
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "singularbayes"}):
        figure.savefig(text, format="svg", metadata=_NO_METADATA, dpi=200)
    element = text.getvalue()
    element = element[element.index("<svg") :]
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
