"""Stays and their features from the CSV tables of MIMIC-III, by DuckDB.

CHARTEVENTS has 330 million rows. They stream past: a row that is not of an item, a stay and a time that count is
dropped as it is read, and what is kept is a count, a mean and a deviation a stay and feature.

Cells are read as text. A measurement that is no number is no measurement, as where the nurse wrote a word. A stay
without a readable id or time is an error.
"""

import gzip
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from singularbayes.checks import require_package
from singularbayes_experiments.data import DataError
from singularbayes_experiments.problems.mimic3_features import FEATURES, LABS, LEAK, MEASURED, VITALS

HOURS = 48
ADULT = 16  # years
OLDEST = 90  # ages above 89 are hidden in MIMIC-III: 300 years and more
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

    def columns(self, names: tuple[str, ...]) -> np.ndarray:
        """Returns some of the features."""
        return self.features[:, [FEATURES.index(name) for name in names]]


def read(paths: Mapping[str, Path]) -> CareStays:
    """Returns the stays of adults (16 years and older) and newborns in the order of their ids.

    Args:
        paths: the CSV file of each table, as `data.mimic3` finds them.
    """
    duckdb = require_package("duckdb", "", "MIMIC-III", "singularbayes-experiments")
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")  # else rows wait in memory for those before them
    # A join keeps its right side in memory. Left to itself, DuckDB may take the large table for the small one.
    connection.execute("SET disabled_optimizers = 'join_order,build_side_probe_side'")
    for name, columns in COLUMNS.items():
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {_csv(name, paths[name], columns)}")
    try:
        _make_stays(connection, paths)
        _make_items(connection)
        stays = connection.execute("SELECT * FROM stays ORDER BY icustay_id").fetchnumpy()
        measured = connection.execute(_MEASURED).fetchnumpy()
    except (duckdb.InvalidInputException, duckdb.IOException) as error:
        text = " ".join(str(error).split())[:600]  # it names the file and the line
        raise DataError(f"mimic3 needs tables that can be read as CSV; got another: {text}") from error
    finally:
        connection.close()
    _require_measurements(measured["what"], paths)
    return _arranged(stays, measured)


def _require_measurements(what: np.ndarray, paths: Mapping[str, Path]) -> None:
    """Raises for a table of measurements without a single one: its features would be the same for all stays."""
    for name, known in (("CHARTEVENTS", VITALS), ("LABEVENTS", LABS)):
        if not np.isin(what, [MEASURED.index(one) for one in known]).any():
            raise DataError(
                f"mimic3 needs measurements in the first {HOURS} hours of a stay; got none of the known items in "
                f"{name}, {paths[name]}."
            )


def _make_stays(connection: Any, paths: Mapping[str, Path]) -> None:
    """Makes the table of stays that count; raises where an id or a time of a stay cannot be read."""
    connection.execute(_STAYS)
    bad = connection.execute("SELECT count(*), min(row) FROM all_stays WHERE bad").fetchone()
    if bad[0]:
        raise DataError(
            f"mimic3 needs ICUSTAYS to have integers as ids and yyyy-mm-dd hh:mm:ss as intime, for a patient and "
            f"an admission that are in their tables; got {bad[0]} other rows, such as {bad[1]}, in {paths['ICUSTAYS']}."
        )
    connection.execute(f"CREATE TABLE stays AS SELECT * FROM all_stays WHERE newborn OR age >= {ADULT}")
    if not connection.execute("SELECT count(*) FROM stays").fetchone()[0]:
        raise DataError(f"mimic3 needs stays of adults or newborns; got none in {paths['ICUSTAYS']}.")


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


def _make_items(connection: Any) -> None:
    """Makes the table of item ids; a value in the unit of its feature is scale · (value − zero)."""
    connection.execute(
        "CREATE TABLE items (item INTEGER, what INTEGER, charted BOOLEAN, scale DOUBLE, zero DOUBLE, low DOUBLE, "
        "high DOUBLE)"
    )
    rows = []
    for what, one in enumerate(MEASURED):
        for system, items in one.items.items():
            for item in items:
                scale, zero = (5 / 9, 32.0) if item in one.fahrenheit else (1.0, 0.0)
                rows.append((item, what, system != "laboratory", scale, zero, one.low, one.high))
    connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def _arranged(stays: dict[str, np.ndarray], measured: dict[str, np.ndarray]) -> CareStays:
    """Returns the features by stay from a row a stay, and a row a stay and thing measured."""
    features = np.full((len(stays["icustay_id"]), len(FEATURES)), np.nan)
    for i, name in enumerate(FEATURES):
        if name in stays:
            features[:, i] = _numbers(stays[name])
    rows = np.searchsorted(stays["icustay_id"], measured["stay"])
    for statistic in ("mean", "sd"):
        values = _numbers(measured[statistic])
        for what, one in enumerate(MEASURED):
            name, here = f"{one.name}_{statistic}", measured["what"] == what
            if name in one.features:
                features[rows[here], FEATURES.index(name)] = values[here]
    died, newborn, patients = (np.asarray(stays[name]) for name in ("died", "newborn", "patient"))
    return CareStays(features, died, newborn, patients)


def _numbers(column: np.ndarray) -> np.ndarray:
    """Returns a column with NaN where DuckDB has NULL, which it masks."""
    return np.ma.filled(np.ma.asarray(column).astype("float64"), np.nan)


def _csv(name: str, path: Path, needed: tuple[str, ...]) -> str:
    """Returns the SQL that reads a table as text; raises unless its first line names the columns."""
    header = [cell.strip().strip('"').lower() for cell in _head(name, path).split(",")]
    missing = [column for column in needed if column not in header]
    if missing:
        raise DataError(
            f"mimic3 needs the columns {', '.join(needed)} in {name}; got no {', '.join(missing)} in {path}, whose "
            f"first line is {','.join(header)[:200]!r}."
        )
    columns = ", ".join(f"{_quoted(column)}: 'VARCHAR'" for column in header)
    return (
        f"read_csv({_quoted(str(path))}, auto_detect = false, header = true, delim = ',', quote = '\"', "
        f"escape = '\"', columns = {{{columns}}})"
    )


def _head(name: str, path: Path) -> str:
    """Returns the first line of a table."""
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            line = file.readline(10_000)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"mimic3 needs {name} to be a CSV file, packed by gzip or not; got {path}: {error}.") from error
    if not line.strip():
        raise DataError(f"mimic3 needs {name} to have a line of column names; got an empty file, {path}.")
    if b"\0" in line:
        raise DataError(
            f"mimic3 needs {name} to be text in UTF-8; got NUL bytes in the first line of {path}. Is it in UTF-16?"
        )
    return line.decode("utf-8-sig", "replace").rstrip("\r\n")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
