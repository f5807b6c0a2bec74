"""Windows of hourly air: the published counts, the order of time, no look ahead, other cities in Beijing's terms."""

import os

import made_up_air
import numpy as np
import pytest
from singularbayes_experiments import data
from singularbayes_experiments.problems import air

HOURS, SIZES = 6, (200, 60, 50)
PLACE = {name: i for i, name in enumerate(air.FEATURES)}


needs_data = pytest.mark.skipif("SINGULARBAYES_DATA" not in os.environ, reason="needs $SINGULARBAYES_DATA")


@pytest.fixture(scope="module")
def rows():
    return air.rows_of(made_up_air.beijing())


def test_a_window_is_the_rows_before_its_target(rows):
    found = air.split(rows, SIZES, HOURS)
    every_x = np.concatenate([part.x for part in (found.train, found.validation, found.test)])
    every_y = np.concatenate([part.y for part in (found.train, found.validation, found.test)])
    for i in (0, 199, 200, 259, 260, 309):
        expected = (rows[i : i + HOURS] - found.scaling.mean) / found.scaling.std
        np.testing.assert_allclose(every_x[i], expected, rtol=1e-5, atol=1e-5)
        target = every_y[i] * found.scaling.target_std + found.scaling.target_mean
        np.testing.assert_allclose(target, rows[i + HOURS, 0], rtol=1e-5)
    assert [len(part) for part in (found.train, found.validation, found.test)] == list(SIZES)


def test_what_comes_after_the_training_windows_changes_nothing_in_them(rows):
    first = air.split(rows, SIZES, HOURS)
    changed = rows.copy()
    changed[SIZES[0] + HOURS :] *= 100  # behind the last target of training
    other = air.split(changed, SIZES, HOURS)
    np.testing.assert_array_equal(other.train.x, first.train.x)
    np.testing.assert_array_equal(other.train.y, first.train.y)
    changed[SIZES[0] + HOURS - 1] *= 100  # the last target of training
    assert not np.array_equal(air.split(changed, SIZES, HOURS).train.y, first.train.y)


def test_the_rows_and_targets_of_training_are_standardised(rows):
    found = air.split(rows, SIZES, HOURS)
    seen = np.concatenate([found.train.x[:, 0], found.train.x[-1, 1:]])  # every row of the training windows once
    varies = np.ptp(rows[: SIZES[0] + HOURS - 1], axis=0) > 0
    np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(seen.std(axis=0), varies, atol=1e-5)
    np.testing.assert_allclose([found.train.y.mean(), found.train.y.std()], [0, 1], atol=1e-5)


def test_rows_with_a_missing_value_are_dropped_and_the_features_are_those_of_the_table():
    table = made_up_air.beijing()
    rows = air.rows_of(table)
    whole = table.dropna()
    assert rows.shape == (len(whole), 15) and len(whole) == 390
    np.testing.assert_array_equal(rows[:, PLACE["Iws"]], whole["Iws"])
    np.testing.assert_array_equal(rows[:, [PLACE[wind] for wind in air.WINDS]].sum(axis=1), 1)
    np.testing.assert_array_equal(rows[:, PLACE["SE"]], whole["cbwd"] == "SE")
    six = whole["hour"].to_numpy() == 6
    np.testing.assert_allclose(rows[six][:, [PLACE["hour_sin"], PLACE["hour_cos"]]], [[1, 0]] * six.sum(), atol=1e-12)


def test_another_city_is_told_in_the_terms_of_beijing():
    table = made_up_air.city()
    table.loc[10:13, ["DEWP", "HUMI"]] = -9999
    table.loc[20, "PM_Somewhere"] = np.nan
    rows = air.rows_of_city(table, "a city")
    kept = table.drop(index=[10, 11, 12, 13, 20])
    assert len(rows) == len(kept)
    np.testing.assert_array_equal(rows[:, 0], kept["PM_US Post"])
    np.testing.assert_array_equal(rows[:, PLACE["cv"]], kept["cbwd"].isin(["SW", "cv"]))
    snow, rain, counts = 0, 0, []
    for temperature, amount in zip(table["TEMP"], table["precipitation"], strict=True):
        snow = snow + 1 if amount > 0 and temperature <= 0 else 0
        rain = rain + 1 if amount > 0 and temperature > 0 else 0
        counts.append((snow, rain))
    expected = np.array(counts)[kept.index]
    np.testing.assert_array_equal(rows[:, [PLACE["Is"], PLACE["Ir"]]], expected)
    assert expected.max(axis=0).min() > 1


