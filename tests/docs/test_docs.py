"""What README and docs show is true: their Python runs, their links lead somewhere, their figures are the records'."""

import importlib.util
import json
import re
from dataclasses import asdict
from pathlib import Path

import keras
import numpy as np
import pytest
from marks import filled
from scipy import stats
from singularbayes_experiments import records
from singularbayes_experiments.report import results

import singularbayes as sb
from singularbayes import metrics
from singularbayes.estimators.defaults import Defaults

ROOT = Path(__file__).parents[2]
MIGRATE = sorted((ROOT / "docs" / "migrate").glob("*.md"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *MIGRATE]
MORE_PAGES = [*sorted((ROOT / "docs").glob("[!m]*/*.md")), ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]


_BLOCK = r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?"  # and, right after it, lines of what it prints
_NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e-?\d+)?")


def assert_printed(shown: str, printed: str) -> None:
    """Asserts that the lines shown were printed in order; "…" leaves out the rest of a line, or some lines.

    On JAX the numbers are near those shown; elsewhere the draws are others.
    """
    left = iter(printed.splitlines())
    for line in shown.splitlines():
        words, numbers = _parts(line.removesuffix("…"))
        cut = line.endswith("…")
        for found in map(_parts, left):
            if found[0] == words or (cut and found[0][: len(words)] == words):
                break
        else:
            raise AssertionError(f"{line!r} is not in what was printed: {printed}")
        if keras.backend.backend() == "jax":
            np.testing.assert_allclose(found[1][: len(numbers)], numbers, rtol=0.3, atol=0.1)


def _parts(line: str) -> tuple[list[str], list[float]]:
    """Returns the words, with # for a number and without the suffixes of names and rules, and the numbers."""
    line = re.sub(r"_\d+\b|─", "", line)
    return _NUMBER.sub("#", line).split(), [float(number.replace(",", "")) for number in _NUMBER.findall(line)]


def test_the_design_page_describes_every_package_that_the_code_has():
    packages = [path.parent.name for path in (ROOT / "src" / "singularbayes").glob("*/__init__.py")]
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    assert "posteriors" in packages and [name for name in packages if f"{name}/" not in page] == []


def test_what_a_page_shows_has_to_be_printed_in_order_with_numbers_that_are_near():
    printed = "MI 0.031 of 1,024\nother things\nloss 2.0"
    assert_printed("MI 0.030 of 1,024\nother …\nloss 2.1\n", printed)
    for wrong in ("loss 2.0\nother things", "loss 3.0", "gain 2.0", "other"):
        with pytest.raises(AssertionError):
            assert_printed(wrong, printed)


def beta_matters(names: dict) -> bool:
    """Returns whether the default β repairs little of the NLL of the page's network, of what β = 0.3 repairs."""
    again = names["sb"].bayesianize(names["model"], names["posterior"])
    again.fit(names["x"][names["train"]], names["y"][names["train"]], epochs=20, verbose=0, callbacks=[sb.KLSchedule()])
    x, y = names["x"][names["new"]], names["y"][names["new"]]
    nll = [
        metrics.negative_log_likelihood(sb.predict(model, x, seed=0).mean, y)
        for model in (names["model"], again, names["bayes"])
    ]
    return nll[0] - nll[1] < 0.5 * (nll[0] - nll[2])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_from_top_to_bottom_and_prints_what_it_shows(page, monkeypatch, tmp_path, capsys):
    # The 2,000 steps of the default, which the doctests of the estimators take on a smaller table.
    monkeypatch.setattr(Defaults, "epochs", lambda *_: 50)
    if page.name == "README.md":
        monkeypatch.chdir(tmp_path)  # it writes a file of adapters
    names: dict = {}
    every = ""  # that was printed
    for block, shown in re.findall(_BLOCK, page.read_text(), flags=re.MULTILINE | re.DOTALL):
        capsys.readouterr()
        exec(compile(block, page.name, "exec"), names)
        printed = capsys.readouterr().out
        assert_printed(shown, printed)
        every += printed
    if page.name == "evaluate.md" and keras.backend.backend() == "jax":
        [table] = re.findall(
            r"^On JAX it prints this.*?^```text\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL
        )
        assert table.count("±") == 10
        assert_printed(table, every)
    if page.name == "convert.md":
        assert (
            beta_matters(names) and "β = 0.3 repairs most of that here, the default of 0.03 little" in page.read_text()
        )
    if page.name == "mixtures.md":
        assert names["ratios"]["anchored prior"] > 2 and len(names["plain"]) == 3
    if page.name == "README.md":
        assert (names["p"].predicted_labels == names["y_new"]).mean() > 0.9
        assert names["odd"].entropy.mean() > 5 * names["p"].entropy.mean()
        assert names["odd"].mutual_information.mean() > 5 * names["p"].mutual_information.mean()
        further = names["sb"].predict(names["model"], 4 * names["x_new"], draws=200, seed=0)
        assert further.entropy.mean() < names["p"].entropy.mean()  # as its limits say
    if page.name == "decisions.md":
        assert names["wrong"][names["sure"]].mean() < names["wrong"].mean()


