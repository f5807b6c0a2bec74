"""The features of a stay in PhysioNet 2012, and those that the eICU demo has too: `care_features.csv`.

The table was written down beforehand. Of every sign it has the parameters that PhysioNet calls so, the possible values
(both ends included), what is made of it (`statistics`), and its column in the eICU demo (`apache`).

`FEATURES` mirror the paper's features of MIMIC-III: 44 numbers of the first 48 hours, mean and standard deviation of
what is charted all the time, a mean of what the laboratory reports. Pressures by cuff and by catheter count as one. Of
the 37 time series only cholesterol is left out, which 8 % of the stays have. Saps, Sofa, survival and length of stay
are outcomes, and no features.

`APACHE` is what the eICU demo and PhysioNet share. The demo has no time series, but the variables of the APACHE score:
of the first 24 hours, the value furthest from what is `normal` (Knaus et al. 1991). The same rule makes them from
PhysioNet's series, so that the shift is the patients and not the formula. Of oxygen in the blood it is the lowest
value, because the score has no points for too much. A gender that is not known is missing, −1 is missing, and ages
above 89 are 90 in both.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from singularbayes_experiments import data

APACHE_HOURS = 24
SIGNS = pd.read_csv(
    Path(__file__).with_suffix(".csv"), keep_default_na=False, converters={"normal": lambda n: float(n or 0)}
)
FEATURES = tuple(f"{sign.name}_{kind}" for sign in SIGNS.itertuples(index=False) for kind in sign.statistics.split())
APACHE = SIGNS[SIGNS["apache"] != ""]


@dataclass(frozen=True)
class Stays:
    """Stays of PhysioNet 2012, a row each.

    Attributes:
        features: (stays, 44) of the first 48 hours; apache: (stays, 23) by the APACHE rule. NaN where missing.
        died: whether in the hospital; unit: the kind of intensive care, 1 to 4; sets: "a", "b" or "c".
    """

    features: np.ndarray
    apache: np.ndarray
    died: np.ndarray
    unit: np.ndarray
    sets: np.ndarray


def physionet(sets: str = "abc") -> Stays:
    """Returns the stays of these sets, in the order of their outcomes."""
    return Stays(*(np.concatenate(part) for part in zip(*map(_of_set, sets), strict=True)))


@cache
def _of_set(name: str) -> tuple[np.ndarray, ...]:
    stays = data.physionet2012(name)
    ids = stays.outcomes.index.to_numpy()
    records = stays.records
    place = pd.Index(ids).get_indexer(records["RecordID"])
    minute = records["Time"].map(lambda time: 60 * int(time[:-3]) + int(time[-2:])).astype(int).to_numpy()
    of = {parameter: i for i, each in enumerate(SIGNS["parameters"]) for parameter in each.split()}
    sign = records["Parameter"].map(of).astype(float).fillna(-1).astype(int).to_numpy()
    value = records["Value"].to_numpy()
    low, high = (SIGNS[end].to_numpy()[sign] for end in ("low", "high"))
    kept = (sign >= 0) & (value >= low) & (value <= high)
    early = kept & (minute <= 60 * APACHE_HOURS)
    types = (records["Parameter"] == "ICUType").to_numpy()
    unit = np.zeros(len(ids), int)
    unit[place[types]] = value[types]
    return (
        _statistics(len(ids), place[kept], sign[kept], value[kept]),
        _furthest(len(ids), place[early], sign[early], value[early]),
        stays.outcomes["In-hospital_death"].to_numpy(),
        unit,
        np.full(len(ids), name),
    )


def _statistics(stays: int, row: np.ndarray, sign: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Returns (stays, FEATURES) from one entry a measurement: its stay, its sign and its value."""
    cell, cells = row * len(SIGNS) + sign, stays * len(SIGNS)
    count, total = np.bincount(cell, minlength=cells), np.bincount(cell, value, cells)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count
        variance = np.bincount(cell, (value - mean[cell]) ** 2, cells) / (count - 1)
    of = {
        "mean": mean,
        "sd": np.sqrt(np.where(count > 1, variance, np.nan)),
        "sum": np.where(count > 0, total, np.nan),
        "any": (count > 0).astype(float),
    }
    tables = {name: each.reshape(stays, -1) for name, each in of.items()}
    columns = [tables[kind][:, i] for i, kinds in enumerate(SIGNS["statistics"]) for kind in kinds.split()]
    return np.stack(columns, axis=1)


def _furthest(stays: int, row: np.ndarray, sign: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Returns (stays, APACHE): the value furthest from normal; of urine the sum, of a ventilator whether."""
    order = np.argsort(np.abs(value - SIGNS["normal"].to_numpy()[sign]), kind="stable")
    found = np.full((stays, len(SIGNS)), np.nan)
    found[row[order], sign[order]] = value[order]  # the last one written is the furthest
    whole = _statistics(stays, row, sign, value)
    for kind in ("sum", "any"):
        for i in np.flatnonzero(SIGNS["statistics"] == kind):
            found[:, i] = whole[:, FEATURES.index(f"{SIGNS['name'][i]}_{kind}")]
    return found[:, APACHE.index]


@dataclass(frozen=True)
class Elsewhere:
    """Stays of the eICU demo: (stays, 23) features by the APACHE rule, and whether the patient died in the hospital.

    `died` is NaN where the demo does not have it.
    """

    features: np.ndarray
    died: np.ndarray


@cache
def eicu() -> Elsewhere:
    """Returns the 2,205 stays of the eICU demo that have APACHE variables."""
    tables = data.eicu_demo()
    joined = tables["apacheApsVar"].merge(tables["patient"], on="patientunitstayid", validate="one_to_one")
    joined = joined.sort_values("patientunitstayid", ignore_index=True)
    coma = joined[["eyes", "motor", "verbal"]]
    known = (coma > 0).all(axis=1) & (joined["meds"] != 1)  # 1: drugs forbid to tell
    columns = {
        "age": joined["age"].replace("> 89", "90").astype(float),
        "gender": joined["gender"].map({"Male": 1.0, "Female": 0.0}),
        "coma_scale": coma.sum(axis=1).where(known),
        "fio2": joined["fio2"] / 100,  # percent there
    }
    features = np.stack([np.asarray(columns.get(name, joined.get(name)), float) for name in APACHE["apache"]], axis=1)
    low, high = (APACHE[end].to_numpy() for end in ("low", "high"))
    features = np.where((features >= low) & (features <= high), features, np.nan)
    died = joined["hospitaldischargestatus"].map({"Expired": 1.0, "Alive": 0.0})
    return Elsewhere(features, died.to_numpy(float))
