"""The page on figures: it names every figure, its pictures are there and small, and its record is of its script."""

import importlib.util
import inspect
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from singularbayes import plots

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "figures.md").read_text(encoding="utf-8")
RECORD = json.loads((DOCS / "figures.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("figures_page", DOCS / "scripts" / "figures.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["figures_page"] = module  # where dataclasses look their types up
    specification.loader.exec_module(module)
    return module


def test_the_page_names_every_figure_with_its_arguments():
    figures = {name for name in plots.__all__ if _returns_a_figure(getattr(plots, name))}
    named = dict(re.findall(r"\*\*`(\w+)\(([^)]*)\)`", PAGE))
    assert set(named) == figures
    for name, arguments in named.items():
        parameters = inspect.signature(getattr(plots, name)).parameters.values()
        assert arguments.split(", ") == [p.name for p in parameters if p.default is p.empty]


def _returns_a_figure(function):
    return inspect.isfunction(function) and inspect.signature(function).return_annotation is Figure


def test_the_pictures_are_there_and_small_and_none_is_left_over():
    shown = set(re.findall(r"!\[[^]]{10,}\]\((figure_\w+\.png)\)", PAGE))
    assert shown == {path.name for path in DOCS.glob("figure_*.png")}
    assert max((DOCS / name).stat().st_size for name in shown) < 60_000


def test_the_record_is_of_the_settings_and_measures_in_the_script(script):
    assert RECORD["settings"] == json.loads(json.dumps(asdict(script.Settings())))
    assert all(list(scores) == [m.name for m in script.MEASURES] for scores in RECORD["scores"].values())


def test_the_script_draws_every_picture_of_the_page(script):
    names = re.findall(r'^        "(\w+)": plots\.', inspect.getsource(script.draw), re.MULTILINE)
    assert {f"figure_{name}.png" for name in names} == {path.name for path in DOCS.glob("figure_*.png")}
