"""Fine dust in the air of Chinese cities, by the hour. Tables are as published: nothing is dropped or filled in."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from singularbayes_experiments.data.catalogue import BEIJING_PM25, FIVE_CITIES_PM25
from singularbayes_experiments.data.read import read
from singularbayes_experiments.data.tables import csv

if TYPE_CHECKING:
    import pandas as pd

CITIES = ("Beijing", "Chengdu", "Guangzhou", "Shanghai", "Shenyang")


@dataclass(frozen=True)
class Air:
    """A row an hour, in the order of time; what was not measured is NaN."""

    table: "pd.DataFrame"
    description: str


@dataclass(frozen=True)
class Cities:
    """The table of each city by its name; a row an hour, in the order of time."""

    tables: dict[str, "pd.DataFrame"]
    description: str


def beijing_pm25() -> Air:
    """Returns PM2.5 and weather of Beijing, 2010 to 2014: 43,824 hours.

    Columns: No, year, month, day, hour, pm2.5 (µg/m³), DEWP and TEMP (°C), PRES (hPa), cbwd (wind: NE, NW, SE, or cv,
    calm and variable), Iws (m/s), Is and Ir (hours of snow and rain); the last three are cumulated. Only pm2.5 has
    missing values.

    >>> beijing_pm25().table["pm2.5"].isna().sum()  # doctest: +SKIP
    np.int64(2067)
    """
    (file,) = BEIJING_PM25.files
    return Air(csv(read(BEIJING_PM25, file.name), missing="NA"), BEIJING_PM25.description)


def five_cities_pm25() -> Cities:
    """Returns PM2.5 at several stations and weather of five cities, 2010 to 2015: 52,584 hours each.

    Columns: No, year, month, day, hour, season, PM_<station> (µg/m³), DEWP, HUMI, PRES, TEMP, cbwd, Iws, precipitation
    and Iprec (mm, by the hour and cumulated). All five have PM_US Post. In Guangzhou, hours 34637 to 34640 have −9999
    in DEWP and HUMI, which means missing; it is left as published.

    >>> five_cities_pm25().tables["Guangzhou"]["PM_US Post"].notna().sum()  # doctest: +SKIP
    np.int64(32352)
    """
    tables = {city: csv(read(FIVE_CITIES_PM25, f"{city}PM20100101_20151231.csv"), missing="NA") for city in CITIES}
    return Cities(tables, FIVE_CITIES_PM25.description)
