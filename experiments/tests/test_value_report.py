"""Sections of predicted numbers: true sentences and figures from records, and rows of other papers as printed."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up import Record, rows_of
from singularbayes_experiments.methods import value_scores
from singularbayes_experiments.problems import air
from singularbayes_experiments.problems.forecast import ForecastSettings
from singularbayes_experiments.records import record
from singularbayes_experiments.report import chapters, literature, published, tables, value_pictures
from singularbayes_experiments.report.sections import SECTIONS, beijing, uci
from singularbayes_experiments.report.table_markdown import markdown

from singularbayes import metrics as metrics_of
from singularbayes.prediction import ValuePredictive

UCI = Path(__file__).parents[2] / "experiments" / "results" / "uci.jsonl"
N = 300


def forecast_record(method="low_rank", seed=42, factor=1.0, **changes):
    """A record whose arrays and metrics belong together; foreign spreads are twice the test's."""
    rng = np.random.default_rng(seed)
    draws = 1 if method == "deterministic" else 20
    spread = np.zeros(N) if draws == 1 else rng.uniform(1, 5, N)
    p = ValuePredictive(rng.normal(90, 40, N), spread, draws, noise=factor * np.full(N, 10.0))
    y = p.mean + 10 * rng.normal(size=N) * np.where(spread > 4, 3, 1)
    ood = ValuePredictive(p.mean, 2 * spread, draws, noise=p.noise)
    metrics = value_scores.of_test(p, y, {"guangzhou": ood})
    metrics |= {name.removeprefix("guangzhou/"): value for name, value in metrics.items()}
    if draws > 1:
        bare = metrics_of.ood_scores(p.std, ood.std)
        metrics |= {f"guangzhou_bare/{name}_epistemic": value for name, value in bare.items()}
    metrics |= {"last_value_mae": 10.92, **changes}
    arrays = value_scores.stored("test", p, y) | value_scores.stored("guangzhou", ood)
    arrays["singular_values/lstm/kernel"] = 0.5 ** np.arange(8.0)
    sizes = {"low_rank": 47_144, "deterministic": 53_569, "deep_ensemble": 267_845}
    settings = {"beta": 0.09, "epochs": 150}
    options = {"preset": "paper", "arrays": arrays}
    return Record("beijing", method, seed, settings, metrics, sizes.get(method, 50_000), 9.0, **options)


def uci_record(method, split, nll):
    metrics = {f"{name}/{score}": nll + split for name in literature.SETS for score in ("rmse", "nll")}
    return Record("uci", method, split, {"epochs": 40}, metrics, 100, 1.0, preset="paper")


@pytest.fixture(scope="module")
def chapter():
    """All tables and figures of a few made-up runs; drawing takes long, and is done once."""
    records = [forecast_record(method, seed) for method in ("low_rank", "deterministic") for seed in (42, 123)]
    (made,) = chapters.make_chapters([*records, forecast_record("low_rank_8"), forecast_record("deep_ensemble")])
    return made


def test_the_section_has_every_table_and_every_figure_of_the_paper(chapter):
    titles = [table.title for table in chapter.parts[0].tables]
    assert titles == [columns.title for columns in SECTIONS["beijing"].tables]
    drawn = {picture.name for picture in chapter.pictures}
    figures = {"intervals-total", "intervals-epistemic", "selective", "std-guangzhou", "radar", "pareto", "ranks"}
    assert drawn == {*figures, "rank-radar", "singular-values"} and len(chapter.pictures) == len(drawn)
    assert not chapter.left_out


def test_guangzhou_without_mapped_columns_has_a_table_of_its_own_with_the_scores_of_the_mapped_one(chapter):
    mapped, bare = (
        next(table for table in chapter.parts[0].tables if table.title == title)
        for title in ("Out-of-distribution cities", "Guangzhou without the mapped columns")
    )
    names = [measure.name.removeprefix("guangzhou_bare/") for measure in bare.measures]
    assert names == [measure.name for measure in mapped.measures][:4]
    assert {wind for wind in air.FOREIGN_WINDS if air.FOREIGN_WINDS[wind] != wind} == {"SW"}
    assert "SW, which Beijing's table does not have, is cv" in bare.note
    # What scores that know nothing get: the share of out-of-distribution windows.
    rows, (_, _, test), every = 20_074, ForecastSettings().windows, ForecastSettings().every
    windows = np.arange(rows - ForecastSettings().hours)
    for table, ood in ((mapped, windows), (bare, windows[::every])):
        blind = metrics_of.ood_scores(np.zeros(test), np.zeros(len(ood)))
        assert f"an AUPR of {blind['aupr_ood']:.3f}," in table.note and "an AUROC of 0.5," in table.note


