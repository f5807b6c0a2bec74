"""The tables of docs/deploy.md are those of the records, and what was promised of false alarms holds in them."""

import importlib.util
import math
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("deploy_page", DOCS / "scripts" / "deploy.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_the_page_has_the_tables_of_the_records(script):
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.filled(page) == page
    with pytest.raises(ValueError, match=r"deploy\.md needs <!-- students --> and <!-- end --> once"):
        script.filled(page.replace("<!-- students -->", ""))


def test_exchangeable_streams_alarm_at_most_as_often_as_was_said(script):
    runs = script.records("monitoring")
    assert {run["method"] for run in runs} == set(script.SERVICES)
    for run in runs:
        assert run["settings"]["repetitions"] == script.REPETITIONS
        for alpha in (0.1, 0.01):
            found = run["metrics"][f"false alarms, α = {alpha:g}"]
            assert found <= alpha + 2 * math.sqrt(alpha * (1 - alpha) / script.REPETITIONS)


def test_a_number_that_misses_its_aim_is_bold(script):
    assert script._cells((0.1, 0.1049), 1, 0.005) == ["0.1000", "0.1049"]
    assert script._cells((0.1, 0.1051), 1, 0.005)[1] == "**0.1051**"
    assert script._cells((0.9, 0.889), -1, 0.01)[1] == "**0.8890**"
    assert script._cells((0.9, 0.95), -1, 0.01)[1] == "0.9500"
    assert script._cells((0.9, float("nan")), -1, 0.01)[1] == "–"
