"""Tables of air made up: Beijing's columns, and those of another city."""

import numpy as np
import pandas as pd


def _clock(hours: int) -> dict[str, np.ndarray]:
    times = pd.date_range("2010-01-01", periods=hours, freq="h")
    return {name: getattr(times, name).to_numpy() for name in ("year", "month", "day", "hour")}


def _weather(hours: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {
        "DEWP": rng.integers(-20, 20, hours),
        "TEMP": rng.integers(-10, 30, hours).astype(float),
        "PRES": rng.normal(1016, 8, hours),
        "Iws": rng.exponential(20, hours),
    }


def dust(hours: int, rng: np.random.Generator) -> np.ndarray:
    """PM2.5 that goes on from hour to hour, so that the last hours say something of the next."""
    level = np.cumsum(rng.normal(0, 8, hours)) * 0.5
    return np.maximum(1.0, 90 + 40 * np.sin(np.arange(hours) / 9) + level - level.mean())


def beijing(hours: int = 400, seed: int = 0) -> pd.DataFrame:
    """A table with Beijing's columns; every 40th hour has no PM2.5."""
    rng = np.random.default_rng(seed)
    pm = dust(hours, rng)
    pm[::40] = np.nan
    wet = rng.integers(0, 2, hours)
    columns = {"No": np.arange(1, hours + 1), **_clock(hours), "pm2.5": pm, **_weather(hours, rng)}
    return pd.DataFrame(columns | {"cbwd": rng.choice(["NE", "NW", "SE", "cv"], hours), "Is": 0 * wet, "Ir": wet})


def city(hours: int = 200, seed: int = 1) -> pd.DataFrame:
    """A table with the columns of one of the five cities."""
    rng = np.random.default_rng(seed)
    rain = np.where(rng.random(hours) < 0.5, rng.exponential(1.0, hours), 0.0)
    stations = {"PM_Somewhere": dust(hours, rng), "PM_US Post": dust(hours, rng)}
    winds = rng.choice(["NE", "NW", "SE", "SW", "cv"], hours)
    more = {"HUMI": rng.uniform(10, 100, hours), "cbwd": winds, "precipitation": rain, "Iprec": rain}
    columns = {"No": np.arange(1, hours + 1), **_clock(hours), "season": np.ones(hours), **stations}
    return pd.DataFrame(columns | _weather(hours, rng) | more)
