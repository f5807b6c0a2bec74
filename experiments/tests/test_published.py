"""The paper's numbers: read as printed, and the same as in the paper's source where that is at hand."""

import re
from pathlib import Path

import pytest
from singularbayes_experiments.report.published import TABLES, Number, numbers
from singularbayes_experiments.report.published.profile import profile

# Every table that the paper labels; two more, of theorems and of the toy's RMSE, have no label.
LABELS = [
    "tab:mimic",
    "tab:lstm_results",
    "tab:sst2",
    "tab:sst2_profile_main",
    "tab:related_work",
    "tab:loss_constants",
    "tab:mimic_models",
    "tab:lstm_models",
    "tab:sst2_models",
    "tab:mimic_time",
    "tab:calibration_auc",
    "tab:selective_pred_lstm",
    "tab:sst2_profile_appendix",
    "tab:sst2_rank_sweep",
    "tab:training_times",
    "tab:ood_std_vs_mi",
    "tab:sst2_lowrank_ensemble",
    "tab:swag_sst2",
    "tab:swag_mimic",
    "tab:swag_beijing",
    "tab:param_counts_mnist",
    "tab:results_mnist",
    "tab:ece_robustness",
    "tab:results_fmnist",
    "tab:ece_robustness_fmnist",
    "tab:toy_iqr",
]
SOURCE = Path(__file__).parents[3] / "shared" / "paper" / "paper.tex"
NAMES = {
    "full_rank": r"(?:Full-Rank|FR-BBB)",
    "low_rank": r"(?:Low-Rank|LR-BBB)(?! (?:Laplace|SVD|\(SVD\)|Bayesian|BBB \(single run\)))",
    "low_rank_laplace": "Low-Rank Laplace",
    "low_rank_svd": r"(?:LR-SVD|Low-Rank \(SVD\)|Low-Rank (?:Gaussian )?SVD)",
    "low_rank_ensemble": "Low-Rank Bayesian Ensemble",
    "rank_one": "(?:Rank-1|R1-BBB)",
    "deterministic": "(?:Deterministic|Det\\.|Baseline Transformer)",
    "deep_ensemble": "(?:Deep Ens|DE )",
    "swag": "SWAG",
}


@pytest.mark.parametrize(
    ("printed", "value", "rounding"),
    [
        ("98.15%", 0.9815, 0.00005),
        ("4,788,010", 4788010, 0.5),
        ("112k", 112_000, 500),
        (".895", 0.895, 0.0005),
        ("337.8MB", 337_800_000, 50_000),
        ("5.06s", 5.06, 0.005),
    ],
)
def test_a_number_is_read_as_it_is_printed(printed, value, rounding):
    number = Number(printed, None, "")
    assert number.value == pytest.approx(value, rel=1e-12) and number.rounding == pytest.approx(rounding, rel=1e-12)


def test_minutes_are_seconds_of_a_record():
    times = numbers("sst2")
    assert times["low_rank", "train_seconds"].value == pytest.approx(8.22 * 60, rel=1e-12)
    assert times["swag", "train_seconds"].value == 1593.4  # that table has seconds


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


def test_every_table_of_the_paper_is_there_once():
    labels = [table.label for table in TABLES if table.label.startswith("tab:")]
    assert sorted(labels) == sorted(LABELS) and len(LABELS) == 26


@pytest.mark.skipif(not SOURCE.is_file(), reason="the paper's source is not at hand")
def test_the_labels_are_those_of_the_papers_source():
    assert re.findall(r"\\label\{(tab:[^}]+)\}", SOURCE.read_text(encoding="utf-8")) == LABELS


def test_a_marked_size_is_not_that_of_five_members():
    (models,) = (table.numbers() for table in TABLES if table.label == "tab:mimic_models")
    sizes = {method: number for (method, _), number in models.items()}
    assert {method for method, number in sizes.items() if number.wrong} == {"deep_ensemble"}
    one, five = sizes["deterministic"], sizes["deep_ensemble"]
    assert abs(five.value - 5 * one.value) > 5 * one.rounding + five.rounding
    assert abs(numbers("mimic3")["deep_ensemble", "num_trained"].value - 112_005) < 500  # of the table that counts


def test_the_profile_of_the_appendix_repeats_that_of_the_main_text():
    main, more = profile("tab:sst2_profile_main"), profile("tab:sst2_profile_appendix")
    assert main.items() <= more.items() and more.keys() - main.keys() == {"deterministic"}


def test_the_sizes_of_the_rank_sweep_are_those_of_its_ranks():
    (sweep,) = (table.numbers() for table in TABLES if table.label == "tab:sst2_rank_sweep")
    for (ranks, measure), number in sweep.items():
        if measure == "num_trained":
            embedding, rank = map(int, ranks.split(","))
            size = 61_556 * embedding + (28_672 + 516) * rank + 18_436
            assert abs(size - number.value) <= number.rounding


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
        name = NAMES.get(method, method.replace(",", " & "))  # two ranks are two columns
        row = re.compile(name + r"[^&]*&(?:(?!bottomrule|Rank-1|SWAG|Deep).)*?" + r".{0,40}?".join(wanted))
        assert row.search(whole), f"{method} {printed} is not in {whole[:300]}"


@pytest.mark.skipif(not SOURCE.is_file(), reason="the paper's source is not at hand")
def test_the_toy_rmse_stands_in_the_paper():
    text = SOURCE.read_text(encoding="utf-8")
    found = dict(re.findall(r"(Full|Low)-Rank BNN & 0\.\d+ & (0\.\d+)", text))
    toy = numbers("toy")
    assert found == {"Full": toy["full_rank", "rmse_test"].printed, "Low": toy["low_rank", "rmse_test"].printed}
