"""Hourly air as windows of rows and the PM2.5 of the row after each; the air of other cities in the same terms.

Rows with a missing value are dropped and the rest are taken as if they followed each other, so a window may step over a
gap: only so are there the paper's 41,733 windows of 24 rows. They are split in the order of time. Every feature is
standardised by the rows of the training windows, each row once, and targets by the training targets: what comes later
in time changes neither.

The features, in this order: PM2.5, dew point, temperature, pressure, cumulated wind speed, cumulated hours of snow and
of rain, four winds (1 for the one that blows), sine and cosine of the hour and of the month.

The tables of other cities differ. What follows was fixed before any score of out-of-distribution windows was seen:

- PM2.5 is that of PM_US Post, as in Beijing. A row counts if no cell of it is missing, other stations included (in
  Guangzhou 20,074 rows, the paper's number); −9999 and what no weather can be is missing.
- Is and Ir: the table has millimetres of precipitation instead. An hour with more than 0 is one of snow at or below
  0 °C and one of rain above; hours in a row are counted up, and a dry hour starts again, as Beijing's own columns do.
  Made from the precipitation of Beijing, which the five cities' table has too, Ir has a correlation of 0.82 with the
  published one and Is of 0.63 (the published hours include traces that measure 0 mm).
- A wind from SW, which Beijing's table lacks, is cv (calm and variable): the one kind that names no direction.
- `without_mapped` takes out all that these rules touch, in any set of windows: scores are reported with and without.
"""

import itertools
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

TIME = ("year", "month", "day", "hour")
WEATHER = ("DEWP", "TEMP", "PRES", "Iws")
WINDS = ("NE", "NW", "SE", "cv")
FEATURES = ("pm2.5", *WEATHER, "Is", "Ir", *WINDS, "hour_sin", "hour_cos", "month_sin", "month_cos")
MAPPED = ("Is", "Ir", *WINDS)
BEIJING = (*TIME, "pm2.5", *WEATHER, "cbwd", "Is", "Ir")
CITY = (*TIME, "PM_US Post", *WEATHER, "HUMI", "cbwd", "precipitation")
FOREIGN_WINDS = {**{wind: wind for wind in WINDS}, "SW": "cv"}
# Whatever lies outside is a code for a missing value: −9999, and −97 for a dew point in Shenyang.
POSSIBLE = {"DEWP": (-60, 40), "HUMI": (0, 100), "TEMP": (-60, 60), "PRES": (800, 1100), "precipitation": (0, 1000)}


@dataclass(frozen=True)
class AirScaling:
    """Means and standard deviations of the features and of the target; those that never vary are divided by 1."""

    mean: np.ndarray
    std: np.ndarray
    target_mean: float
    target_std: float

    @classmethod
    def of(cls, rows: np.ndarray, targets: np.ndarray) -> "AirScaling":
        # The deviation of a number that is always the same may round to more than 0.
        std = np.where(np.ptp(rows, axis=0) > 0, rows.std(axis=0), 1.0)
        target_std = float(targets.std()) if np.ptp(targets) > 0 else 1.0
        return cls(rows.mean(axis=0), std, float(targets.mean()), target_std)


@dataclass(frozen=True)
class Windows:
    """Standardised windows x (windows, hours, features) and the standardised value y (windows,) after each."""

    x: np.ndarray
    y: np.ndarray

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True)
class AirSplit:
    """Windows of the past, of later, and of the latest hours, and what all were standardised by."""

    train: Windows
    validation: Windows
    test: Windows
    scaling: AirScaling


def rows_of(table: "pd.DataFrame", name: str = "the table of Beijing") -> np.ndarray:
    """Returns the complete rows of Beijing's table as features (rows, 15), not standardised, in the order of time."""
    _require_columns(table, BEIJING, name)
    _require_winds(table, WINDS, name)
    return _features(table.dropna(), name)


def rows_of_city(table: "pd.DataFrame", name: str) -> np.ndarray:
    """Returns the complete rows of another city's table as features of Beijing's; see above how they are mapped."""
    _require_columns(table, CITY, name)
    _require_winds(table, FOREIGN_WINDS, name)
    table = table.copy()
    for column, (least, most) in POSSIBLE.items():
        table[column] = table[column].where(table[column].between(least, most))
    wet = (table["precipitation"] > 0).to_numpy()
    cold = (table["TEMP"] <= 0).to_numpy()
    # Before rows are dropped: an hour that lacks a value elsewhere is still one of rain.
    table["Is"], table["Ir"] = count_in_a_row(wet & cold), count_in_a_row(wet & ~cold)
    table["cbwd"] = table["cbwd"].map(FOREIGN_WINDS)
    return _features(table.rename(columns={"PM_US Post": "pm2.5"}).dropna(), name)


