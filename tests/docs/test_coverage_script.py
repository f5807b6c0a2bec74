"""The simulation of certificates.md, short: every form fails at most as often as it says, the naive risk more often."""

import importlib.util
import sys
from pathlib import Path

import pytest
from marks import filled

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("coverage_page", DOCS / "scripts" / "coverage.py")
    module = importlib.util.module_from_spec(specification)
    sys.modules["coverage_page"] = module  # where dataclasses look their types up
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results(script):
    return [script.simulate(name, 2 if case.words else 8) for name, case in script.CASES.items()]


def test_every_form_fails_at_most_as_often_as_it_says(script, results):
    assert [result.name for result in results if not result.holds] == []
    assert all(result.mean_bound > result.mean_risk for result in results)
    # Certificates of examples that were fitted: the risk on these alone is too small, and the certificate is below 1.
    fitted = [r for r in results if script.CASES[r.name].fitted and not r.name.startswith("Catoni")]
    assert len(fitted) == 6 and all(result.mean_bound < 0.95 for result in fitted)
    assert all(result.naive > 0.5 * result.repetitions for result in fitted)


def test_the_record_of_the_page_has_every_form_and_holds(script, results, tmp_path):
    script.draw(results, tmp_path / "coverage.png")
    assert (tmp_path / "coverage.png").stat().st_size > 1000
    page = script.PAGE.read_text(encoding="utf-8")
    assert "<!-- coverage.py -->\nhere\n<!-- end -->" in filled(page, "coverage.py", "here", "certificates.md")
    found = [script.as_result(line) for line in script.kept_results().values()]
    assert [r.name for r in found] == list(script.CASES) and all(r.holds and r.repetitions >= 1000 for r in found)
    assert script.table(found) in page
