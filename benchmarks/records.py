"""Records: what was measured, when, where and of which code. A record is one JSON file in benchmarks/records."""

import json
import os
import platform
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
RECORDS = Path(__file__).parent / "records"
LOAD = os.getloadavg()[0]  # what others ran before the measurement began


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def machine() -> dict[str, Any]:
    info = Path("/proc/cpuinfo")
    models = [line.split(": ")[1] for line in info.read_text().splitlines() if line.startswith("model name")]
    return {"cpu": (models or [platform.processor()])[0], "cores": os.cpu_count(), "load": round(LOAD, 2)}


def summary(seconds: list[float]) -> dict[str, Any]:
    """Returns the median and the quartiles in milliseconds, and of how many rounds they are."""
    q1, median, q3 = (float(q) for q in np.quantile(1e3 * np.array(seconds), [0.25, 0.5, 0.75]))
    return {"median_ms": median, "q1_ms": q1, "q3_ms": q3, "rounds": len(seconds)}


def ratio(seconds: list[float], base: list[float]) -> list[float]:
    """Returns the ratio of the medians over the rounds that both took part in, and its 95 % bootstrap interval."""
    count = min(len(seconds), len(base))
    pairs = np.array([seconds[:count], base[:count]])
    rounds = np.random.default_rng(0).integers(0, count, (2000, count))
    medians = np.median(pairs[:, rounds], axis=-1)  # (2, resamples)
    low, high = np.quantile(medians[0] / medians[1], [0.025, 0.975])
    return [float(value) for value in (np.divide(*np.median(pairs, axis=-1)), low, high)]


def write(name: str, content: dict[str, Any]) -> Path:
    mark = "-dirty" if git("status", "--porcelain", "--", "src/*.py", "benchmarks/*.py") else ""
    head = {"command": shlex.join(["python", *sys.argv]), "commit": git("rev-parse", "--short=10", "HEAD") + mark}
    head |= {"date": datetime.now(UTC).isoformat(timespec="seconds")}
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps({**head, "machine": machine(), **content}, indent=1, ensure_ascii=False) + "\n")
    return path


def read(name: str) -> dict[str, Any] | None:
    """Returns a record, or None where nothing was measured yet."""
    path = RECORDS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None
