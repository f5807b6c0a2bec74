"""The tables of docs/deploy.md are those of the records, and what was promised of false alarms holds in them."""

import importlib.util
import math
import re
from pathlib import Path

import pytest
from singularbayes_experiments.records import record
from singularbayes_experiments.report.detectors import best_without_network
from singularbayes_experiments.report.names import WITHOUT_NETWORK

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


def test_every_pair_stands_beside_the_best_number_without_a_network(script):
    """The number is of the pair that teacher and students are scored on, and the best of those that need no network."""
    simple = record.read(script.SIMPLE)
    for case in script.CASES:
        runs = [run for run in script.records("students") if run["method"].startswith(f"{case},")]
        metric = re.sub("_(mi|epistemic)$", "", runs[0]["settings"]["scores"][1])
        plain = [one for one in simple if one.experiment == case and one.method in WITHOUT_NETWORK]
        best = max(one.metrics[metric] for one in plain if metric in one.metrics)
        found = best_without_network(case, simple)
        assert found is not None and found[1] == pytest.approx(best), case
    assert script._cells((0.9, float("nan"))) == ["0.9000", "–"]
