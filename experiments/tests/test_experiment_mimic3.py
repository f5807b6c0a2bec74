"""MIMIC-III by DuckDB: the numbers of an independent implementation, newborns, splits by patient, and bad tables."""

import os
from pathlib import Path

import duckdb
import mimic_tables
import numpy as np
import pandas as pd
import pytest
from mimic_tables import charted
from singularbayes_experiments import config, data, study
from singularbayes_experiments.problems import mimic3, mimic3_tables
from singularbayes_experiments.problems.care import OOD
from singularbayes_experiments.problems.mimic3_tables import FEATURES, MEASURED

SYSTEMS = ("carevue", "metavision", "nursery", "laboratory")


def items(one, systems=SYSTEMS):
    return [int(item) for system in systems for item in one[system].split()]


@pytest.fixture(scope="module")
def paths():
    folder = os.environ.get("SINGULARBAYES_DATA")
    if not folder:
        pytest.skip("needs $SINGULARBAYES_DATA, a folder with the data sets")
    return data.mimic3(Path(folder) / "mimic3_demo").paths


def test_features_of_the_demo_are_those_of_an_independent_implementation(paths):
    times = {"ICUSTAYS": ["intime", "outtime"], "CHARTEVENTS": ["charttime"], "LABEVENTS": ["charttime"]}
    tables = {
        name: pd.read_csv(paths[name], usecols=mimic3_tables.COLUMNS[name], parse_dates=times[name]) for name in times
    }
    stays = tables["ICUSTAYS"].sort_values("icustay_id", ignore_index=True)
    stays["until"] = np.minimum(stays["outtime"], stays["intime"] + pd.Timedelta(hours=48))
    charts = tables["CHARTEVENTS"].merge(stays[["icustay_id", "intime", "until"]], on="icustay_id")
    labs = tables["LABEVENTS"].merge(stays[["icustay_id", "hadm_id", "intime", "until"]], on="hadm_id")
    demo = mimic3_tables.read(paths)
    for _, one in MEASURED.iterrows():
        source = labs if one["laboratory"] else charts[charts["error"] != 1]
        found = source[source["itemid"].isin(items(one))]
        found = found[(found["charttime"] >= found["intime"]) & (found["charttime"] <= found["until"])]
        fahrenheit = found["itemid"].isin([int(item) for item in one["fahrenheit"].split()])
        value = found["valuenum"].where(~fahrenheit, (found["valuenum"] - 32) / 1.8)
        value = value[(value >= one["low"]) & (value <= one["high"])].groupby(found["icustay_id"])
        for kind in one["statistics"].split():
            expected = {"mean": value.mean, "sd": value.std}[kind]().reindex(stays["icustay_id"]).to_numpy()
            column = demo.columns((f"{one['name']}_{kind}",))[:, 0]
            np.testing.assert_allclose(column, expected, rtol=1e-9, atol=1e-9, err_msg=one["name"])
    assert demo.features.shape == (136, 44) == (136, len(set(FEATURES)))
    assert (demo.died.sum(), demo.newborn.sum(), len(np.unique(demo.patients))) == (29, 0, 100)
    assert (np.isfinite(demo.features).sum(axis=0) >= 40).all()


def test_every_item_is_in_the_dictionary_of_its_table(paths):
    charts, labs = (pd.read_csv(paths[name]).set_index("itemid") for name in ("D_ITEMS", "D_LABITEMS"))
    seen = [item for _, one in MEASURED.iterrows() for item in items(one)]
    assert len(seen) == len(set(seen))
    for _, one in MEASURED.iterrows():
        assert (labs.loc[items(one, ["laboratory"]), "fluid"] == "Blood").all()
        for system, source in {"carevue": "carevue", "metavision": "metavision", "nursery": "carevue"}.items():
            known = charts.loc[items(one, [system])]
            assert (known["linksto"] == "chartevents").all() and (known["dbsource"] == source).all()
            fahrenheit = known.index[known["label"].str.contains(r"F\b|Fahrenheit") & (one["name"] == "temperature")]
            assert set(fahrenheit) == set(known.index) & {int(item) for item in one["fahrenheit"].split()}


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


# -- synthetic tables --------------------------------------------------------------------------------------------------


def read(lines, folder, **options):
    return mimic3_tables.read(data.mimic3(mimic_tables.write(lines, folder, **options)).paths)