def test_a_row_without_a_wind_is_dropped_and_one_with_an_unknown_wind_is_an_error():
    table = made_up_air.city()
    whole = air.rows_of_city(table, "a city")
    table.loc[table.index[7], "cbwd"] = np.nan
    assert len(air.rows_of_city(table, "a city")) == len(whole) - 1
    table.loc[table.index[7], "cbwd"] = "N"
    with pytest.raises(ValueError, match=r"a city needs winds .* got 'N' in 1 rows"):
        air.rows_of_city(table, "a city")


def test_so_many_rows_as_the_error_names_are_enough(rows):
    assert len(air.split(rows[:36], (10, 10, 10), 6).test) == 10


def test_without_the_mapped_features_only_those_are_at_their_mean(rows):
    x = air.split(rows, SIZES, HOURS).test.x
    found = air.without_mapped(x)
    mapped = [PLACE[name] for name in air.MAPPED]
    assert not found[..., mapped].any() and x[..., mapped].any()
    np.testing.assert_array_equal(np.delete(found, mapped, axis=-1), np.delete(x, mapped, axis=-1))


def test_every_so_manyth_window_is_one_of_all(rows):
    scaling = air.split(rows, SIZES, HOURS).scaling
    every, some = air.windows(rows, scaling, HOURS), air.windows(rows, scaling, HOURS, every=4)
    np.testing.assert_array_equal(some.x, every.x[::4])
    np.testing.assert_array_equal(some.y, every.y[::4])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: air.rows_of(made_up_air.city()), r"the table of Beijing needs columns .* got no 'pm2\.5' among"),
        (lambda: air.rows_of_city(made_up_air.beijing(), "Xi'an"), r"Xi'an needs columns .* got no 'PM_US Post' among"),
        (lambda: air.rows_of(made_up_air.beijing().iloc[:0]), "needs rows without a missing value; got none"),
        (lambda: air.rows_of_city(made_up_air.city().iloc[:0], "Xi'an"), "Xi'an needs rows without a missing value"),
        (lambda: air.rows_of(made_up_air.beijing().assign(cbwd="up")), r"needs winds \(cbwd\) among .* got 'up'"),
        (lambda: air.rows_of(made_up_air.beijing().assign(TEMP="cold")), "needs numbers in 'TEMP'; got"),
        (lambda: air.ood_rows({"Xi'an": made_up_air.city()}, ("Lhasa",)), "among .*Xi'an.*; got 'Lhasa'"),
        (
            lambda: air.split(np.zeros((30, 15)), (10, 10, 10), 6),
            r"needs 36 complete rows for 10 \+ 10 \+ 10 windows of 6 rows and a row after each; got 30\.",
        ),
        (lambda: air.split(np.zeros((4, 15)), (10, 10, 10), 6), r"needs 36 complete rows .* got 4\."),
        (
            lambda: air.rows_of_city(made_up_air.city().assign(cbwd="N"), "Xi'an"),
            rf"Xi'an needs winds \(cbwd\) among .*'SW'\]; got 'N' in {len(made_up_air.city())} rows\.",
        ),
        (
            lambda: air.windows(np.zeros((6, 15)), air.AirScaling.of(np.zeros((3, 15)), np.zeros(3)), 6),
            "needs more than 6 complete rows; got 6",
        ),
    ],
)
def test_other_tables_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@needs_data
def test_the_published_tables_give_the_published_numbers_of_windows():
    found = air.split(air.rows_of(data.beijing_pm25().table), (29_213, 6_260, 6_260))
    assert found.train.x.shape == (29_213, 24, 15) and len(found.validation) == len(found.test) == 6_260
    with pytest.raises(ValueError, match=r"needs 41758 complete rows .* got 41757"):
        air.split(air.rows_of(data.beijing_pm25().table), (29_214, 6_260, 6_260))
    (rows,) = air.ood_rows(data.five_cities_pm25().tables, ("Guangzhou",)).values()
    guangzhou = air.windows(rows, found.scaling)
    assert guangzhou.x.shape == (20_050, 24, 15) and np.abs(guangzhou.x).max() < 25  # no −9999


@needs_data
def test_the_rule_for_rain_gives_back_beijings_own_column_nearly():
    own = data.beijing_pm25().table
    table = data.five_cities_pm25().tables["Beijing"].iloc[: len(own)]
    wet, cold = table["precipitation"] > 0, table["TEMP"] <= 0
    found = [air.count_in_a_row((wet & kind).to_numpy()) for kind in (~cold, cold)]
    agreement = [np.corrcoef(mapped, own[name])[0, 1] for mapped, name in zip(found, ("Ir", "Is"), strict=True)]
    np.testing.assert_allclose(agreement, [0.82, 0.63], atol=0.005)
