"""MIMIC-III by DuckDB: the numbers of an independent implementation, both item systems, newborns, and bad tables."""

import gzip
import os
from pathlib import Path

import duckdb
import made_up_mimic
import numpy as np
import pandas as pd
import pytest
from made_up_mimic import charted
from singularbayes_experiments import data
from singularbayes_experiments.problems import mimic3_features, mimic3_tables
from singularbayes_experiments.problems.mimic3_features import FEATURES, MEASURED

# The items of temperature as D_ITEMS labels them: "Temperature F", "Temperature Fahrenheit", "Temp Axillary [F]",
# "Temp Rectal [F]"; "Temperature C", "Temperature Celsius", "Temp Skin [C]".
FAHRENHEIT, CELSIUS = (678, 223761, 3652, 3654), (676, 223762, 3655)


@pytest.fixture(scope="module")
def paths():
    folder = os.environ.get("SINGULARBAYES_DATA")
    if not folder:
        pytest.skip("needs $SINGULARBAYES_DATA, a folder with the data sets")
    return data.mimic3(Path(folder) / "mimic3_demo").paths


@pytest.fixture(scope="module")
def demo(paths):
    return mimic3_tables.read(paths)


@pytest.fixture(scope="module")
def by_hand(paths):
    """The tables of the demo as pandas reads them, and the stays with their window."""
    times = {"ICUSTAYS": ["intime", "outtime"], "CHARTEVENTS": ["charttime"], "LABEVENTS": ["charttime"]}
    columns = {name: [*mimic3_tables.COLUMNS[name]] for name in times}
    columns["ICUSTAYS"].append("dbsource")
    tables = {name: pd.read_csv(paths[name], usecols=columns[name], parse_dates=times[name]) for name in times}
    stays = tables["ICUSTAYS"].sort_values("icustay_id", ignore_index=True)
    stays["until"] = np.minimum(stays["outtime"], stays["intime"] + pd.Timedelta(hours=48))
    return tables, stays


def test_every_feature_of_the_demo_has_values(demo):
    assert demo.features.shape == (136, 44) and (demo.died.sum(), demo.newborn.sum()) == (29, 0)
    assert (np.isfinite(demo.features).sum(axis=0) >= 40).all()
    assert len(np.unique(demo.patients)) == 100


def test_features_are_those_of_an_independent_implementation(demo, by_hand):
    tables, stays = by_hand
    rows = tables["CHARTEVENTS"].merge(stays[["icustay_id", "intime", "until"]], on="icustay_id")
    rows = rows[rows["error"] != 1]
    labs = tables["LABEVENTS"].merge(stays[["icustay_id", "hadm_id", "intime", "until"]], on="hadm_id")
    for one in MEASURED:
        source = labs if "laboratory" in one.items else rows
        found = source[source["itemid"].isin([item for items in one.items.values() for item in items])]
        found = found[(found["charttime"] >= found["intime"]) & (found["charttime"] <= found["until"])]
        value = found["valuenum"].where(~found["itemid"].isin(FAHRENHEIT), (found["valuenum"] - 32) / 1.8)
        value = value[(value >= one.low) & (value <= one.high)].groupby(found["icustay_id"])
        for name, made in zip(one.features, (value.mean(), value.std()), strict=False):
            expected = made.reindex(stays["icustay_id"]).to_numpy()
            np.testing.assert_allclose(demo.columns((name,))[:, 0], expected, rtol=1e-9, atol=1e-9, err_msg=name)


def test_both_systems_chart_every_vital_sign(demo, by_hand):
    source = by_hand[1]["dbsource"].to_numpy()
    vital = [f"{one.name}_mean" for one in mimic3_features.VITALS]
    for system in ("carevue", "metavision"):
        assert (np.isfinite(demo.columns(vital)[source == system]).mean(axis=0) > 0.9).all(), system


def test_every_item_is_in_the_dictionary_of_its_table(paths):
    charts = pd.read_csv(paths["D_ITEMS"]).set_index("itemid")
    labs = pd.read_csv(paths["D_LABITEMS"]).set_index("itemid")
    seen = []
    for one in MEASURED:
        for system, items in one.items.items():
            seen += items
            if system == "laboratory":
                assert (labs.loc[list(items), "fluid"] == "Blood").all()
                continue
            known = charts.loc[list(items)]
            assert (known["linksto"] == "chartevents").all()
            assert (known["dbsource"] == ("metavision" if system == "metavision" else "carevue")).all()
            if one.name == "temperature":
                fahrenheit = known["label"].str.contains(r"F\b|Fahrenheit")
                assert {item for item in items if fahrenheit[item]} == set(items) & set(one.fahrenheit)
    assert len(seen) == len(set(seen))
    assert len(FEATURES) == 44 and len(set(FEATURES)) == 44


def test_the_large_table_is_never_held_in_memory(paths, monkeypatch):
    """With less memory than CHARTEVENTS of the demo takes as the inner side of a join, and no disk to spill to."""
    connect = duckdb.connect

    def small():
        connection = connect()
        for setting in ("memory_limit = '120MB'", "max_temp_directory_size = '0MB'", "threads = 1"):
            connection.execute(f"SET {setting}")
        return connection

    monkeypatch.setattr(duckdb, "connect", small)
    assert len(mimic3_tables.read(paths).features) == 136