def test_what_counts_is_what_was_measured_in_the_first_48_hours(tmp_path):
    rows = [
        charted(2001, 678, "2101-01-01 06:00:00", "98.6"),  # 37 °C, as the stay begins
        charted(2001, 676, "2101-01-03 06:00:00", "39"),  # as the 48 hours end
        charted(2001, 676, "2101-01-03 06:00:01", "20.5"),  # after them
        charted(2001, 676, "2101-01-01 05:59:59", "20.5"),  # before the stay
        charted(2001, 676, "2101-01-01 08:00:00", "98.6"),  # impossible in °C
        charted(2001, 676, "2101-01-01 08:00:00", "21", error="1"),  # marked as wrong
        charted(2001, 676, "2101-01-01 08:00:00", "warm"),  # no number
        charted(2001, 676, "2101-01-01 08:00:00", "2\x001"),
        charted(2001, 676, "some time", "21"),  # no time
        charted(9999, 676, "2101-01-01 08:00:00", "21"),  # another stay
        charted(2001, 999999, "2101-01-01 08:00:00", "21"),  # another item
        charted(2001, 211, "2101-01-01 08:00:00", "80"),  # one measurement has no deviation
    ]
    lines = mimic_tables.tables(1, 0)
    stays = read(lines | {"CHARTEVENTS": [lines["CHARTEVENTS"][0], *rows]}, tmp_path)
    names = ("temperature_mean", "temperature_sd", "heart_rate_mean", "heart_rate_sd", "saturation_mean")
    np.testing.assert_allclose(stays.columns(names)[0], [38, np.sqrt(2), 80, np.nan, np.nan], rtol=1e-9)
    of_stay = stays.columns(("hours_before", "length_of_stay", "age", "male"))[0]
    np.testing.assert_allclose(of_stay, [6, 3, 21, 0], atol=0.01)


