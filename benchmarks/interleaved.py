"""Timing rivals side by side: one repeat of each in turn, so that a slow minute of the machine hits all alike."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from singularbayes_experiments.records.record import machine, versions


def commit() -> str:
    """Returns the commit of the code, with a mark where code has changed since; records and pages may have."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(Path(__file__).parent.parent), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "src/*.py", "benchmarks/*.py")
        return git("rev-parse", "--short=10", "HEAD") + ("-dirty" if changed else "")
    except (OSError, subprocess.CalledProcessError):  # no repository, or no git
        return "unknown"


LOAD = os.getloadavg()[0]  # processes that others had running when we came
COMMIT = commit()  # when we came
RECORDS = Path(__file__).parent / "records"
FEWEST = 3  # repeats of a rival, however slow


class Absent(Exception):
    """A rival that cannot take part, and why."""


def seconds(
    rivals: dict[str, Callable[[], float]], repeats: int, patience: float = 20.0, label: str = ""
) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Returns the times that every rival gives, one of each in turn; and why others, who failed, have none.

    A rival that has taken part for `patience` seconds drops out, but not before its third repeat.
    """
    times: dict[str, list[float]] = {name: [] for name in rivals}
    absent: dict[str, str] = {}
    spent = dict.fromkeys(rivals, 0.0)
    for repeat in track(range(repeats), description=label, console=Console(stderr=True), transient=True):
        for name in [name for name in times if repeat < FEWEST or spent[name] < patience]:
            start = time.perf_counter()
            try:
                times[name].append(rivals[name]())
            except Absent as why:
                absent[name] = str(why)
                del times[name]
            spent[name] += time.perf_counter() - start
    return times, absent


def summary(times: dict[str, list[float]]) -> dict[str, dict[str, Any]]:
    """Returns the median and quartiles of every rival, in milliseconds, and how many repeats they are of."""
    return {name: _summary(np.array(values) * 1e3) for name, values in times.items()}


def _summary(milliseconds: np.ndarray) -> dict[str, Any]:
    median, q1, q3 = map(float, np.quantile(milliseconds, [0.5, 0.25, 0.75]))
    return {"median_ms": median, "q1_ms": q1, "q3_ms": q3, "repeats": len(milliseconds)}


def ratio(times: dict[str, list[float]], rival: str, base: str) -> float:
    """Returns the median over repeats of the ratio within a repeat, over the repeats that both took part in."""
    pairs = zip(times[rival], times[base], strict=False)
    return float(np.median([ours / theirs for ours, theirs in pairs]))


def ratios(times: dict[str, list[float]], goals: dict[str, float | None]) -> dict[str, tuple[float, float | None]]:
    """Returns (ratio, goal) for every "rival / base" of `goals` that was timed."""
    timed = [pair for pair in goals if times.keys() >= set(pair.split(" / "))]
    return {pair: (ratio(times, *pair.split(" / ")), goals[pair]) for pair in timed}


def report(name: str, results: dict[str, dict], unit: str) -> None:
    """Prints a table for people and keeps a record for machines.

    `results` maps a network to its `units` (see `summary`), its `ratios`, for example "low_rank / keras": (0.3, 0.45),
    and the `absent` rivals with the reason.
    """
    table = Table("network", "rival", f"ms a {unit} (median)", "quartiles", "repeats", "batch", "note", title=name)
    goals = Table("network", "ratio", "measured", "goal")
    for network, result in results.items():
        for rival, row in result[f"{unit}s"].items():
            spread = f"{row['q1_ms']:.3f} to {row['q3_ms']:.3f}"
            facts = [str(row.get(key, "")) for key in ("repeats", "batch", "note")]
            table.add_row(network, rival, f"{row['median_ms']:.3f}", spread, *facts)
        for rival, why in result.get("absent", {}).items():
            table.add_row(network, rival, "–", "", "", "", why)
        for pair, (value, goal) in result["ratios"].items():
            goals.add_row(network, pair, f"{value:.3f}", "" if goal is None else f"at most {goal}")
    for shown in (table, goals):
        Console().print(shown)
    keep(name, results)


def keep(name: str, results: dict[str, Any], folder: Path | None = None) -> None:
    """Writes benchmarks/records/NAME.json, or the same into another folder."""
    record = {
        "command": shlex.join(["python", *map(_relative, sys.argv)]),
        "commit": COMMIT,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": versions(),
        "machine": {**machine(), "load": round(LOAD, 2)},
        "results": results,
    }
    folder = folder or RECORDS
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    Console().print(f"Kept in {_relative(str(path))}")
    if LOAD > 0.5:
        Console().print(f"Others used this machine (load {LOAD:.1f}), which slows PyTorch most. Wait; measure again.")


def _relative(path: str) -> str:
    """Returns a path from the repository's root, or its last name when it lies elsewhere."""
    root, full = Path(__file__).parent.parent, Path(path).resolve()
    if not full.exists():
        return path
    return str(full.relative_to(root)) if full.is_relative_to(root) else full.name