# -- synthetic tables ------------------------------------------------------------------------------------------------


def one_stay(*extra, newborn=False):
    """The tables of a single stay with nothing charted but these lines."""
    lines = made_up_mimic.tables(0, 0)
    made_up_mimic.add_stay(lines, 1, newborn=newborn, died=False)
    return lines | {"CHARTEVENTS": [lines["CHARTEVENTS"][0], *extra]}


def read(lines, folder, **options):
    return mimic3_tables.read(data.mimic3(made_up_mimic.write(lines, folder, **options)).paths)


def value(stays, name):
    return stays.columns((name,))[0, 0]


def test_what_counts_is_what_was_measured_in_the_first_48_hours(tmp_path):
    rows = [
        charted(2001, 678, "2101-01-01 06:00:00", "98.6"),  # 37 °C, as the stay begins
        charted(2001, 676, "2101-01-03 06:00:00", "39"),  # as the 48 hours end
        charted(2001, 676, "2101-01-03 06:00:01", "20.5"),  # after them
        charted(2001, 676, "2101-01-01 05:59:59", "20.5"),  # before the stay
        charted(2001, 676, "2101-01-01 08:00:00", "98.6"),  # impossible in °C
        charted(2001, 676, "2101-01-01 08:00:00", "21", error="1"),  # marked as wrong
        charted(2001, 676, "2101-01-01 08:00:00", "warm"),  # no number
        charted(2001, 676, "some time", "21"),  # no time
        charted(9999, 676, "2101-01-01 08:00:00", "21"),  # another stay
        charted(2001, 999999, "2101-01-01 08:00:00", "21"),  # another item
    ]
    stays = read(one_stay(*rows), tmp_path)
    assert value(stays, "temperature_mean") == pytest.approx(38.0, rel=1e-12)
    assert value(stays, "temperature_sd") == pytest.approx(np.sqrt(2), rel=1e-9)
    assert np.isnan(value(stays, "heart_rate_mean"))
    assert value(stays, "hours_before") == 6 and value(stays, "length_of_stay") == 3
    assert value(stays, "age") == pytest.approx(21, abs=0.01) and value(stays, "male") == 0


def test_every_item_of_temperature_becomes_celsius(tmp_path):
    items = {item: text for each, text in ((FAHRENHEIT, "98.6"), (CELSIUS, "37")) for item in each}
    assert set(items) == {
        item for one in MEASURED if one.name == "temperature" for i in one.items.values() for item in i
    }
    lines = made_up_mimic.tables(len(items), 0)
    rows = [charted(2001 + i, item, "2101-01-01 08:00:00", text) for i, (item, text) in enumerate(items.items())]
    found = read(lines | {"CHARTEVENTS": [lines["CHARTEVENTS"][0], *rows]}, tmp_path).columns(("temperature_mean",))
    np.testing.assert_allclose(found[:, 0], 37, rtol=1e-12)


def test_a_measurement_of_another_thing_is_not_converted(tmp_path):
    others = [
        (one, items) for one in mimic3_features.VITALS if one.name != "temperature" for items in one.items.values()
    ]
    rows = [charted(2001, items[0], "2101-01-01 08:00:00", "98.6") for _, items in others]
    stays = read(one_stay(*rows), tmp_path)
    found = [value(stays, f"{one.name}_mean") for one, _ in others]
    np.testing.assert_allclose(found, 98.6, rtol=1e-12)


def test_one_measurement_has_no_deviation(tmp_path):
    stays = read(one_stay(charted(2001, 211, "2101-01-01 08:00:00", "80")), tmp_path)
    assert value(stays, "heart_rate_mean") == 80 and np.isnan(value(stays, "heart_rate_sd"))


def test_case_and_packing_do_not_matter(tmp_path):
    lines = made_up_mimic.tables(6, 3)
    expected = read(lines, tmp_path / "upper")
    for i, options in enumerate(({"lower": True}, {"packed": True}, {"lower": True, "packed": True})):
        found = read(lines, tmp_path / str(i), **options)
        for name, array in vars(expected).items():
            np.testing.assert_array_equal(vars(found)[name], array)


def test_newborns_are_told_from_adults_and_charted_by_the_nursery(tmp_path):
    stays = read(made_up_mimic.tables(8, 4), tmp_path)
    assert stays.newborn.tolist() == [False] * 8 + [True] * 4
    assert stays.died.tolist() == [i in (0, 4) for i in range(12)]
    names = ("heart_rate_mean", "systolic_mean", "respiratory_rate_mean", "temperature_mean", "saturation_mean")
    newborn = stays.columns(names)[stays.newborn].mean(axis=0)
    np.testing.assert_allclose(newborn, [150, 65, 45, 36.6, 95], rtol=0.13)
    assert (stays.columns(("age",))[stays.newborn] < 1).all()


