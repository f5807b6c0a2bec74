"""Timing rivals side by side: one repeat of each in turn, so that a slow minute of the machine hits all alike."""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from singularbayes.experiments.record import machine, versions

RECORDS = Path(__file__).parent / "records"


def seconds(
    rivals: dict[str, Callable[[], object]], repeats: int, warm_up: int = 2, label=""
) -> dict[str, list[float]]:
    """Returns the wall times of every rival: `repeats` of each, in turn, after `warm_up` that are not counted."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for repeat in track(range(warm_up + repeats), description=label, console=Console(stderr=True), transient=True):
        for name, run in rivals.items():
            start = time.perf_counter()
            run()
            if repeat >= warm_up:
                times[name].append(time.perf_counter() - start)
    return times


def summary(times: dict[str, list[float]], per: int) -> dict[str, dict[str, float]]:
    """Returns the median and quartiles of every rival, in milliseconds a step, with `per` steps to a repeat."""
    quartiles = {name: np.quantile(values, [0.5, 0.25, 0.75]) * 1e3 / per for name, values in times.items()}
    return {
        name: dict(zip(("median_ms", "q1_ms", "q3_ms"), map(float, q), strict=True)) for name, q in quartiles.items()
    }


def ratio(times: dict[str, list[float]], rival: str, base: str) -> float:
    """Returns the median over repeats of the ratio within a repeat."""
    return float(np.median(np.array(times[rival]) / np.array(times[base])))


def report(name: str, results: dict[str, dict]) -> None:
    """Prints a table for people and keeps a record for machines.

    `results` maps a network to its `steps` (see `summary`) and `ratios`, for example "low_rank / keras": (0.3, 0.45).
    """
    table = Table("network", "rival", "ms a step (median)", "quartiles", title=name)
    goals = Table("network", "ratio", "measured", "goal")
    for network, result in results.items():
        for rival, step in result["steps"].items():
            table.add_row(network, rival, f"{step['median_ms']:.3f}", f"{step['q1_ms']:.3f} to {step['q3_ms']:.3f}")
        for pair, (value, goal) in result["ratios"].items():
            goals.add_row(network, pair, f"{value:.3f}", "" if goal is None else f"at most {goal}")
    for shown in (table, goals):
        Console().print(shown)
    record = {
        "command": " ".join(["python", *map(_relative, sys.argv)]),
        "versions": versions(),
        "machine": machine(),
        "results": results,
    }
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    Console().print(f"Kept in {_relative(str(path))}")


def _relative(path: str) -> str:
    root = Path(__file__).parent.parent
    return str(Path(path).resolve().relative_to(root)) if Path(path).exists() else path
