"""The page: one self-contained HTML file, and what a section of it holds."""

import importlib
import io
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import matplotlib
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure

import singularbayes as sb
from singularbayes.plots import style

LOOK = style.drawn_in({**style.PRINT, "font.size": 9, "axes.titlesize": 10, "axes.labelsize": 9, "legend.fontsize": 9})


@dataclass(frozen=True)
class Story:
    """One question, answered by a sentence, a figure and a table; the rest is folded.

    Args:
        name: the section's id on the page, in letters.
        sentence: the result, with the numbers of this run.
        code: the lines that a user types for it.
        details: paragraphs about the data, the networks, what is not a default, and how to read the table.
        settings: of the training.
    """

    name: str
    title: str
    sentence: str
    code: str
    figure: Figure
    table: sb.evaluation.Comparison
    details: tuple[str, ...]
    settings: Any


def render(stories: Sequence[Story], seed: int, quick: bool) -> str:
    """Returns the page; the same stories give the same text."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    return environment.get_template("page.html.j2").render(
        stories=stories,
        figures={story.name: svg(story.figure, story.name) for story in stories},
        command=f"python -m demo --seed {seed}{' --quick' if quick else ''}",
        quick=quick,
        versions=versions(),
    )


def svg(figure: Figure, prefix: str) -> str:
    """Returns a figure as an <svg> element; its ids begin with the prefix, for on a page an id may stand once."""
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": prefix}):
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    element = text.getvalue()
    return re.sub(r'(\sid="|href="#|url\(#)', rf"\1{prefix}-", element[element.index("<svg") :])


def versions() -> str:
    """Returns the versions that the numbers depend on."""
    packages = ("singularbayes", "keras", keras.backend.backend(), "numpy")
    found = [f"{name} {importlib.import_module(name).__version__}" for name in packages]
    return ", ".join([*found, f"Python {platform.python_version()}"])


def rows_of(table: sb.evaluation.Comparison) -> dict[str, dict[str, float]]:
    """Returns the means of a table by method and measure."""
    names = [measure.name for measure in table.measures]
    return {method: dict(zip(names, row, strict=True)) for method, row in table.values().items()}


def percent(share: float, decimals: int = 0) -> str:
    """Returns a share as a sentence has it.

    >>> percent(0.127), percent(0.127, 1)
    ('13\\xa0%', '12.7\\xa0%')
    """
    return f"{100 * share:.{decimals}f}\N{NO-BREAK SPACE}%"
