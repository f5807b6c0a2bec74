"""The page: one self-contained HTML file."""

import importlib
import io
import platform
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import keras
import matplotlib
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure

import singularbayes
from singularbayes.demo.story import Story

PAGE = "report.html"
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


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
