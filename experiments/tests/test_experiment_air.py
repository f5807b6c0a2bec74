"""Beijing: windows in the order of time, other cities in its terms, scores in µg/m³, and the published network."""

import os

import made_up_air
import numpy as np
import pytest
import tiny
from singularbayes_experiments import config, data, records
from singularbayes_experiments.methods import Weights
from singularbayes_experiments.problems import air

from singularbayes.models import count_trained
from singularbayes.prediction import ValuePredictive

HOURS, SIZES = 6, (200, 60, 50)
PLACE = {name: i for i, name in enumerate(air.FEATURES)}
PAPER = config.read("beijing").chosen("paper", "low_rank")[1]
needs_data = pytest.mark.skipif("SINGULARBAYES_DATA" not in os.environ, reason="needs $SINGULARBAYES_DATA")


@pytest.fixture(scope="module")
def rows():
    return air.rows_of(made_up_air.beijing())


def test_a_window_is_the_standardised_rows_before_its_target(rows):
    parts, scaling = air.split(rows, SIZES, HOURS)
    x, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("x", "y"))
    for i in (0, 199, 200, 259, 260, 309):
        np.testing.assert_allclose(x[i], (rows[i : i + HOURS] - scaling.mean) / scaling.std, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(scaling.micrograms(y), rows[HOURS : HOURS + 310, 0], rtol=1e-5)
    assert [len(part.x) for part in parts] == list(SIZES)
    seen = rows[: SIZES[0] + HOURS - 1]  # every row of the training windows once
    np.testing.assert_allclose(scaling.mean, seen.mean(axis=0))
    np.testing.assert_allclose(scaling.std, np.where(np.ptp(seen, axis=0) > 0, seen.std(axis=0), 1))
    with pytest.raises(ValueError, match=r"need 397 rows; got 390"):
        air.split(rows, (281, 60, 50), HOURS)


def test_features_are_those_of_the_complete_rows_of_the_table():
    table = made_up_air.beijing()
    rows, whole = air.rows_of(table), table.dropna()
    assert rows.shape == (390, 15)
    np.testing.assert_array_equal(rows[:, : len(air.NUMBERS)], whole[list(air.NUMBERS)])
    np.testing.assert_array_equal(rows[:, PLACE["SE"]], whole["cbwd"] == "SE")
    for unit, size in (("hour", 24), ("month", 12)):
        angle = np.arctan2(rows[:, PLACE[f"{unit}_sin"]], rows[:, PLACE[f"{unit}_cos"]])
        np.testing.assert_allclose(np.rint(angle * size / (2 * np.pi)) % size, whole[unit] % size)


def test_another_city_is_told_in_the_terms_of_beijing():
    table = made_up_air.city()
    table.loc[10:13, ["DEWP", "HUMI"]] = -9999
    table.loc[20, "PM_Somewhere"] = np.nan
    rows, kept = air.rows_of_city(table), table.drop(index=[10, 11, 12, 13, 20])
    np.testing.assert_array_equal(rows[:, 0], kept["PM_US Post"])
    np.testing.assert_array_equal(rows[:, PLACE["cv"]], kept["cbwd"].isin(["SW", "cv"]))
    snow, rain, counts = 0, 0, []
    for temperature, amount in zip(table["TEMP"], table["precipitation"], strict=True):
        snow = snow + 1 if amount > 0 and temperature <= 0 else 0
        rain = rain + 1 if amount > 0 and temperature > 0 else 0
        counts.append((snow, rain))
    np.testing.assert_array_equal(rows[:, [PLACE["Is"], PLACE["Ir"]]], np.array(counts)[kept.index])


def test_tuning_reads_no_test_window_and_no_other_city(monkeypatch):
    made_up_air.install(monkeypatch)
    experiment, task = tiny.task("beijing", "low_rank")
    own = task.settings[0]
    whole = experiment.problem.data("beijing", 0, own, "result")
    changed = made_up_air.beijing()
    changed.loc[changed.dropna().index[sum(own.windows[:2]) + own.hours :], "pm2.5"] = 5.0
    monkeypatch.setattr(data, "beijing_pm25", lambda: changed)
    monkeypatch.delattr(data, "five_cities_pm25")
    tuning = experiment.problem.data("beijing", 0, own, "tuning")
    for part in ("train", "validation"):
        np.testing.assert_array_equal(getattr(tuning, part).x, getattr(whole, part).x)
        np.testing.assert_array_equal(getattr(tuning, part).y, getattr(whole, part).y)
    assert len(whole.ood["guangzhou"]) == 197 and len(whole.ood["shanghai"]) == 66


def test_scores_are_in_micrograms_and_what_is_fitted_is_fitted_to_validation(monkeypatch):
    """A forecaster that is off by half a standard deviation of the targets, on validation by a quarter."""
    made_up_air.install(monkeypatch)
    experiment, task = tiny.task("beijing", "low_rank", noise="one")
    found = experiment.problem.data("beijing", 0, task.settings[0], "result")
    shifts = {id(found.test.x): (found.test.y, 0.5), id(found.validation.x): (found.validation.y, 0.25)}

    def predict(x):
        y, shift = shifts.get(id(x), (np.zeros((len(x), 1)), 0.0))
        return ValuePredictive(y + shift, np.full((len(x), 1), 0.1), 2, noise=1.0)

    scored, arrays = experiment.problem.score(predict, found, task.settings[0], "result")
    rows = air.rows_of(made_up_air.beijing())
    deviation = rows[3:67, 0].std()
    assert scored["mae"] == pytest.approx(deviation / 2, rel=1e-5)
    assert scored["validation_mae"] == pytest.approx(deviation / 4, rel=1e-5)
    assert scored["last_value_mae"] == pytest.approx(np.abs(np.diff(rows[106:137, 0])).mean(), rel=1e-5)
    assert scored["noise_weight_0"] == pytest.approx(deviation * np.sqrt(0.25**2 - 0.1**2), rel=1e-4)
    assert scored["width"] == pytest.approx(2 * 1.959964 * 0.25 * deviation, rel=1e-4)
    assert arrays["histograms/test_std"][1].sum() == pytest.approx(100)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("deterministic", 53_569), ("full_rank", 107_138), ("low_rank", 47_144), ("rank_one", 56_161)],
)
def test_the_forecaster_has_the_published_parameters(kind, parameters):
    assert count_trained(config.read("beijing").problem.network(Weights(kind, PAPER), PAPER)) == parameters


