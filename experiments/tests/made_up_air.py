"""Tables of air: Beijing's columns, and those of another city."""

import numpy as np
import pandas as pd
from singularbayes_experiments import data
from singularbayes_experiments.problems import air


def _columns(hours: int, rng: np.random.Generator, winds) -> dict[str, np.ndarray]:
    times = pd.date_range("2010-01-01", periods=hours, freq="h")
    weather = {"DEWP": rng.integers(-20, 20, hours), "TEMP": rng.integers(-10, 30, hours).astype(float)}
    weather |= {"PRES": rng.normal(1016, 8, hours), "Iws": rng.exponential(20, hours), "cbwd": rng.choice(winds, hours)}
    return {name: getattr(times, name).to_numpy() for name in ("year", "month", "day", "hour")} | weather


def dust(hours: int, rng: np.random.Generator) -> np.ndarray:
    """PM2.5 that goes on from hour to hour, so that the last hours say something of the next."""
    level = np.cumsum(rng.normal(0, 8, hours)) * 0.5
    return np.maximum(1.0, 90 + 40 * np.sin(np.arange(hours) / 9) + level - level.mean())


def beijing(hours: int = 400) -> pd.DataFrame:
    """Every 40th hour has no PM2.5."""
    rng = np.random.default_rng(0)
    pm, wet = dust(hours, rng), rng.integers(0, 2, hours)
    pm[::40] = np.nan
    return pd.DataFrame({"pm2.5": pm, **_columns(hours, rng, air.WINDS), "Is": 0 * wet, "Ir": wet})


def city(hours: int = 200, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rain = np.where(rng.random(hours) < 0.5, rng.exponential(1.0, hours), 0.0)
    stations = {"PM_Somewhere": dust(hours, rng), "PM_US Post": dust(hours, rng)}
    more = {"HUMI": rng.uniform(10, 100, hours), "precipitation": rain}
    return pd.DataFrame(stations | more | _columns(hours, rng, [*air.WINDS, "SW"]))


def install(monkeypatch) -> None:
    """Puts them in the place of the real ones."""
    cities = {name: city(seed=i) for i, name in enumerate(air.CITIES)}
    monkeypatch.setattr(data, "beijing_pm25", lambda: beijing())
    monkeypatch.setattr(data, "five_cities_pm25", lambda: cities)
