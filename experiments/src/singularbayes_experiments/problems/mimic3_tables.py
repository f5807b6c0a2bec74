"""Stays and their features from the CSV tables of MIMIC-III, by DuckDB.

CHARTEVENTS has 330 million rows. They stream past: a row that is not of an item, a stay and a time that count is
dropped as it is read, and what is kept is a count, a mean and a deviation a stay and feature.

The paper names the groups of its 44 features and not the features: demographics, the stay, vital signs, and laboratory
results (blood count, metabolic panel, liver, coagulation), "mean and standard deviation per ICU stay where applicable".
So `mimic3_features.csv` is ours: what is measured, its item ids by the system that has them (those in °F, which become
°C, again in the last column), and possible values, both ends included, which hold for newborns too. Vital signs come
from CHARTEVENTS, where CareVue (until 2008) and MetaVision (from 2008) chart them under other ids, and the nursery,
which is in CareVue, has ids of its own. Laboratory results come from LABEVENTS, one system for all. A measurement that
is not possible is dropped; what is merely far out is for the rule of 8 interquartile ranges.

Cells are read as text. A measurement that is no number is no measurement, as where the nurse wrote a word. A stay
without a readable id or time is an error.
"""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from singularbayes_experiments.data import DataError

HOURS = 48
ADULT = 16  # years
OLDEST = 90  # ages above 89 are hidden in MIMIC-III: 300 years and more
LEAK = "length_of_stay"  # not known in the first 48 hours: those who die early leave early
MEASURED = pd.read_csv(Path(__file__).with_name("mimic3_features.csv"), keep_default_na=False, dtype="string").astype(
    {"low": float, "high": float}
)
_OF_STAY = ("age", "male", "hours_before", LEAK)
FEATURES = (
    *_OF_STAY,
    *(f"{one.name}_{kind}" for one in MEASURED.itertuples(index=False) for kind in one.statistics.split()),
)
COLUMNS = {
    "PATIENTS": ("subject_id", "gender", "dob"),
    "ADMISSIONS": ("hadm_id", "admittime", "deathtime", "admission_type"),
    "ICUSTAYS": ("subject_id", "hadm_id", "icustay_id", "intime", "outtime"),
    "CHARTEVENTS": ("icustay_id", "itemid", "charttime", "valuenum", "error"),
    "LABEVENTS": ("hadm_id", "itemid", "charttime", "valuenum"),
}


@dataclass(frozen=True)
class CareStays:
    """Stays in intensive care, a row each.

    Attributes:
        features: (stays, features) in the order of `FEATURES`, NaN where nothing was measured.
        died: whether the patient died in this stay; newborn: whether born in this admission to the hospital.
        patients: the subject of each stay, for splits that keep a patient's stays together.
    """

    features: np.ndarray
    died: np.ndarray
    newborn: np.ndarray
    patients: np.ndarray

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """Returns some of the features."""
        return self.features[:, [FEATURES.index(name) for name in names]]


def read(paths: Mapping[str, Path]) -> CareStays:
    """Returns the stays of adults (16 years and older) and newborns in the order of their ids.

    Args:
        paths: the CSV file of each table, as `data.mimic3` finds them.
    """
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")  # else rows wait in memory for those before them
    # A join keeps its right side in memory. Left to itself, DuckDB may take the large table for the small one.
    connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    items = pd.DataFrame(_items(), columns=["item", "what", "charted", "scale", "zero", "low", "high"])
    connection.register("items", items)
    try:
        for name in COLUMNS:
            _view(connection, name, paths[name])
        _make_stays(connection, paths["ICUSTAYS"])
        stays = connection.execute("SELECT * FROM stays ORDER BY icustay_id").fetchdf()
        measured = connection.execute(_MEASURED).fetchdf()
    except (duckdb.InvalidInputException, duckdb.IOException) as error:
        text = " ".join(str(error).split())[:600]  # it names the file and the line
        raise DataError(f"mimic3 needs tables that can be read as CSV; got another: {text}") from error
    finally:
        connection.close()
    for name, charted in (("CHARTEVENTS", True), ("LABEVENTS", False)):  # else its features are the same for all
        if not measured["what"].isin(items["what"][items["charted"] == charted]).any():
            raise DataError(
                f"mimic3 needs measurements in the first {HOURS} hours of a stay; got none of the known items in "
                f"{name}, {paths[name]}."
            )
    return _arranged(stays, measured)


def _view(connection: duckdb.DuckDBPyConnection, name: str, path: Path) -> None:
    """Names the columns of a table that are read; raises for a file without them."""
    columns, file = ", ".join(COLUMNS[name]), str(path).replace("'", "''")
    try:
        header = {str(column).strip(): "VARCHAR" for column in pd.read_csv(path, nrows=0, encoding="utf-8-sig")}
        options = f"auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', columns = {header}"
        connection.execute(f"CREATE VIEW {name} AS SELECT {columns} FROM read_csv('{file}', {options})")
    except (duckdb.Error, OSError, EOFError, zlib.error, ValueError) as error:
        text = " ".join(str(error).split())[:300]
        raise DataError(f"mimic3 needs {name} to be CSV, in UTF-8, with {columns}; got {path}: {text}") from error