def test_what_swag_stores_stands_beside_the_papers_size():
    one = replace(forecast_record("swag"), parameters=53_569, stored=1_124_949)
    (chapter,) = chapters.make_chapters([one])
    table = chapter.parts[0].tables[0]
    cells = {measure.name: cell for measure, cell in zip(table.measures, table.rows[0].cells, strict=True)}
    assert (cells["num_trained"].ours, cells["num_trained"].paper) == ("53,569", "")
    assert (cells["num_stored"].ours, cells["num_stored"].paper) == ("1,124,949", "1.18M")


def test_the_ranks_are_those_of_the_recurrent_kernels(chapter):
    (ranks,) = [picture for picture in chapter.pictures if picture.name == "ranks"]
    assert ranks.caption.startswith("The low-rank network at ranks of 8 and 20;") and "14 in the first" in ranks.caption


def test_the_papers_numbers_stand_below_ours(chapter):
    shown = "".join(markdown(table) for table in chapter.parts[0].tables)
    for said in ("paper 10.63 ± 0.20", "paper 0.790 ± 0.006", "paper 0.710 ± 0.021", "paper 9.43", "paper 0.104"):
        assert said in shown


def test_a_method_without_a_spread_is_left_out_of_figures_of_spreads(chapter):
    pictures = {picture.name: picture for picture in chapter.pictures}
    assert len(pictures["std-guangzhou"].panels) == 2 and "deterministic" in pictures["intervals-total"].panels[0].alt
    assert "deterministic" not in pictures["selective"].panels[0].alt
    with pytest.raises(ValueError, match="no prediction has a spread"):
        value_pictures.selective("g")(rows_of([forecast_record("deterministic")]))


def test_the_calibration_says_the_error_of_the_record():
    row = rows_of([forecast_record(), forecast_record("deep_ensemble", factor=30.0)])
    said = value_pictures.calibration("total")(row).caption
    good, bad = (each.first.metrics["calibration_error_total"] for each in row)
    assert f"{good:.3f} for low-rank and {bad:.3f} for deep ensemble" in said and good < bad


def test_the_histograms_say_the_auroc_of_the_record_in_their_unit():
    (row,) = rows_of([forecast_record()])
    picture = value_pictures.histograms("guangzhou", "Guangzhou", "g/l")([row])
    auroc = row.first.metrics["auroc_ood_epistemic"]
    assert f"It is {auroc:.3f} for low-rank" in picture.caption and "g/l for test examples" in picture.panels[0].alt


@pytest.mark.parametrize(
    ("mae", "other", "expected"),
    [
        (10.5, 10.4, "MAE of 10.50 µg/m³.*the lowest MAE is 10.40, deep ensemble with 267,845 parameters. Predicting"),
        (
            10.3,
            10.4,
            "MAE of 10.30 µg/m³.*no other method has a lower MAE. Predicting the last hour's value has an MAE of 10.92",
        ),
    ],
)
def test_the_sentence_says_who_has_the_least_error(mae, other, expected):
    rows = rows_of([forecast_record(mae=mae), forecast_record("deep_ensemble", mae=other)])
    assert re.search(expected, beijing.SECTION.finding(rows))
    assert beijing.SECTION.finding(rows[1:]) == ""


def test_other_papers_have_rows_of_their_own_below_ours_as_printed():
    (columns, *_) = uci.SECTION.tables
    table = tables.make(rows_of([uci_record("low_rank", split, 1.0) for split in range(3)]), columns, {})
    names = [row.name for row in table.rows]
    assert names[0] == "low-rank" and [row.seeds for row in table.rows] == [3, 20, 20, 20]
    assert names[2] == "MC dropout (Gal and Ghahramani 2016)"
    first = list(literature.SETS).index("concrete")
    assert (table.rows[2].cells[first].ours, table.rows[2].cells[first].error) == ("5.23", "± 0.53")
    assert "| 5.67 ± 0.09 |" in markdown(table) and table.rows[0].cells[first].ours == "2.00"
    nll = tables.make(rows_of([uci_record("low_rank", 0, 1.0)]), uci.SECTION.tables[1], {})
    assert [row.cells[3].ours for row in nll.rows[1:]] == ["−0.90", "−0.95", "−1.20"]  # kin8nm, with a minus sign