def test_newborns_children_hidden_ages_and_deaths_after_the_stay(tmp_path):
    lines = mimic_tables.tables(8, 4)
    expected = read(lines, tmp_path / "upper")
    found = read(lines, tmp_path / "lower", lower=True, packed=True)
    for name, array in vars(expected).items():
        np.testing.assert_array_equal(getattr(found, name), array)
    assert found.newborn.tolist() == [False] * 8 + [True] * 4
    assert found.died.tolist() == [i in (0, 4) for i in range(12)]
    names = ("heart_rate_mean", "systolic_mean", "respiratory_rate_mean", "temperature_mean", "saturation_mean")
    newborn = found.columns(names)[found.newborn].mean(axis=0)  # charted by the nursery
    np.testing.assert_allclose(newborn, [150, 65, 45, 36.6, 95], rtol=0.13)
    lines["PATIENTS"][1] = "1,1,M,2090-01-01 00:00:00,"  # 11 years, no newborn
    lines["PATIENTS"][2] = "2,2,F,1801-01-01 00:00:00,"  # 300 years
    lines["ADMISSIONS"][5] = lines["ADMISSIONS"][5].replace("2101-01-04 00:00:00", "2101-01-06 00:00:00")
    stays = read(lines, tmp_path / "other")
    assert stays.patients.tolist() == list(range(2, 13)) and not stays.died.any()
    assert stays.columns(("age",))[0, 0] == 90 and (stays.columns(("age",))[stays.newborn] < 1).all()


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder of synthetic tables with newborns; every patient has two stays."""
    lines = mimic_tables.tables(40, 12)
    lines["ICUSTAYS"] += [line.replace(",20", ",30", 1) for line in lines["ICUSTAYS"][1:]]
    gone = (51, 50824)  # systolic blood pressure and sodium
    for name in ("CHARTEVENTS", "LABEVENTS"):
        lines[name] = [line for line in lines[name] if not any(f",{item},2101" in line for item in gone)]
    monkeypatch.setenv(mimic3.FOLDER, str(mimic_tables.write(lines, tmp_path)))


@pytest.mark.filterwarnings("ignore:mimic3 trains without")
def test_no_patient_is_in_two_parts_and_newborns_are_foreign(own):
    settings = mimic3.MIMIC3Settings()
    assert settings.tables == "own" and not settings.length_of_stay
    with pytest.warns(UserWarning, match="trains without systolic_mean, systolic_sd, sodium_mean: no stay to train on"):
        sets = mimic3.MIMIC3().data("mimic3", 0, settings, "result")
    parts = (sets.train.x, sets.validation.x, sets.test.x, sets.ood[OOD])
    assert [len(part) for part in parts] == [66, 6, 8, 24]
    of_patients = [{row[:3].tobytes() for row in part} for part in parts[:3]]  # age, gender and hours before
    assert [len(part) for part in of_patients] == [33, 3, 4] and len(set.union(*of_patients)) == 40
    assert sets.train.x.shape[1] == 43 and sets.train.x.min() == 0 and sets.train.x.max() == 1
    rates = sets.ood[OOD][:, FEATURES.index("heart_rate_mean") - 1]
    assert (rates > 1).sum() == 12  # the others were not measured
    changes = {"units": [6, 5], "ranks": [3, 3, 1], "epochs": 2, "draws": 4, "tables": "own"}
    experiment = config.read("mimic3")
    (task,) = experiment.runs_of("paper", methods=["low_rank"], seeds=[1], changes=changes)
    (outcome,) = study.run(experiment.problem, task)
    wanted = (
        "auroc auprc nll brier ece auroc_ood_mi aupr_in_mi auroc_ood_entropy mi_ratio validation_nll unweighted_nll"
    )
    assert set(wanted.split()) <= outcome.metrics.keys() and outcome.metrics["shifted_deaths"] == 0
    assert task.settings[0].length_of_stay and not experiment.grid("chosen", "low_rank")[0].length_of_stay


# -- bad tables --------------------------------------------------------------------------------------------------------


def change(lines, name, i, old, new):
    lines[name][i] = lines[name][i].replace(old, new)
    return lines


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: change(t, "CHARTEVENTS", 0, "VALUENUM", "NUM"), "needs CHARTEVENTS to be CSV, .*valuenum"),
        (lambda t: t | {"ICUSTAYS": [""]}, "needs ICUSTAYS to be CSV"),
        (lambda t: t | {"ICUSTAYS": t["ICUSTAYS"][:1]}, "needs stays of adults or newborns; got none in"),
        (
            lambda t: change(t, "ICUSTAYS", 1, "2101-01-01 06", "soon"),
            r"as intime, .*; got 1 other rows, such as '?1,1",
        ),
        (lambda t: change(t, "ICUSTAYS", 1, "2001", "two\0"), "got 1 other rows"),
        (lambda t: change(t, "PATIENTS", 1, "2080-01-01 00:00:00", ""), "got 1 other rows"),
        (lambda t: t | {"CHARTEVENTS": t["CHARTEVENTS"][:1]}, "got none of the known items in CHARTEVENTS, .*CHARTEV"),
        (
            lambda t: t | {"LABEVENTS": [line.replace(",x,", ",x,-9") for line in t["LABEVENTS"]]},  # none is possible
            "got none of the known items in LABEVENTS",
        ),
        (lambda t: change(t, "LABEVENTS", 1, ",", ";"), r"needs tables that can be read as CSV; got .*LABEVENTS"),
    ],
)
def test_a_damaged_table_is_refused(damage, message, tmp_path):
    with pytest.raises(data.DataError, match=message):
        read(damage(mimic_tables.tables(2, 0)), tmp_path)


def test_a_file_that_is_not_packed_or_cut_off_or_in_utf_16_is_refused(tmp_path):
    folder = mimic_tables.write(mimic_tables.tables(2, 0), tmp_path, packed=True)
    whole = (folder / "LABEVENTS.csv.gz").read_bytes()
    for content in (b"no gzip", whole[:40], b""):
        (folder / "LABEVENTS.csv.gz").write_bytes(content)
        with pytest.raises(data.DataError, match="LABEVENTS"):
            mimic3_tables.read(data.mimic3(folder).paths)
    (folder / "LABEVENTS.csv.gz").write_bytes(whole)
    (folder / "PATIENTS.csv").write_bytes("subject_id,gender,dob\n1,F,2080-01-01 00:00:00\n".encode("utf-16"))
    with pytest.raises(data.DataError, match=r"needs PATIENTS to be CSV, in UTF-8"):
        mimic3_tables.read(data.mimic3(folder).paths)


def test_a_folder_without_the_tables_or_with_few_patients_is_refused(tmp_path, monkeypatch):
    with pytest.raises(data.DataError, match=r"mimic3 needs a folder with the tables of MIMIC-III; got .*not one"):
        data.mimic3(tmp_path / "nowhere")
    with pytest.raises(data.DataError, match=r"got no ADMISSIONS, PATIENTS, ICUSTAYS, CHARTEVENTS, LABEVENTS in"):
        data.mimic3(tmp_path)
    monkeypatch.delenv(mimic3.FOLDER, raising=False)
    with pytest.raises(data.DataError, match=r"mimic3 needs \$SINGULARBAYES_MIMIC3, the folder with the tables"):
        mimic3.read("own")
    monkeypatch.setenv(mimic3.FOLDER, str(mimic_tables.write(mimic_tables.tables(4, 2), tmp_path)))
    with pytest.raises(data.DataError, match="mimic3 needs at least 10 adult patients to split; got 4"):
        mimic3.MIMIC3().data("mimic3", 0, mimic3.MIMIC3Settings(), "result")