def _make_stays(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Makes the table of stays that count; raises where an id or a time of a stay cannot be read."""
    connection.execute(_STAYS)
    bad: Any = connection.execute("SELECT count(*), min(row) FROM all_stays WHERE bad").fetchone()
    if bad[0]:
        raise DataError(
            f"mimic3 needs ICUSTAYS to have integers as ids and yyyy-mm-dd hh:mm:ss as intime, for a patient and "
            f"an admission that are in their tables; got {bad[0]} other rows, such as {bad[1]}, in {path}."
        )
    connection.execute(f"CREATE TABLE stays AS SELECT * FROM all_stays WHERE newborn OR age >= {ADULT}")
    if connection.execute("SELECT count(*) FROM stays").fetchone() == (0,):
        raise DataError(f"mimic3 needs stays of adults or newborns; got none in {path}.")


_STAYS = f"""
CREATE TABLE all_stays AS
WITH admissions_ AS (
    SELECT try_cast(hadm_id AS INTEGER) AS hadm, try_cast(admittime AS TIMESTAMP) AS admittime,
           try_cast(deathtime AS TIMESTAMP) AS deathtime, upper(trim(admission_type)) AS kind
    FROM ADMISSIONS
), patients_ AS (
    SELECT try_cast(subject_id AS INTEGER) AS subject, upper(trim(gender)) AS gender, try_cast(dob AS TIMESTAMP) AS dob
    FROM PATIENTS
), icustays_ AS (
    SELECT try_cast(icustay_id AS INTEGER) AS icustay_id, try_cast(hadm_id AS INTEGER) AS hadm,
           try_cast(subject_id AS INTEGER) AS subject, try_cast(intime AS TIMESTAMP) AS intime,
           try_cast(outtime AS TIMESTAMP) AS outtime,
           concat_ws(',', subject_id, hadm_id, icustay_id, intime) AS row
    FROM ICUSTAYS
)
SELECT icustay_id, hadm, s.subject AS patient, intime, row,
       least(outtime, intime + INTERVAL {HOURS} HOUR) AS until,
       (icustay_id IS NULL OR intime IS NULL OR a.hadm IS NULL OR p.subject IS NULL OR dob IS NULL) AS bad,
       coalesce(kind = 'NEWBORN', false) AS newborn,
       coalesce(deathtime BETWEEN intime AND coalesce(outtime, deathtime), false) AS died,
       least(date_diff('day', dob, intime) / 365.25, {OLDEST}) AS age,
       CASE gender WHEN 'M' THEN 1.0 WHEN 'F' THEN 0.0 END AS male,
       date_diff('minute', admittime, intime) / 60.0 AS hours_before,
       date_diff('minute', intime, outtime) / 1440.0 AS {LEAK}
FROM icustays_ s LEFT JOIN admissions_ a USING (hadm) LEFT JOIN patients_ p ON p.subject = s.subject
"""

# `error` is 1 where MetaVision marks a value as wrong; CareVue leaves it empty.
_MEASURED = """
WITH charted AS (
    SELECT s.icustay_id, m.what, m.low, m.high, m.scale * (try_cast(c.valuenum AS DOUBLE) - m.zero) AS value
    FROM CHARTEVENTS c JOIN items m ON m.charted AND try_cast(c.itemid AS INTEGER) = m.item
    JOIN stays s ON s.icustay_id = try_cast(c.icustay_id AS INTEGER)
    WHERE try_cast(c.charttime AS TIMESTAMP) BETWEEN s.intime AND s.until AND coalesce(trim(c.error), '0') <> '1'
), tested AS (
    SELECT s.icustay_id, m.what, m.low, m.high, m.scale * (try_cast(l.valuenum AS DOUBLE) - m.zero) AS value
    FROM LABEVENTS l JOIN items m ON NOT m.charted AND try_cast(l.itemid AS INTEGER) = m.item
    JOIN stays s ON s.hadm = try_cast(l.hadm_id AS INTEGER)
    WHERE try_cast(l.charttime AS TIMESTAMP) BETWEEN s.intime AND s.until
)
SELECT icustay_id AS stay, what, avg(value) AS mean, stddev_samp(value) AS sd
FROM (SELECT * FROM charted UNION ALL SELECT * FROM tested) WHERE value BETWEEN low AND high
GROUP BY icustay_id, what
"""


def _items() -> list[tuple]:
    """Returns a row for every item id; a value in the unit of its feature is scale · (value − zero)."""
    rows = []
    for what, one in MEASURED.iterrows():
        for system in ("carevue", "metavision", "nursery", "laboratory"):
            for item in one[system].split():
                scale, zero = (5 / 9, 32.0) if item in one["fahrenheit"].split() else (1.0, 0.0)
                rows.append((int(item), what, system != "laboratory", scale, zero, one["low"], one["high"]))
    return rows


def _arranged(stays: pd.DataFrame, measured: pd.DataFrame) -> CareStays:
    """Returns the features by stay from a row a stay, and a row a stay and thing measured."""
    found = stays.set_index("icustay_id")
    for kind in ("mean", "sd"):
        wide = measured.pivot(index="stay", columns="what", values=kind)
        found = found.join(wide.set_axis([f"{MEASURED['name'][what]}_{kind}" for what in wide], axis=1))
    features = found.reindex(columns=list(FEATURES)).to_numpy("float64", na_value=np.nan)
    return CareStays(features, *(found[name].to_numpy() for name in ("died", "newborn", "patient")))
