"""The page on figures names every figure with its arguments."""

import inspect
import re
from pathlib import Path

from matplotlib.figure import Figure

from singularbayes import plots

PAGE = (Path(__file__).parents[2] / "docs" / "figures.md").read_text(encoding="utf-8")


def test_the_page_names_every_figure_with_its_arguments():
    figures = {name for name in plots.__all__ if _returns_a_figure(getattr(plots, name))}
    named = dict(re.findall(r"\*\*`(\w+)\(([^)]*)\)`", PAGE))
    assert set(named) == figures
    for name, arguments in named.items():
        parameters = inspect.signature(getattr(plots, name)).parameters.values()
        assert arguments.split(", ") == [p.name for p in parameters if p.default is p.empty]


def _returns_a_figure(function):
    return inspect.isfunction(function) and inspect.signature(function).return_annotation is Figure