def test_children_do_not_count_and_hidden_ages_are_90(tmp_path):
    lines = made_up_mimic.tables(3, 0)
    lines["PATIENTS"][1] = "1,1,M,2090-01-01 00:00:00,"  # 11 years, no newborn
    lines["PATIENTS"][2] = "2,2,F,1801-01-01 00:00:00,"  # 300 years
    stays = read(lines, tmp_path)
    assert stays.patients.tolist() == [2, 3] and value(stays, "age") == 90


def test_a_death_after_the_stay_is_none_of_it(tmp_path):
    lines = made_up_mimic.tables(4, 0)
    lines["ADMISSIONS"][1] = lines["ADMISSIONS"][1].replace("2101-01-04 00:00:00", "2101-01-06 00:00:00")
    assert not read(lines, tmp_path).died.any()


# -- bad tables ------------------------------------------------------------------------------------------------------


def test_a_folder_without_the_tables_is_refused(tmp_path):
    with pytest.raises(data.DataError, match=r"mimic3 needs a folder with the tables of MIMIC-III; got .*not one"):
        data.mimic3(tmp_path / "nowhere")
    with pytest.raises(data.DataError, match=r"got no ADMISSIONS, PATIENTS, ICUSTAYS, CHARTEVENTS, LABEVENTS in"):
        data.mimic3(tmp_path)
    made_up_mimic.write(made_up_mimic.tables(2, 0), tmp_path)
    (tmp_path / "LABEVENTS.csv").unlink()
    with pytest.raises(data.DataError, match=r"packed by gzip or not; got no LABEVENTS in"):
        data.mimic3(tmp_path)


def change(lines, name, i, old, new):
    lines[name][i] = lines[name][i].replace(old, new)
    return lines


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda t: change(t, "CHARTEVENTS", 0, "VALUENUM", "NUM"),
            "columns .* in CHARTEVENTS; got no valuenum in .*row_id",
        ),
        (lambda t: t | {"ICUSTAYS": [""]}, "needs ICUSTAYS to have a line of column names; got an empty file"),
        (lambda t: t | {"ICUSTAYS": t["ICUSTAYS"][:1]}, "needs stays of adults or newborns; got none in"),
        (
            lambda t: change(t, "ICUSTAYS", 1, "2101-01-01 06", "soon"),
            r"INTIME|intime, .*; got 1 other rows, such as '?1,1001",
        ),
        (lambda t: change(t, "ICUSTAYS", 1, "2001", "two\0"), "got 1 other rows"),
        (lambda t: change(t, "PATIENTS", 1, "2080-01-01 00:00:00", ""), "got 1 other rows"),
        (lambda t: t | {"CHARTEVENTS": t["CHARTEVENTS"][:1]}, "got none of the known items in CHARTEVENTS, .*CHARTEV"),
        (lambda t: t | {"LABEVENTS": t["LABEVENTS"][:1]}, "got none of the known items in LABEVENTS, .*LABEVENTS"),
        (
            lambda t: t | {"LABEVENTS": [line.replace(",x,", ",x,-9") for line in t["LABEVENTS"]]},  # none is possible
            "got none of the known items in LABEVENTS",
        ),
        (lambda t: change(t, "LABEVENTS", 1, ",", ";"), r"needs tables that can be read as CSV; got .*LABEVENTS"),
    ],
)
def test_a_damaged_table_is_refused(damage, message, tmp_path):
    with pytest.raises(data.DataError, match=message):
        read(damage(made_up_mimic.tables(2, 0)), tmp_path)


def test_a_file_that_is_not_packed_or_cut_off_is_refused(tmp_path):
    folder = made_up_mimic.write(made_up_mimic.tables(2, 0), tmp_path, packed=True)
    whole = (folder / "LABEVENTS.csv.gz").read_bytes()
    for content in (b"no gzip", whole[:40], b""):
        (folder / "LABEVENTS.csv.gz").write_bytes(content)
        with pytest.raises(data.DataError, match=r"LABEVENTS"):
            mimic3_tables.read(data.mimic3(folder).paths)
    assert gzip.decompress(whole).startswith(b"ROW_ID")


def test_a_table_in_utf_16_is_called_so_without_its_nul_bytes(tmp_path):
    folder = made_up_mimic.write(made_up_mimic.tables(2, 0), tmp_path)
    path = folder / "PATIENTS.csv"
    for encoding in ("utf-16", "utf-16-le", "utf-16-be"):
        path.write_bytes(path.read_bytes().decode().encode(encoding))
        with pytest.raises(data.DataError, match=r"needs PATIENTS to be text in UTF-8; .* Is it in UTF-16") as caught:
            mimic3_tables.read(data.mimic3(folder).paths)
        assert "\0" not in str(caught.value)
        path.write_bytes(path.read_bytes().decode(encoding).encode())


def test_nul_bytes_and_words_in_measurements_are_no_measurements(tmp_path):
    rows = [
        charted(2001, 211, "2101-01-01 08:00:00", text) for text in ("\0", "8\x000", "nan", "inf", "ÿ", "1e400", "80")
    ]
    assert value(read(one_stay(*rows), tmp_path), "heart_rate_mean") == 80
