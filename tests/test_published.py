"""The paper's numbers: read as printed, and the same as in the paper's source where that is at hand."""

import re
from pathlib import Path

import pytest

from singularbayes.report.published import TABLES, Number, numbers

SOURCE = Path(__file__).parents[2] / "shared" / "paper" / "paper.tex"
NAMES = {
    "full_rank": r"Full-Rank",
    "low_rank": r"Low-Rank(?! (?:Laplace|SVD|\(SVD\)|Bayesian))",
    "low_rank_laplace": "Low-Rank Laplace",
    "low_rank_svd": r"(?:LR-SVD|Low-Rank \(SVD\)|Low-Rank (?:Gaussian )?SVD)",
    "low_rank_ensemble": "Low-Rank Bayesian Ensemble",
    "rank_one": "Rank-1",
    "deterministic": "Deterministic",
    "deep_ensemble": "Deep Ens",
    "swag": "SWAG",
}


@pytest.mark.parametrize(
    ("printed", "value", "rounding"),
    [("98.15%", 0.9815, 0.00005), ("4,788,010", 4788010, 0.5), ("112k", 112_000, 500), (".895", 0.895, 0.0005)],
)
def test_a_number_is_read_as_it_is_printed(printed, value, rounding):
    number = Number(printed, None, "")
    assert number.value == pytest.approx(value, rel=1e-12) and number.rounding == pytest.approx(rounding, rel=1e-12)


def test_what_is_no_number_is_refused():
    with pytest.raises(ValueError, match=r"needs digits, such as 98\.15% or 22\.4k; got 'n/a'"):
        _ = Number("n/a", None, "").value


def test_only_the_mnist_brier_scores_of_the_image_experiments_cannot_be_right():
    wrong = {
        (table.experiment, *key)
        for table in TABLES
        for key, number in table.numbers().items()
        if number.wrong and table.experiment in ("toy", "mnist", "fashion_mnist")
    }
    assert wrong == {("mnist", m, "brier") for m in ("full_rank", "low_rank", "low_rank_laplace", "rank_one")}


def test_a_marked_brier_score_is_below_what_its_accuracy_allows():
    """A sum over classes of squared errors is at least half the error rate; class means of ten are not."""
    for experiment, possible in (("mnist", False), ("fashion_mnist", True)):
        found = numbers(experiment)
        for method in ("full_rank", "low_rank", "low_rank_laplace", "rank_one"):
            least = 0.5 * (1 - found[method, "accuracy"].value)
            assert (found[method, "brier"].value >= least) == possible
            assert bool(found[method, "brier"].wrong) == (not possible)


def test_an_experiment_that_the_paper_lacks_has_no_numbers():
    assert numbers("kl_study") == {}


def _plain(label: str) -> str:
    """A table of the paper's source on one line, with all marks of style taken off."""
    text = SOURCE.read_text(encoding="utf-8")
    at = text.index(f"\\label{{{label}}}")
    begin = text.rindex(r"\begin{table}", 0, at)
    body = text[begin : text.index(r"\end{table}", at)]
    body = re.sub(r"\\(?:textbf|underline|mathbf|cellcolor|bfseries)\b", "", body).replace("oursblue", "")
    plain = re.sub(r"[{}$\\]", "", body).replace("_pm", "±").replace("times", "").replace("± ", "±")
    return " ".join(plain.split())


@pytest.mark.skipif(not SOURCE.is_file(), reason="the paper's source is not at hand")
@pytest.mark.parametrize("table", [t for t in TABLES if t.label.startswith("tab:")], ids=lambda t: t.label)
def test_every_number_stands_in_the_papers_table_in_the_row_of_its_method(table):
    whole = _plain(table.label)
    for line in table.lines.strip().splitlines():
        method, *printed = line.split()
        wanted = [re.escape(text) for text in printed if text != "–"]
        # The numbers of a row in their order, columns that are left out between them.
        row = re.compile(NAMES[method] + r"[^&]*&(?:(?!bottomrule|Rank-1|SWAG|Deep).)*?" + r".{0,40}?".join(wanted))
        assert row.search(whole), f"{method} {printed} is not in {whole[:300]}"


@pytest.mark.skipif(not SOURCE.is_file(), reason="the paper's source is not at hand")
def test_the_toy_rmse_stands_in_the_paper():
    text = SOURCE.read_text(encoding="utf-8")
    found = dict(re.findall(r"(Full|Low)-Rank BNN & 0\.\d+ & (0\.\d+)", text))
    toy = numbers("toy")
    assert found == {"Full": toy["full_rank", "rmse_test"].printed, "Low": toy["low_rank", "rmse_test"].printed}