@pytest.mark.parametrize("page", [*PAGES, *MORE_PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_finding_of_a_diagnosis_is_on_the_page_of_troubleshooting():
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    code = (ROOT / "src" / "singularbayes" / "evaluation" / "symptoms.py").read_text(encoding="utf-8")
    names = set(re.findall(r'yield Finding\(\s+"(\w+)"', code))
    assert len(names) == 12 and [name for name in names if f"\n| `{name}`" not in page] == []


def test_the_speeds_of_the_readme_are_those_of_the_records():
    records = ROOT / "benchmarks" / "records"
    rows = re.findall(
        r"^\| .*? \| ([\d.]+) ms \| ([\d.]+) ms \| ([\d.]+) \| ([\d.]+) \|$", PAGES[0].read_text(), re.MULTILINE
    )
    steps = json.loads((records / "other_libraries.json").read_text())["rows"]
    profile = json.loads((records / "sst2_profile.json").read_text())["rows"]
    kinds = ("Keras", "low-rank", "full-rank")
    on_cpu = [steps[f"MLP step, {kind}"]["median_ms"] for kind in kinds]
    on_gpu = [1e3 * np.median(profile[kind]["epoch"]) / 25 for kind in kinds]
    for row, (keras_, low, full) in zip(rows, (on_cpu, on_gpu), strict=True):
        assert list(row) == [f"{value:.2f}" for value in (keras_, low, low / keras_, low / full)]


def test_the_results_of_the_readme_are_those_of_the_records():
    specification = importlib.util.spec_from_file_location("readme", ROOT / "docs" / "scripts" / "readme.py")
    readme = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(readme)
    page, numbers = PAGES[0].read_text(encoding="utf-8"), results.Numbers(records.connect())
    assert filled(page, "results", readme.results(numbers), "README.md") == page
    counts = {name: numbers.sides(name, "deep_ensemble") for name in readme.OURS}
    assert {task for _, task in counts["mixture_repeat"]["worse"]} == {"mnist", "cnn"}
    assert {task for _, task in counts["mixture_svd"]["worse"]} == {"naval_propulsion_plant"}
    assert len(counts["low_rank"]["worse"]) == 9
    strict = [len(numbers.sides(name, "deep_ensemble", "nll", "hindsight")["better"]) for name in readme.OURS]
    assert [len(counts[name]["better"]) for name in readme.OURS] == [5, 10, 1] and strict == [4, 8, 0]


def test_what_the_readme_says_of_adapters_and_tables_stands_on_their_pages():
    pages = ("README.md", "docs/results/adapters.md", "docs/results/tables.md")
    read = [(ROOT / path).read_text(encoding="utf-8") for path in pages]
    assert "five of seven settings" in read[0] and "nine regression tables" in read[0]
    assert "lowest mean NLL on 5 of 7 settings" in read[1]
    assert "lower mean NLL than all others on all 9 regression tables" in read[2]


def test_the_scores_of_the_first_figure_are_those_of_its_record_and_its_spread_is_that_which_was_chosen():
    specification = importlib.util.spec_from_file_location("pitch", ROOT / "docs" / "scripts" / "pitch.py")
    pitch = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(pitch)
    record = json.loads((ROOT / "docs" / "pitch.json").read_text(encoding="utf-8"))
    page = pitch.PAGE.read_text(encoding="utf-8")
    assert filled(page, "pitch.py", pitch.table(record), "anchored_priors.md") == page
    assert record["settings"] == json.loads(json.dumps(asdict(pitch.regression.Settings())))
    away = {float(spread): sum(scores["nll_away"]) for spread, scores in record["tuning"]["spreads"].items()}
    assert min(away, key=away.get) == record["settings"]["spread"] and f"spread={min(away, key=away.get)}" in page


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_what_is_said_beside_the_first_figure_is_in_its_record(page):
    scores = json.loads((ROOT / "docs" / "pitch.json").read_text(encoding="utf-8"))["scores"]
    names = ("anchored mixture", "default mixture", "deep ensemble", "deterministic")
    shares = [f"{100 * scores[name]['picp_95_away']:.0f} %" for name in names]
    text = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert (
        "contain {} of new points away from the data (one seed), those of the default mixture {}".format(*shares)
        in text
    )
    assert "of a deep ensemble {} and of a deterministic network {}".format(*shares[2:]) in text


def test_how_much_the_coverage_of_conformal_intervals_varies():
    rows = 150  # held out, and new
    rank = int(np.ceil(0.95 * (rows + 1)))  # of the score that is taken: the coverage is Beta(rank, rows + 1 − rank)
    inside = stats.betabinom(rows, rank, rows + 1 - rank)
    low, high = 0.91, 0.99
    usual = inside.cdf(np.floor(high * rows)) - inside.cdf(np.ceil(low * rows) - 1)
    assert usual > 0.9 and 1 - inside.cdf(np.ceil((low + 0.02) * rows) - 1) < 0.9
    said = f"in {rows} examples a share between {low} and {high} is usual"
    assert said in " ".join((ROOT / "docs" / "regression.md").read_text(encoding="utf-8").split())


def test_the_readme_is_short():
    assert len(PAGES[0].read_text(encoding="utf-8").splitlines()) <= 150
