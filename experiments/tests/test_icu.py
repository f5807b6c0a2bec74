"""Intensive care: features by an independent implementation, splits that keep apart what they say, published sizes."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up import Answers, scored_by_hand
from singularbayes_experiments import data
from singularbayes_experiments.methods.weights import Weights
from singularbayes_experiments.problems import icu, icu_features, mimic3, mimic3_features, mortality
from singularbayes_experiments.problems.icu_features import APACHE, FEATURES, SIGNS
from singularbayes_experiments.problems.mortality_scaling import REACH, FeatureScaling
from singularbayes_experiments.records import record
from singularbayes_experiments.runs import runner, together

import singularbayes as sb
from singularbayes.models import count_trained

pytestmark = pytest.mark.on_torch

needs_data = pytest.mark.skipif(
    not os.environ.get("SINGULARBAYES_DATA"), reason="needs $SINGULARBAYES_DATA, a folder with the data sets"
)

# -- scaling ---------------------------------------------------------------------------------------------------------


def test_outliers_and_gaps_become_the_median_and_training_fills_the_unit_interval():
    column = np.array([0.0, 1, 2, 3, 4, 1000, np.nan])  # quartiles 1.25 and 3.75, so up to 23.75 counts
    scaled = FeatureScaling.of(column[:, None])(column[:, None])[:, 0]
    assert REACH == 8
    np.testing.assert_allclose(scaled, [0, 0.25, 0.5, 0.75, 1, 2.5 / 4, 2.5 / 4])
    ood = FeatureScaling.of(column[:, None])(np.array([[20.0], [24.0], [-20.0]]))[:, 0]
    np.testing.assert_allclose(ood, [5, 2.5 / 4, 2.5 / 4])  # beyond training is not clipped, an outlier is filled


def test_a_deviation_as_the_unit_makes_training_of_mean_0_and_deviation_1():
    x = np.random.default_rng(0).normal(5, 3, (200, 2))
    x[::7, 0] = np.nan
    scaled = FeatureScaling.of(x, "deviation")(x)
    np.testing.assert_allclose([scaled.mean(axis=0), scaled.std(axis=0)], [[0, 0], [1, 1]], atol=1e-6)


def test_a_feature_of_mostly_one_value_keeps_the_others():
    column = np.array([1.0] * 9 + [0.0])[:, None]
    np.testing.assert_array_equal(FeatureScaling.of(column)(column), column)


def test_a_feature_that_training_never_saw_says_nothing():
    scaling = FeatureScaling.of(np.array([[1.0, np.nan], [3.0, np.nan]]))
    np.testing.assert_array_equal(scaling(np.array([[2.0, 7.0], [np.nan, np.nan]])), [[0.5, 0], [0.5, 0]])


# -- PhysioNet and eICU ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def set_a():
    return data.physionet2012("a").sets["a"]


@needs_data
def test_features_are_those_of_an_independent_implementation(set_a):
    stays = icu_features.physionet("a")
    ids = set_a.outcomes.index[:40]
    records = set_a.records[set_a.records["RecordID"].isin(ids)]
    hours = records["Time"].astype(str).str.split(":").str[0].astype(int)
    first_day = (hours < 24) | (records["Time"] == "24:00")
    for sign in SIGNS:
        rows = records["Parameter"].isin(sign.parameters) & records["Value"].between(sign.low, sign.high)
        values = records[rows].groupby("RecordID")["Value"]
        expected = {
            "mean": values.mean().reindex(ids),
            "sd": values.std().reindex(ids),
            "sum": values.sum().reindex(ids),
            "any": values.count().reindex(ids).fillna(0).clip(upper=1),
        }
        for statistic in sign.statistics:
            column = stays.features[:40, FEATURES.index(f"{sign.name}_{statistic}")]
            np.testing.assert_allclose(column, expected[statistic], rtol=1e-9, atol=1e-9, err_msg=sign.name)
        if sign in APACHE and sign.statistics[0] not in ("sum", "any"):
            early = records[rows & first_day].groupby("RecordID")["Value"]
            below, above = sign.normal - early.min(), early.max() - sign.normal
            furthest = np.maximum(below, above).reindex(ids)
            column = stays.apache[:40, APACHE.index(sign)]
            np.testing.assert_allclose(np.abs(column - sign.normal), furthest, rtol=1e-9, err_msg=sign.name)
    assert stays.died.sum() == 554
    assert np.bincount(stays.unit)[1:].tolist() == [577, 874, 1481, 1068]


def test_44_features_and_23_shared_ones():
    assert len(FEATURES) == len(set(FEATURES)) == 44
    assert len(APACHE) == 23


@needs_data
def test_the_eicu_demo_is_in_the_units_of_physionet():
    elsewhere, here = icu_features.eicu(), icu_features.physionet("a")
    assert elsewhere.features.shape == (2205, 23) and np.nansum(elsewhere.died) == 196
    low, high = np.nanquantile(here.apache, [0.01, 0.99], axis=0)
    middle = np.nanmedian(elsewhere.features, axis=0)
    assert ((middle >= low) & (middle <= high)).all()


@needs_data
def test_the_shares_that_the_page_names_are_those_of_the_data():
    """Those of set a, a third of the stays, are a percent from those of all at most."""
    page = (Path(__file__).parents[2] / "docs" / "intensive_care.md").read_text(encoding="utf-8")
    records = data.physionet2012("a").sets["a"].records
    for parameter, said in (
        ("RespRate", "only 28 % of PhysioNet's stays have a respiratory rate"),
        ("Cholesterol", "Cholesterol, which 8 % of the stays have"),
    ):
        measured = records[(records["Parameter"] == parameter) & (records["Value"] > 0)]["RecordID"].nunique()
        assert said in " ".join(page.split())
        assert measured / 4000 == pytest.approx(int(said.split(" %")[0].split()[-1]) / 100, abs=0.01)


# -- splits ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def only_a(monkeypatch):
    """Set a alone, its last thousand stays as if they were set c: a third of the time to read."""
    stays = icu_features.physionet("a")
    named = replace(stays, sets=np.where(np.arange(4000) < 3000, "a", "c"))
    monkeypatch.setattr(icu_features, "physionet", lambda: named)
    icu.split.cache_clear()
    yield named
    icu.split.cache_clear()


@needs_data
def test_a_shift_trains_on_no_stay_of_its_kind_and_tests_on_another_set(only_a):
    kinds = np.bincount(only_a.unit)
    for shift, kind in icu.SHIFTS.items():
        sets = icu.split(shift)
        known = np.ones(4000, bool) if kind is None else only_a.unit != kind
        used = known & (only_a.sets == "a")
        assert len(sets.train[0]) + len(sets.validation[0]) == used.sum()
        assert len(sets.validation[0]) == pytest.approx(used.sum() / 5, abs=8)
        assert len(sets.test[0]) == (known & (only_a.sets == "c")).sum()
        assert len(sets.ood[0]) == (2205 if kind is None else kinds[kind])
        assert sets.train[0].min() == 0 and sets.train[0].max() == 1
        assert sets.train[0].shape[1] == (23 if kind is None else 44)
        assert sets.validation[1].mean() == pytest.approx(sets.train[1].mean(), abs=0.005)  # by outcome


def test_a_preset_is_run_with_every_shift():
    jobs = runner.plan("icu", ["low_rank", "deterministic"], [3], "paper")
    assert [(job.method, job.settings.shift) for job in jobs] == [
        (method, shift) for method in ("low_rank", "deterministic") for shift in icu.SHIFTS
    ]
    assert {job.settings.epochs for job in jobs if job.method == "deterministic"} == {32}
    assert [s.shift for s in together.preset_settings(icu.EXPERIMENT, "chosen", "swag")] == list(icu.SHIFTS)
    assert len(together.preset_settings(icu.EXPERIMENT, "trial", "swag")) == 4
    by_hand = runner.plan("icu", ["low_rank"], [3], "paper", ["shift=eicu"])
    assert [(job.preset, job.settings.shift) for job in by_hand] == [("hand", "eicu")]


def test_every_method_has_four_configurations_without_class_weights():
    for method in icu.TRIED:
        found = list(icu.EXPERIMENT.configurations.settings(method).values())
        assert len(found) == len(set(found)) == 4
        assert not any(settings.class_weights for settings in found)
        assert {settings.scaling for settings in found} == {"range", "deviation"}
    assert icu.TUNED.keys() == icu.EXPERIMENT.methods.keys() == mimic3.TUNED.keys()


TRIALS = Path(__file__).parents[2] / "experiments" / "results" / "icu_trials.jsonl"


@pytest.mark.skipif(not TRIALS.is_file(), reason="the trials are not committed")
def test_the_committed_choice_is_that_of_the_committed_trials():
    trials = record.read(TRIALS, arrays=False)
    assert all(one.preset == "trial" and one.settings["shift"] == "coronary" for one in trials)
    assert all(name.startswith(("validation_", "posterior_")) for one in trials for name in one.metrics)
    assert icu.EXPERIMENT.configurations.best(trials) == icu.CHOICE


# -- networks and scores ---------------------------------------------------------------------------------------------


class MadeUp(mortality.MortalityProblem):
    """A hundred stays with 44 features."""

    name = "made_up"
    paper = mortality.published(mortality.MortalitySettings())

    def sets(self, settings):
        x = np.random.default_rng(0).random((100, 44)).astype("float32")
        ends = np.split(np.arange(100), [50, 75, 90])
        train, validation, test, ood = ((x[rows], (x[rows, 0] > 0.7).astype(int)) for rows in ends)
        return mortality.MortalitySets(train, validation, test, ood)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("deterministic", 22_401), ("full_rank", 44_802), ("low_rank", 13_612), ("rank_one", 23_257)],
)
def test_networks_have_the_published_sizes(kind, parameters):
    settings = mortality.MortalitySettings()
    assert count_trained(MadeUp().network(Weights(kind, settings), settings)) == parameters


def test_a_rank_above_the_number_of_features_is_that_number():
    settings = mortality.MortalitySettings(rank=60)
    found = [
        q.rank
        for q in sb.find_posteriors(MadeUp().network(Weights("low_rank", settings), settings))
        if "rank" in vars(q)
    ]
    assert found == [44, 60, 1]


def test_the_papers_point_networks_train_for_fewer_epochs_and_that_is_no_departure():
    problem = MadeUp()
    assert problem.published("deep_ensemble").epochs == 32 and problem.published("low_rank").epochs == 256
    settings = replace(problem.published("swag"), draws=2)
    assert record.departures(settings, problem.published("swag")) == {"draws": 512}
    assert record.departures(settings) == {"draws": 512, "epochs": 256}


def test_a_weighted_network_learns_the_weighted_odds_and_dividing_them_undoes_it():
    """On one feature that says nothing the logit is that of the weighted share of deaths."""
    labels = np.array([1] * 20 + [0] * 80)
    weight = mortality.death_weight(labels)
    weighted = (weight * 20) / (weight * 20 + 80)
    p = sb.ClassPredictive(np.tile([1 - weighted, weighted], (100, 1)), np.zeros((100, 2)), 1)
    np.testing.assert_allclose(mortality.without_weight(p, weight).mean[:, 1], 0.2)
    training = MadeUp().training(mortality.MortalitySettings())
    y = training.y[:, 0]
    assert training.weight[y == 1].sum() == pytest.approx(len(y), rel=1e-5) and (training.weight[y == 0] == 1).all()
    assert MadeUp().training(mortality.MortalitySettings(class_weights=False)).weight is None


def test_every_part_is_scored_by_its_own_stays_and_labels():
    ask, problem, settings = Answers(2), MadeUp(), mortality.MortalitySettings()
    found, _ = problem.tested(ask, settings)
    sets = problem.sets(settings)
    expected = scored_by_hand(ask.given, sets.test[1], sets.validation[1], ask.given["foreign"])
    assert "recalibrated_temperature" in expected
    assert {name: found[name] for name in expected} == pytest.approx(expected)
    corrected = mortality.without_weight(ask.given["test"], mortality.death_weight(sets.train[1]))
    nll = sb.metrics.negative_log_likelihood(corrected.mean, sets.test[1])
    assert found["unweighted_nll"] == pytest.approx(nll)
    again = Answers(2)
    trial = problem.validated(again, settings)
    assert list(again.given) == ["validation"] and len(again.given["validation"]) == len(sets.validation[1])
    nll = sb.metrics.negative_log_likelihood(again.given["validation"].mean, sets.validation[1])
    assert trial["validation_nll"] == pytest.approx(nll)


def test_a_record_has_the_draws_of_its_seed_and_departs_from_what_the_paper_has_for_its_method():
    problem, settings = MadeUp(), replace(MadeUp().published("full_rank"), draws=3, units=(8,), rank=2)
    model = problem.network(Weights("full_rank", settings), settings)
    model.compile(loss=mortality.death_loss())
    found = problem._record("full_rank", 7, settings, model, "chosen")
    sets = problem.sets(settings)
    y, start = sets.test[1], len(sets.validation[1])
    p = sb.predict(model, np.concatenate([sets.validation[0], sets.test[0], sets.ood[0]]), 3, seed=7)
    nll = sb.metrics.negative_log_likelihood(p.mean[start : start + len(y)], y)
    assert found.metrics["nll"] == pytest.approx(nll)
    assert set(found.paper) == {"draws", "units", "rank"}
    assert problem.published("full_rank") != mortality.MortalitySettings()  # else the defaults would do


@pytest.mark.parametrize("problem", [mimic3, icu], ids=["mimic3", "icu"])
def test_damping_is_of_low_rank_means_and_full_rank_ones_start_wide(problem):
    paper = problem.EXPERIMENT.problem.paper
    kinds = ("low_rank", "full_rank", "rank_one")
    assert [Weights(kind, paper[kind])(15).damping for kind in kinds] == [0.55, 1.0, 1.0]
    assert {method for method, settings in paper.items() if settings.full_rank_start} == {"full_rank"}


# -- the page --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "module"), [("mimic3", mimic3_features), ("icu", icu_features)])
def test_the_tables_of_the_page_are_those_of_the_code(name, module):
    page = (Path(__file__).parents[2] / "docs" / "intensive_care.md").read_text()
    assert page.split(f"<!-- {name} -->\n")[1].split("\n<!-- end -->")[0] == module.markdown()
