"""Fine dust in the air of Chinese cities, by the hour. Tables are as published: nothing is dropped or filled in."""

import pandas as pd

from singularbayes_experiments.data.files import read, read_csv

CITIES = ("Beijing", "Chengdu", "Guangzhou", "Shanghai", "Shenyang")


def beijing_pm25() -> pd.DataFrame:
    """Returns PM2.5 and weather of Beijing, 2010 to 2014: 43,824 hours in the order of time.

    Columns: No, year, month, day, hour, pm2.5 (µg/m³), DEWP and TEMP (°C), PRES (hPa), cbwd (wind: NE, NW, SE, or cv,
    calm and variable), Iws (m/s), Is and Ir (hours of snow and rain); the last three are cumulated. Only pm2.5 has
    missing values.
    """
    return read_csv(read("beijing_pm25", "PRSA_data_2010.1.1-2014.12.31.csv"), missing="NA")


def five_cities_pm25() -> dict[str, pd.DataFrame]:
    """Returns PM2.5 at several stations and weather of five cities, 2010 to 2015: 52,584 hours each.

    Columns: No, year, month, day, hour, season, PM_<station> (µg/m³), DEWP, HUMI, PRES, TEMP, cbwd, Iws, precipitation
    and Iprec (mm, by the hour and cumulated). All five have PM_US Post. In Guangzhou, hours 34637 to 34640 have −9999
    in DEWP and HUMI, which means missing; it is left as published.
    """
    files = {city: read("five_cities_pm25", f"{city}PM20100101_20151231.csv") for city in CITIES}
    return {city: read_csv(raw, missing="NA") for city, raw in files.items()}
