"""Synthetic tables in the shape of MIMIC-III, made up from nothing: for what the open demo lacks, which is newborns."""

import gzip
from pathlib import Path

import numpy as np
from singularbayes_experiments.problems.mimic3_tables import MEASURED

HEADS = {
    "PATIENTS": "ROW_ID,SUBJECT_ID,GENDER,DOB,DOD",
    "ADMISSIONS": "ROW_ID,SUBJECT_ID,HADM_ID,ADMITTIME,DISCHTIME,DEATHTIME,ADMISSION_TYPE",
    "ICUSTAYS": "ROW_ID,SUBJECT_ID,HADM_ID,ICUSTAY_ID,DBSOURCE,INTIME,OUTTIME,LOS",
    "CHARTEVENTS": "ROW_ID,SUBJECT_ID,HADM_ID,ICUSTAY_ID,ITEMID,CHARTTIME,VALUE,VALUENUM,VALUEUOM,ERROR",
    "LABEVENTS": "ROW_ID,SUBJECT_ID,HADM_ID,ITEMID,CHARTTIME,VALUE,VALUENUM,VALUEUOM,FLAG",
}
# Heart rate, systolic, respiratory rate, temperature, saturation, diastolic, mean pressure: item id, value, and the
# spread between patients.
_ADULT = ((211, 85, 10), (51, 120, 10), (618, 18, 3), (678, 98.6, 0.5), (646, 97, 1), (8368, 70, 5), (52, 85, 5))
_NURSERY = ((211, 150, 5), (3313, 65, 5), (3603, 45, 3), (3655, 36.6, 0.3), (834, 95, 1), (8502, 40, 3), (3312, 50, 3))
_LABS = tuple((one.laboratory.split()[0], (one.low + one.high) / 2) for one in MEASURED.itertuples() if one.laboratory)


def tables(adults: int = 40, newborns: int = 12) -> dict[str, list[str]]:
    """Returns the lines of every table, heads first. Every fourth adult dies, with a faster heart."""
    lines = {name: [head] for name, head in HEADS.items()}
    for i in range(adults + newborns):
        add_stay(lines, i + 1, newborn=i >= adults, died=i < adults and i % 4 == 0)
    return lines


def add_stay(lines: dict[str, list[str]], number: int, newborn: bool, died: bool) -> None:
    """Adds one patient with one admission and one stay of three days, measured every six hours of the first two."""
    rng = np.random.default_rng(number)
    subject, hadm, stay = number, 1000 + number, 2000 + number
    dob = "2101-01-01 00:00:00" if newborn else f"{2101 - 20 - number}-01-01 00:00:00"
    lines["PATIENTS"].append(f"{number},{subject},{'MF'[number % 2]},{dob},")
    death = "2101-01-04 00:00:00" if died else ""
    kind = "NEWBORN" if newborn else "EMERGENCY"
    lines["ADMISSIONS"].append(f"{number},{subject},{hadm},2101-01-01 00:00:00,2101-01-09 00:00:00,{death},{kind}")
    lines["ICUSTAYS"].append(f"{number},{subject},{hadm},{stay},carevue,2101-01-01 06:00:00,2101-01-04 06:00:00,3.0")
    for item, normal, spread in _NURSERY if newborn else _ADULT:
        own = normal + spread * rng.uniform(-1.7, 1.7) + (30 if died and item == 211 else 0)
        for hour, more in ((8, -0.5), (14, 0.0), (20, 0.5)):
            lines["CHARTEVENTS"].append(charted(stay, item, f"2101-01-01 {hour:02}:00:00", f"{own + more:.2f}"))
    for item, value in _LABS:
        lines["LABEVENTS"].append(
            f"1,{subject},{hadm},{item},2101-01-01 09:00:00,x,{value * rng.normal(1, 0.1):.2f},u,"
        )


def charted(stay: int, item: int, time: str, value: str, error: str = "") -> str:
    """Returns a line of CHARTEVENTS."""
    return f'1,1,1,{stay},{item},{time},"a ""quoted"", word",{value},u,{error}'


def write(lines: dict[str, list[str]], folder: Path, lower: bool = False, packed: bool = False) -> Path:
    """Writes the tables, their names and columns in lower case or not, packed by gzip or not; returns the folder."""
    folder.mkdir(exist_ok=True)
    for name, (head, *rest) in lines.items():
        text = "\n".join([head.lower() if lower else head, *rest, ""]).encode()
        path = folder / f"{name.lower() if lower else name}.csv{'.gz' if packed else ''}"
        path.write_bytes(gzip.compress(text) if packed else text)
    return folder
