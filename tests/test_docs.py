"""What README and docs show is true: their Python runs, their links lead somewhere, their figures are the records'."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


# The code of convert.md is that of convert.py, which has a test of its own.
@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "convert.md"], ids=lambda page: page.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    if page.name == "README.md":
        certain, strange = names["p"].mutual_information, names["strange"].mutual_information
        assert strange.mean() > 2 * certain.mean()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_speeds_of_the_readme_are_those_of_the_record():
    record = json.loads((ROOT / "benchmarks" / "records" / "training_step_peers.json").read_text())
    rows = re.findall(
        r"^\| .*? \| ([\d.]+) ms \| ([\d.]+) ms \| ([\d.]+) \| ([\d.]+) \|$", PAGES[0].read_text(), re.MULTILINE
    )
    assert len(rows) == len(record["results"])
    for shown, result in zip(rows, record["results"].values(), strict=True):
        steps, ratios = result["steps"], {pair: value for pair, (value, _) in result["ratios"].items()}
        expected = [steps["keras"]["median_ms"], steps["low_rank"]["median_ms"], ratios["low_rank / keras"]]
        assert list(shown) == [f"{value:.2f}" for value in [*expected, ratios["low_rank / full_rank"]]]


@pytest.mark.parametrize(("name", "foreign"), [("mnist", "fashion_mnist"), ("fashion_mnist", "mnist")])
def test_the_results_of_the_readme_are_those_of_the_records(name, foreign):
    lines = (ROOT / "docs" / "results" / f"{name}.jsonl").read_text().splitlines()
    chosen = [run for run in map(json.loads, lines) if run["preset"] == "chosen"]
    table = PAGES[0].read_text().split(f"<!-- {name} -->")[1].split("<!-- end -->")[0]
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.strip().splitlines()[2:]]
    assert len(rows) >= 5
    for method, *shown in rows:
        key = method.removesuffix(" of 5").replace("-", "_").replace(" ", "_")
        runs = [run for run in chosen if run["method"] == key]

        def mean(metric, runs=runs):
            return sum(run["metrics"][metric] for run in runs) / len(runs)

        far = f"{foreign}/auroc_ood_mi"
        detection = f"{mean(far):.3f}" if far in runs[0]["metrics"] else "–"
        scores = [f"{100 * mean('accuracy'):.2f} %", f"{mean('nll'):.4f}", f"{mean('ece'):.4f}", detection]
        assert shown == [f"{runs[0]['parameters']:,}", *scores] and len(runs) == 3
