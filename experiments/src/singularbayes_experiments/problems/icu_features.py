"""The features of a stay in PhysioNet 2012, and those that the eICU demo has too: two tables, written down beforehand.

`SIGNS` mirrors the paper's features of MIMIC-III: 44 numbers of the first 48 hours, mean and standard deviation of what
is charted all the time, a mean of what the laboratory reports. Pressures by cuff and by catheter count as one. Of the
37 time series only cholesterol is left out, which 8 % of the stays have. Saps, Sofa, survival and length of stay are
outcomes, and no features.

`APACHE` is what the eICU demo and PhysioNet share. The demo has no time series, but the variables of the APACHE score:
of the first 24 hours, the value furthest from what is normal (Knaus et al. 1991). The same rule makes them from
PhysioNet's series, so that the shift is the patients and not the formula. Of oxygen in the blood it is the lowest
value, because the score has no points for too much. A gender that is not known is missing, −1 is missing, and ages
above 89 are 90 in both.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from singularbayes_experiments import data

APACHE_HOURS = 24


@dataclass(frozen=True)
class Sign:
    """Something that is measured.

    Args:
        parameters: what PhysioNet calls it.
        low, high: possible values, both ends included.
        statistics: the features made of it: "mean", "sd", "sum", "any".
        apache: its column in the eICU demo; normal: the value from which the furthest one is taken there.
    """

    name: str
    label: str
    unit: str
    parameters: tuple[str, ...]
    low: float
    high: float
    statistics: tuple[str, ...] = ("mean",)
    apache: str = ""
    normal: float = 0.0


_BOTH = ("mean", "sd")
SIGNS = (
    Sign("age", "age, at most 90", "years", ("Age",), 14, 90, apache="age"),
    Sign("male", "gender, 1 for male", "1", ("Gender",), 0, 1, apache="gender"),
    Sign("height", "height", "cm", ("Height",), 100, 250, apache="admissionheight"),
    Sign("weight", "weight", "kg", ("Weight",), 20, 400, apache="admissionweight"),
    Sign("heart_rate", "heart rate", "1/min", ("HR",), 1, 300, _BOTH, "heartrate", 75),
    Sign("systolic", "systolic blood pressure", "mmHg", ("SysABP", "NISysABP"), 1, 400, _BOTH),
    Sign("diastolic", "diastolic blood pressure", "mmHg", ("DiasABP", "NIDiasABP"), 1, 300, _BOTH),
    Sign("mean_pressure", "mean blood pressure", "mmHg", ("MAP", "NIMAP"), 1, 300, _BOTH, "meanbp", 90),
    Sign("respiratory_rate", "respiratory rate", "1/min", ("RespRate",), 1, 150, _BOTH, "respiratoryrate", 19),
    Sign("temperature", "body temperature", "°C", ("Temp",), 20, 45, _BOTH, "temperature", 38),
    Sign("saturation", "oxygen saturation of the blood", "%", ("SaO2",), 1, 100, _BOTH),
    Sign("coma_scale", "Glasgow coma scale", "1", ("GCS",), 3, 15, _BOTH, "coma_scale", 15),
    Sign("urine", "urine", "mL", ("Urine",), 0, 20_000, ("sum",), "urine"),
    Sign("ventilated", "whether a machine breathed", "1", ("MechVent",), 0, 1, ("any",), "vent"),
    Sign("oxygen_fraction", "inspired oxygen", "1", ("FiO2",), 0.2, 1, apache="fio2", normal=0.21),
    Sign("albumin", "albumin", "g/dL", ("Albumin",), 0.1, 10, apache="albumin", normal=13.5),
    Sign("alkaline_phosphatase", "alkaline phosphatase", "IU/L", ("ALP",), 0, 20_000),
    Sign("alt", "alanine aminotransferase", "IU/L", ("ALT",), 0, 50_000),
    Sign("ast", "aspartate aminotransferase", "IU/L", ("AST",), 0, 50_000),
    Sign("bilirubin", "bilirubin, total", "mg/dL", ("Bilirubin",), 0, 100, apache="bilirubin"),
    Sign("urea_nitrogen", "urea nitrogen", "mg/dL", ("BUN",), 0, 400, apache="bun"),
    Sign("creatinine", "creatinine", "mg/dL", ("Creatinine",), 0, 150, apache="creatinine", normal=1),
    Sign("glucose", "glucose", "mg/dL", ("Glucose",), 1, 3000, apache="glucose", normal=130),
    Sign("bicarbonate", "bicarbonate", "mmol/L", ("HCO3",), 1, 100),
    Sign("hematocrit", "haematocrit", "%", ("HCT",), 1, 90, apache="hematocrit", normal=45.5),
    Sign("potassium", "potassium", "mEq/L", ("K",), 0.5, 30),
    Sign("lactate", "lactate", "mmol/L", ("Lactate",), 0, 50),
    Sign("magnesium", "magnesium", "mmol/L", ("Mg",), 0.1, 30),
    Sign("sodium", "sodium", "mEq/L", ("Na",), 50, 250, apache="sodium", normal=145),
    Sign("carbon_dioxide", "CO₂ in arterial blood", "mmHg", ("PaCO2",), 5, 250, apache="pco2", normal=40),
    Sign("oxygen", "O₂ in arterial blood", "mmHg", ("PaO2",), 10, 700, apache="pao2", normal=700),
    Sign("acidity", "pH of arterial blood", "1", ("pH",), 6, 8, apache="ph", normal=7.4),
    Sign("platelets", "platelets", "K/µL", ("Platelets",), 0, 5000),
    Sign("troponin_i", "troponin I", "µg/L", ("TroponinI",), 0, 1000),
    Sign("troponin_t", "troponin T", "µg/L", ("TroponinT",), 0, 1000),
    Sign("white_cells", "white blood cells", "K/µL", ("WBC",), 0, 1000, apache="wbc", normal=11.5),
)
FEATURES = tuple(f"{sign.name}_{statistic}" for sign in SIGNS for statistic in sign.statistics)
APACHE = tuple(sign for sign in SIGNS if sign.apache)


@dataclass(frozen=True)
class Care:
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


@cache
def physionet(sets: str = "abc") -> Care:
    """Returns the stays of these sets, in the order of their outcomes."""
    parts = [_of_set(name) for name in sets]
    return Care(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _of_set(name: str) -> tuple[np.ndarray, ...]:
    stays = data.physionet2012(name).sets[name]
    ids = stays.outcomes.index.to_numpy()
    records = stays.records
    order = np.argsort(ids)
    row = order[np.searchsorted(ids[order], records["RecordID"].to_numpy())]
    minute = _minutes(records["Time"].cat.categories)[records["Time"].cat.codes]
    # A row without a parameter has the code −1 and gets the last entry: none of the signs.
    sign = np.append(_signs(records["Parameter"].cat.categories), -1)[records["Parameter"].cat.codes]
    value = records["Value"].to_numpy()
    low, high = (np.array([getattr(one, end) for one in SIGNS]) for end in ("low", "high"))
    kept = (sign >= 0) & (value >= low[sign]) & (value <= high[sign])
    row, minute, sign, value = (part[kept] for part in (row, minute, sign, value))
    unit = np.zeros(len(ids), int)
    types = records[records["Parameter"] == "ICUType"]
    unit[order[np.searchsorted(ids[order], types["RecordID"].to_numpy())]] = types["Value"].to_numpy()
    early = minute <= 60 * APACHE_HOURS
    return (
        _statistics(len(ids), row, sign, value),
        _furthest(len(ids), row[early], sign[early], value[early]),
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
    columns = [tables[statistic][:, i] for i, one in enumerate(SIGNS) for statistic in one.statistics]
    return np.stack(columns, axis=1)


def _furthest(stays: int, row: np.ndarray, sign: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Returns (stays, APACHE): the value furthest from normal; of urine the sum, of a ventilator whether."""
    distance = np.abs(value - np.array([one.normal for one in SIGNS])[sign])
    order = np.argsort(distance, kind="stable")
    found = np.full((stays, len(SIGNS)), np.nan)
    found[row[order], sign[order]] = value[order]  # the last one written is the furthest
    whole = _statistics(stays, row, sign, value)
    for i, one in enumerate(SIGNS):
        if one.statistics[0] in ("sum", "any"):
            found[:, i] = whole[:, FEATURES.index(f"{one.name}_{one.statistics[0]}")]
    return found[:, [SIGNS.index(one) for one in APACHE]]


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
    tables = data.eicu_demo().tables
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
    features = np.stack([np.asarray(columns.get(one.apache, joined.get(one.apache)), float) for one in APACHE], axis=1)
    low, high = (np.array([getattr(one, end) for one in APACHE]) for end in ("low", "high"))
    features = np.where((features >= low) & (features <= high), features, np.nan)
    died = joined["hospitaldischargestatus"].map({"Expired": 1.0, "Alive": 0.0})
    return Elsewhere(features, died.to_numpy(float))


def markdown() -> str:
    """Returns both tables for readers."""
    rows = ["| features | what | unit | possible | PhysioNet | eICU | furthest from |", "|---|---|---|---|---|---|---|"]
    for sign in SIGNS:
        columns = ", ".join(f"`{sign.name}_{statistic}`" for statistic in sign.statistics)
        single = sign.statistics[0] in ("sum", "any") or sign.name in ("age", "male", "height", "weight")
        normal = f"{sign.normal:g}" if sign.apache and not single else ""
        cells = (columns, sign.label, sign.unit, f"{sign.low:,g} to {sign.high:,g}", ", ".join(sign.parameters))
        rows.append(f"| {' | '.join(cells)} | {sign.apache} | {normal} |")
    return "\n".join(rows)


def _minutes(times) -> np.ndarray:
    return np.array([60 * int(time[:-3]) + int(time[-2:]) for time in times])


def _signs(parameters) -> np.ndarray:
    """Returns the sign of every parameter, −1 for none."""
    of = {parameter: i for i, one in enumerate(SIGNS) for parameter in one.parameters}
    return np.array([of.get(parameter, -1) for parameter in parameters])
