"""MIMIC-III by DuckDB, on the open demo: an independent implementation, splits by patient, and bad tables."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
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
    return data.mimic3(Path(folder) / "mimic3_demo")


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


# -- tables of one's own -----------------------------------------------------------------------------------------------


@pytest.fixture
def changed(paths, tmp_path, monkeypatch):
    """Makes the demo a folder of one's own, and returns what changes a table there."""
    for name in mimic3_tables.COLUMNS:
        (tmp_path / f"{name.lower()}.csv.gz").symlink_to(paths[name])
    monkeypatch.setenv(mimic3.FOLDER, str(tmp_path))

    def change(name, by):
        (tmp_path / f"{name.lower()}.csv.gz").unlink()
        by(pd.read_csv(paths[name], dtype=str)).to_csv(tmp_path / f"{name}.csv", index=False)

    return change


def test_no_patient_is_in_two_parts_and_newborns_are_foreign(changed, paths, monkeypatch):
    changed("ADMISSIONS", lambda table: table.assign(admission_type=["NEWBORN"] * 9 + ["URGENT"] * (len(table) - 9)))
    stays = mimic3.read("own")
    born = pd.read_csv(paths["ADMISSIONS"])["hadm_id"][:9]
    tables = pd.read_csv(paths["ICUSTAYS"]).sort_values("icustay_id")
    assert stays.newborn.tolist() == tables["hadm_id"].isin(born).tolist() and stays.newborn.sum() >= 9
    features = stays.features.copy()
    features[:, FEATURES.index("age")] = stays.patients
    monkeypatch.setattr(mimic3, "read", lambda tables: replace(stays, features=features))
    sets = mimic3.MIMIC3().data("mimic3", 0, mimic3.MIMIC3Settings(), "result")
    parts = [set(part.x[:, 0].tolist()) for part in (sets.train, sets.validation, sets.test)]
    adults = len(np.unique(stays.patients[~stays.newborn]))
    assert sum(map(len, parts)) == len(set.union(*parts)) == adults and len(parts[2]) == adults // 10
    assert sets.train.x.shape[1] == 43 and len(sets.ood[OOD]) == stays.newborn.sum()
    changes = {"units": [6, 5], "ranks": [3, 3, 1], "epochs": 2, "draws": 4, "tables": "own"}
    experiment = config.read("mimic3")
    (task,) = experiment.runs_of("paper", methods=["low_rank"], seeds=[1], changes=changes)
    (outcome,) = study.run(experiment.problem, task)
    assert {"auroc", "auprc", "nll", "ece", "auroc_ood_mi", "mi_ratio", "unweighted_nll"} <= outcome.metrics.keys()
    assert task.settings[0].length_of_stay and not experiment.grid("chosen", "low_rank")[0].length_of_stay


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("LABEVENTS", lambda table: table.drop(columns="valuenum"), "needs LABEVENTS to be CSV, .*valuenum"),
        ("ICUSTAYS", lambda table: table.iloc[:0], "needs stays of adults or newborns; got none in"),
        ("ICUSTAYS", lambda table: table.assign(intime="soon"), "as intime, .*; got 136 other rows, such as"),
        ("LABEVENTS", lambda table: table.assign(valuenum="-99999"), "got none of the known items in LABEVENTS"),
    ],
)
def test_a_damaged_table_is_refused(name, change, message, changed):
    changed(name, change)
    with pytest.raises(data.DataError, match=message):
        mimic3.read("own")


def test_a_folder_without_the_tables_is_refused(tmp_path, monkeypatch):
    with pytest.raises(data.DataError, match=r"mimic3 needs a folder with the tables of MIMIC-III; got .*not one"):
        data.mimic3(tmp_path / "nowhere")
    with pytest.raises(data.DataError, match=r"got no ADMISSIONS, PATIENTS, ICUSTAYS, CHARTEVENTS, LABEVENTS in"):
        data.mimic3(tmp_path)
    monkeypatch.delenv(mimic3.FOLDER, raising=False)
    with pytest.raises(data.DataError, match=r"mimic3 needs \$SINGULARBAYES_MIMIC3, the folder with the tables"):
        mimic3.read("own")