def count_in_a_row(happens: np.ndarray) -> np.ndarray:
    """Returns how many hours up to each it has happened without a break.

    >>> count_in_a_row(np.array([True, True, False, True]))
    array([1, 2, 0, 1])
    """
    hours = np.arange(1, len(happens) + 1)
    return hours - np.maximum.accumulate(np.where(happens, 0, hours))


def split(rows: np.ndarray, sizes: tuple[int, int, int], hours: int = 24) -> AirSplit:
    """Returns windows of `rows` in the order of time: some to train on, then to validate, then to test."""
    train, validation, test = sizes
    needed = train + validation + test + hours
    if needed > len(rows):
        raise ValueError(
            f"split needs {needed} complete rows for {train} + {validation} + {test} windows of {hours} rows and a row "
            f"after each; got {len(rows)}."
        )
    scaling = AirScaling.of(rows[: train + hours - 1], rows[hours : train + hours, 0])
    every = windows(rows, scaling, hours)
    ends = np.cumsum([0, *sizes])
    first, second, third = (Windows(every.x[a:b], every.y[a:b]) for a, b in itertools.pairwise(ends))
    return AirSplit(first, second, third, scaling)


def windows(rows: np.ndarray, scaling: AirScaling, hours: int = 24, every: int = 1) -> Windows:
    """Returns all windows of `hours` rows that have a row after them, or every so many-th of them."""
    if len(rows) <= hours:
        raise ValueError(f"windows needs more than {hours} complete rows; got {len(rows)}.")
    scaled = ((rows - scaling.mean) / scaling.std).astype("float32")
    seen = np.lib.stride_tricks.sliding_window_view(scaled[:-1], hours, axis=0)[::every]  # (windows, features, hours)
    targets = (rows[hours::every, 0] - scaling.target_mean) / scaling.target_std
    return Windows(np.ascontiguousarray(seen.transpose(0, 2, 1)), targets.astype("float32"))


def without_mapped(x: np.ndarray) -> np.ndarray:
    """Returns windows with the mapped features at their mean in training, which is 0."""
    x = x.copy()
    x[..., [FEATURES.index(name) for name in MAPPED]] = 0.0
    return x


def ood_rows(tables: Mapping[str, "pd.DataFrame"], cities: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Returns the rows of these cities by name; raises for one that is not there."""
    missing = [city for city in cities if city not in tables]
    if missing:
        raise ValueError(f"ood_rows needs cities among {sorted(tables)}; got {missing[0]!r}.")
    return {city: rows_of_city(tables[city], f"the table of {city}") for city in cities}


def _features(table: "pd.DataFrame", name: str) -> np.ndarray:
    if table.empty:
        raise ValueError(f"{name} needs rows without a missing value; got none.")
    winds = [(table["cbwd"] == wind).to_numpy(float) for wind in WINDS]
    turns = [2 * np.pi * table[unit].to_numpy(float) / full for unit, full in (("hour", 24), ("month", 12))]
    cyclic = [wave(turn) for turn in turns for wave in (np.sin, np.cos)]
    numbers = [table[column].to_numpy(float) for column in ("pm2.5", *WEATHER, "Is", "Ir")]
    return np.stack([*numbers, *winds, *cyclic], axis=1)


def _require_columns(table: "pd.DataFrame", columns: tuple[str, ...], name: str) -> None:
    missing = [column for column in columns if column not in table]
    if missing:
        raise ValueError(f"{name} needs columns {list(columns)}; got no {missing[0]!r} among {list(table.columns)}.")
    words = [column for column in columns if column != "cbwd" and table[column].dtype.kind not in "iuf"]
    if words and len(table):
        raise ValueError(f"{name} needs numbers in {words[0]!r}; got {table[words[0]].dtype}.")


def _require_winds(table: "pd.DataFrame", winds: Collection[str], name: str) -> None:
    """Raises for a wind that is not known, which is not the same as one that is missing."""
    unknown = sorted(set(table["cbwd"].dropna()) - set(winds), key=str)
    if unknown:
        rows = int((table["cbwd"] == unknown[0]).sum())
        raise ValueError(f"{name} needs winds (cbwd) among {list(winds)}; got {unknown[0]!r} in {rows} rows.")
