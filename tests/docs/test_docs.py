"""What README and docs show is true: their Python runs, their links lead somewhere, their figures are the records'."""

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


# The code of convert.md is that of convert.py, which has a test of its own.
@pytest.mark.parametrize("page", [p for p in PAGES if p.name != "convert.md"], ids=lambda page: page.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), names)
    if page.name == "mixtures.md":
        assert names["ratio"] > 2 and len(names["plain"]) == 3
    if page.name == "README.md":
        certain, ood = names["p"].mutual_information, names["ood"].mutual_information
        assert ood.mean() > 2 * certain.mean()
        assert names["wrong"][names["sure"]].mean() < names["wrong"].mean() and names["detection"]["auroc_ood"] > 0.8


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


def test_the_results_of_the_readme_are_those_of_the_records():
    specification = importlib.util.spec_from_file_location("readme", ROOT / "docs" / "scripts" / "readme.py")
    readme = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(readme)
    page = PAGES[0].read_text(encoding="utf-8")
    assert readme.filled(page) == page
    runs = [json.loads(line) for line in (ROOT / "experiments" / "results" / "sst2.jsonl").read_text().splitlines()]
    nll = [run["metrics"]["nll"] for run in runs if (run["preset"], run["method"]) == ("chosen", "low_rank_svd")]
    assert re.search(rf"^\| low-rank, SVD-initialised \| 1,470,340 \| .* \| {sum(nll) / 4:.3f} \|", page, re.MULTILINE)
    simple = {
        run["method"]: run["metrics"]["auroc_ood"]
        for run in readme._runs("simple_detectors")
        if "auroc_ood" in run["metrics"]
    }
    for name, least in (("sst2", simple["text_length"]), ("icu", simple["input_distance"])):
        assert max(found.get("auroc_ood_mi", 0.0) for found in readme.means(name).values()) < least
    # Runs that diverged left no record: their seeds are those that the other methods have.
    for name in ("sst2", "sst2 refit"):
        preset = name.partition(" ")[2] or "chosen"
        seeds = {
            m: {run["seed"] for run in runs if (run["preset"], run["method"]) == (preset, m)}
            for m in ("swag", "low_rank")
        }
        assert len(seeds["low_rank"]) == readme.RUN[name, "swag"] and seeds["swag"] < seeds["low_rank"]
        assert f"| SWAG ({len(seeds['swag'])} of 4 seeds) |" in page
    with pytest.raises(ValueError, match=r"README\.md needs <!-- mnist --> and <!-- end --> once"):
        readme.filled(page.replace("<!-- mnist -->", ""))


def test_the_differences_that_the_readme_gives_on_sst2_are_those_of_the_records():
    runs = [json.loads(line) for line in (ROOT / "experiments" / "results" / "sst2.jsonl").read_text().splitlines()]
    scores = {(run["preset"], run["method"], run["seed"]): run["metrics"] for run in runs}
    page = " ".join(PAGES[0].read_text(encoding="utf-8").split())

    def gain(preset: str, method: str, metric: str, sign: str = "") -> str:
        seeds = [seed for preset_, name, seed in scores if (preset_, name) == (preset, method)]
        ours, theirs = (
            np.array([scores[preset, name, seed][metric] for seed in seeds]) for name in (method, "deep_ensemble")
        )
        error = (ours - theirs).std(ddof=1) / np.sqrt(len(seeds))
        return f"{(ours - theirs).mean():{sign}.3f} ± {error:.3f}".replace("-", "−")

    svd = [
        gain(preset, "low_rank_svd", name, "+") for name in ("nll", "auroc_ood_mi") for preset in ("chosen", "refit")
    ]
    assert (
        f"paired difference {svd[0]}; trained on all rows {svd[1]}) and ahead of it in AUROC-OOD ({svd[2]} and " in page
    )
    assert f" and {svd[3]}), with" in page and f"accuracy ({gain('refit', 'low_rank_svd', 'accuracy', '+')})." in page
    nll, mi, entropy = (
        (gain("chosen", "low_rank", name), gain("refit", "low_rank", name))
        for name in ("nll", "auroc_ood_mi", "auroc_ood_entropy")
    )
    assert f"above the deep ensemble's by {nll[0]} (all rows {nll[1]}), and in AUROC-OOD is ahead by {mi[0]}" in page
    assert f"({mi[1]}) by mutual information and by {entropy[0]} ({entropy[1]}) by entropy." in page