@needs_data
def test_the_published_tables_give_the_published_numbers_of_windows():
    found = config.read("beijing").problem.data("beijing", 0, PAPER, "result")
    assert found.train.x.shape == (29_213, 24, 15) and len(found.validation.x) == len(found.test.x) == 6_260
    assert found.ood["guangzhou"].shape == (20_050, 24, 15) and np.abs(found.ood["guangzhou"]).max() < 25  # no −9999
    own, table = data.beijing_pm25(), data.five_cities_pm25()["Beijing"]
    wet, cold = (values.iloc[: len(own)] for values in (table["precipitation"] > 0, table["TEMP"] <= 0))
    mapped = [air.count_in_a_row((wet & kind).to_numpy()) for kind in (~cold, cold)]
    agreement = [np.corrcoef(each, own[name])[0, 1] for each, name in zip(mapped, ("Ir", "Is"), strict=True)]
    np.testing.assert_allclose(agreement, [0.82, 0.63], atol=0.005)


@pytest.mark.parametrize("name", ["sst2", "beijing"])
def test_settings_of_results_are_those_of_the_records(name):
    experiment = config.read(name)
    rows = records.connect().execute(
        "SELECT DISTINCT preset, method, settings FROM runs WHERE experiment = ? AND stage = 'result' "
        "AND list_contains(['paper', 'chosen', 'refit'], preset)",
        [name],
    )
    read = 0
    for preset, method, text in rows.fetchall():
        recorded, own = config.json.loads(text), config.plain(experiment.chosen(preset, method)[1])
        recorded["cosine"] = "step" if recorded["cosine"] else None
        # Those that the method does not read, and those that were told in another way.
        left = {"ranks"} if config.with_named_rank(method, PAPER) != PAPER else set()
        left |= set() if "svd" in method else {"svd_epochs"}
        for key in recorded.keys() & own.keys() - left:
            assert own[key] == recorded[key], (preset, method, key)
        read += 1
    assert read == sum(len(experiment.methods(p)) for p in ("paper", "chosen", "refit") if p in experiment.presets)
