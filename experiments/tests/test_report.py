"""The report: false claims and gaps fail, pages keep their limits, and committed pages are those of the records."""

import shutil

import pandas as pd
import pytest
from jinja2 import DictLoader, UndefinedError
from singularbayes_experiments.records import connect
from singularbayes_experiments.report import render, tables
from singularbayes_experiments.report.results import Missing, Numbers


@pytest.fixture(scope="module")
def numbers() -> Numbers:
    return Numbers(connect())


def rendered(numbers: Numbers, text: str) -> str:
    """Returns a page of one template."""
    made = render.environment(numbers)
    made.loader = DictLoader({"page": text})
    return made.get_template("page").render()


def test_a_claim_that_the_records_contradict_fails(numbers):
    claim = '{{ require(problem("mnist").side("mixture_repeat") == "%s") }}The mixture is worse.'
    assert rendered(numbers, claim % "worse") == "The mixture is worse."
    with pytest.raises(render.FalseClaim):
        rendered(numbers, claim % "better")


@pytest.mark.parametrize("claim", ["mixture_repeat", "mixture_svd"])
def test_the_claims_of_a_page_depend_on_its_records(numbers, claim, monkeypatch):
    page = render.render("mnist", numbers)
    assert "The mixture of five low-rank networks" in page
    key = ("mnist", "mnist", "protocol", claim, "nll")
    monkeypatch.setitem(numbers._values, key, {seed: -1.0 - seed for seed in numbers.values(*key).index})
    with pytest.raises(render.FalseClaim):
        render.render("mnist", numbers)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{{ problem("mnist").nll("no_such_method") }}', Missing),
        ('{{ numbers.mean("mnist", "mnist", "protocol", "low_rank", "no_such_score") }}', Missing),
        ("{{ no_such_name }}", UndefinedError),
        ('{{ numbers.chosen("mnist", "mnist", "chosen", "mixture_svd")[0] }}', Missing),
    ],
)
def test_a_missing_value_fails(numbers, text, error):
    with pytest.raises(error):
        rendered(numbers, text)


def test_pages_keep_their_limits(numbers, monkeypatch):
    assert render.words(render.render("paper_tables", numbers)) > render.WORDS  # its own limit holds there
    monkeypatch.setattr(render, "WORDS", 400)
    with pytest.raises(ValueError, match="mnist must have 400 words or fewer"):
        render.render("mnist", numbers)
    monkeypatch.setattr(render, "WORDS", 1200)
    monkeypatch.setattr(render, "MOST_LINES", 20)
    with pytest.raises(ValueError, match="summary must have 20 lines"):
        render.render("index", numbers)
    with pytest.raises(ValueError, match="13 rows or fewer; got 14"):
        render.markdown(pd.DataFrame({"a": range(14)}))


def test_pages_and_figures_are_those_of_the_records_and_check_sees_a_change(tmp_path):
    shutil.copytree(render.DOCS / "results", tmp_path / "results")
    assert render.report(docs=tmp_path, check=True) == []
    page = tmp_path / "results" / "mnist.md"
    page.write_text(page.read_text("utf8").replace("0.0456", "0.0400"), "utf8")
    (tmp_path / "results" / "toy.svg").unlink()
    (tmp_path / "results" / "older.md").write_text("A page without a template.", "utf8")
    changed = ["mnist.md", "older.md", "toy.svg"]
    assert render.report(docs=tmp_path, check=True) == changed
    assert render.report(docs=tmp_path) == changed
    assert render.report(docs=tmp_path, check=True) == []


def test_tables_are_printed_as_latex(capsys):
    assert render.report(latex=True) == []
    printed = capsys.readouterr().out
    assert printed.count(r"\begin{tabular}") == len(tables.COLUMNS)
    assert "0.0456 ± 0.0003" in printed
