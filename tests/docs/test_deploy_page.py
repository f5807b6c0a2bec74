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


def test_every_pair_stands_beside_the_best_number_without_a_network(script):
    simple = [
        {"experiment": "sst2", "method": "text_length", "metrics": {"auroc_ood": 0.9}},
        {"experiment": "sst2", "method": "word_rarity", "metrics": {"auroc_ood": 0.95, "clinc150/auroc_ood": 0.99}},
        {"experiment": "mnist", "method": "more_pixels", "metrics": {"fashion_mnist/auroc_ood": 0.98}},
    ]
    assert script.no_network(simple, "sst2", "auroc_ood_mi") == ("rare words", 0.95)
    assert script.no_network(simple, "mnist", "fashion_mnist/auroc_ood_mi") == ("non-zero pixels", 0.98)
    assert script._cells((0.9, float("nan"))) == ["0.9000", "–"]
