"""Stays in intensive care. Tables are as published: nothing is dropped, converted or filled in."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from singularbayes_experiments.data.files import SETS, DataError, locate, read, read_csv

RECORD_HEAD = b"Time,Parameter,Value\n"
MIMIC3_NEEDED = ("ADMISSIONS", "PATIENTS", "ICUSTAYS", "CHARTEVENTS", "LABEVENTS")


@dataclass(frozen=True)
class Stays:
    """What was measured, a row each (RecordID, Time hh:mm, Parameter, Value), and how each stay ended, by RecordID.

    A record opens with RecordID, Age, Gender, Height, ICUType and Weight at 00:00; −1 means unknown. ICUType is 1
    coronary care, 2 cardiac surgery recovery, 3 medical, 4 surgical.
    """

    records: pd.DataFrame
    outcomes: pd.DataFrame


def mimic3_demo() -> dict[str, Path]:
    """Returns the files of the 25 tables of the MIMIC-III demo: 100 patients, 129 admissions, 136 stays.

    They are not read, because those of the full MIMIC-III are too large for memory.
    """
    return {name.removesuffix(".csv"): locate("mimic3_demo", name) for name in SETS["mimic3_demo"].files}


def mimic3(folder: str | Path) -> dict[str, Path]:
    """Returns the tables of MIMIC-III in a folder of your own: `ADMISSIONS.csv.gz` and the like, unchecked.

    Files may be packed or not, and their names in any case. The full MIMIC-III needs an account at PhysioNet.
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise DataError(f"mimic3 needs a folder with the tables of MIMIC-III; got {str(place)!r}, which is not one.")
    paths: dict[str, Path] = {}
    for path in sorted(place.iterdir()):
        name = path.name.upper().removesuffix(".GZ")
        if name.endswith(".CSV") and path.is_file():
            paths.setdefault(name.removesuffix(".CSV"), path)  # unpacked, where both are there
    missing = [name for name in MIMIC3_NEEDED if name not in paths]
    if missing:
        raise DataError(
            f"mimic3 needs {', '.join(f'{name}.csv' for name in MIMIC3_NEEDED)}, packed by gzip or not; got no "
            f"{', '.join(missing)} in {str(place)!r}."
        )
    return paths


def eicu_demo() -> dict[str, pd.DataFrame]:
    """Returns five tables of the eICU demo, 2,520 stays.

    They are patient, hospital, apacheApsVar, apachePredVar and apachePatientResult; they join on patientunitstayid, and
    on hospitalid. Age is text: `> 89` stands for all ages above. In the APACHE tables −1 means missing.
    """
    return {name.removesuffix(".csv"): read_csv(read("eicu_demo", name)) for name in SETS["eicu_demo"].files}


def physionet2012(name: str) -> Stays:
    """Returns set a, b or c of the PhysioNet Challenge 2012, 4,000 stays each.

    In set c 2,403 rows have no Parameter; they are left as published.
    """
    if name not in ("a", "b", "c"):
        raise ValueError(f"physionet2012 needs one of the sets a, b and c; got {name!r}.")
    raw = read("physionet2012", f"set-{name}.tar.gz").replace(RECORD_HEAD, b"")
    kinds = {"Time": "category", "Parameter": "category", "Value": "float64"}
    records = read_csv(raw, names=list(kinds), dtype=kinds)
    # Every record opens with its number.
    number = records["Value"].where(records["Parameter"] == "RecordID").ffill().astype("int64")
    records.insert(0, "RecordID", number)
    outcomes = read_csv(read("physionet2012", f"Outcomes-{name}.txt")).set_index("RecordID")
    return Stays(records, outcomes)