def test_every_published_row_has_a_number_for_every_set_and_they_differ_between_methods():
    for measure in ("rmse", "nll"):
        rows = literature.uci(measure)
        assert all(set(row.numbers) == {f"{name}/{measure}" for name in literature.SETS} for row in rows)
        assert len({tuple(row.numbers.values()) for row in rows}) == 3
    assert not published.numbers("uci")


def test_the_defaults_of_the_small_sets_are_not_called_the_papers():
    (made,) = chapters.make_chapters([uci_record("low_rank", split, 1.0) for split in range(2)])
    assert [part.label for part in made.parts] == ["Default settings"]
    assert all("(protein: 5)" in table.note for table in made.parts[0].tables[:2])


def test_the_sentence_of_the_small_sets_counts_the_least_nll():
    rows = rows_of([uci_record("low_rank", 0, 1.0), uci_record("full_rank", 0, 2.0)])
    said = "Of the methods run here low-rank has the lowest mean NLL on 9 (Boston housing, concrete,"
    assert uci.SECTION.finding(rows).startswith(said)
    assert uci.SECTION.finding(rows[:1]) == ""
    first, second = uci_record("low_rank", 0, 1.0), uci_record("full_rank", 0, 2.0)
    second.metrics["yacht/nll"] = 0.5
    said = uci.SECTION.finding(rows_of([first, second]))
    assert said.startswith("Of the methods run here low-rank has the lowest mean NLL on 8 (") and said.endswith(
        ") and full-rank on 1 (yacht)."
    )


def test_medians_over_splits_do_not_see_one_bad_split_and_say_no_error_of_a_mean():
    records = [uci_record("low_rank", split, 1.0) for split in range(4)] + [uci_record("low_rank", 100, 1.0)]
    means, medians = (
        next(columns for columns in uci.SECTION.tables if columns.title == title)
        for title in ("RMSE", "RMSE, medians over splits")
    )
    assert [measure.name for measure in means.measures] == [measure.name for measure in medians.measures]
    (row,) = tables.make(rows_of(records), medians, {}).rows
    assert {(cell.ours, cell.error) for cell in row.cells} <= {("3.00", ""), ("3.000", ""), ("3.0000", "")}
    assert row.seeds == 5 and "standard error" not in tables.make(rows_of(records), medians, {}).caption
    assert tables.make(rows_of(records), means, {}).rows[0].cells[0].ours == "22.20"


@pytest.mark.skipif(not UCI.exists(), reason="no records are committed")
def test_what_is_said_of_bad_splits_is_so_in_the_records():
    records = record.read(UCI, arrays=False)

    def scores(method, metric):
        return np.sort([one.metrics[metric] for one in records if one.method == method and metric in one.metrics])

    low = {name: scores("low_rank", f"{name}/rmse") for name in ("energy", "concrete", "yacht")}
    energy = scores("deep_ensemble", "energy/nll")
    (said,) = (note for note in uci.SECTION.notes if "single split" in note)
    above = (low["energy"] >= 0.9).sum(), len(low["energy"]), low["energy"].max(), (low["concrete"] > 7.8).sum()
    assert "0.9 and more on energy on {} of {} splits, up to {:.1f}, above 7.8 on concrete on {}".format(*above) in said
    assert f"about 5 on yacht on {(np.round(low['yacht']) == 5).sum()}; the ensemble" in said and low["yacht"][-3] < 3
    assert f"an NLL above 4.7 on energy on {(energy > 4.7).sum()}." in said
    protein = [scores(method, "protein_tertiary_structure/rmse") for method in ("low_rank", "deep_ensemble")]
    worst = "an RMSE of {:.1f} with low-rank and of {:.1f} with the ensemble; the other four are below 6"
    assert worst.format(*(values[-1] for values in protein)) in said and max(values[-2] for values in protein) < 6
    boston = scores("deep_ensemble", "boston_housing/nll")
    assert f"NLL on Boston ({boston[-1]:.1f}; the others are below 7)" in said and boston[-2] < 7
