"""Records of runs: a file of JSON for each finished run, tables in Parquet once they are packed, SQL to read both.

A run that does not finish leaves nothing. A folder of records has `runs.parquet`, `metrics.parquet` and
`arrays/<kind>.parquet`, files of JSON that are not packed yet, or both.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

RESULTS = Path(__file__).parents[2] / "results"
_SCHEMA = """
CREATE TABLE runs (
    run VARCHAR PRIMARY KEY, experiment VARCHAR NOT NULL, task VARCHAR NOT NULL, method VARCHAR NOT NULL,
    configuration VARCHAR, seed INTEGER NOT NULL, preset VARCHAR NOT NULL,
    stage VARCHAR NOT NULL CHECK (stage IN ('tuning', 'result')), settings VARCHAR NOT NULL, counts BOOLEAN NOT NULL,
    "commit" VARCHAR, machine VARCHAR NOT NULL, finished VARCHAR, origin VARCHAR NOT NULL
);
CREATE TABLE metrics (run VARCHAR, metric VARCHAR, value DOUBLE NOT NULL, PRIMARY KEY (run, metric));
CREATE TABLE arrays (
    run VARCHAR, kind VARCHAR, name VARCHAR, place INTEGER, x DOUBLE NOT NULL, value DOUBLE NOT NULL,
    PRIMARY KEY (run, kind, name, place)
);
CREATE VIEW scores AS SELECT * FROM runs JOIN metrics USING (run);
"""
_ORDER = {"runs": "run", "metrics": "metric, run", "arrays": "run, name, place"}


@dataclass(frozen=True)
class Run:
    """What one method with one seed and one configuration gave on one task.

    Args:
        task: the part of an experiment that scores are about, such as a table or a shift; else the experiment's name.
        preset: where the settings come from: "paper", "protocol", "chosen" (tuned before the protocol), …
        stage: "tuning", scored on validation data alone, or "result".
        metrics: all numbers: scores, "parameters", "stored", "seconds", "products", "peak_memory".
        configuration: its name within the grid.
        counts: False in a round that was not completed, and for a result that a later choice replaced.
        machine: what it ran on, with versions.
        origin: the command, or the file and line that the record was converted from.
        arrays: curves of figures by "kind/name", as values, or as rows of x and of values.
    """

    experiment: str
    task: str
    method: str
    seed: int
    preset: str
    stage: str
    settings: Mapping[str, Any]
    metrics: Mapping[str, float]
    configuration: str | None = None
    counts: bool = True
    commit: str | None = None
    machine: Mapping[str, Any] = field(default_factory=dict)
    finished: str | None = None
    origin: str = ""
    arrays: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def run(self) -> str:
        """The identity of the run."""
        return identity(self.experiment, self.task, self.method, self.seed, self.stage, self.settings)

    def text(self) -> str:
        """Returns the record as JSON."""
        arrays = {name: np.asarray(array).tolist() for name, array in self.arrays.items()}
        return json.dumps({**vars(self), "arrays": arrays}, ensure_ascii=False)


def identity(experiment: str, task: str, method: str, seed: int, stage: str, settings: Mapping[str, Any]) -> str:
    """Returns the name that tells a run from all others; the order of its settings does not matter.

    >>> identity("toy", "toy", "low_rank", 0, "result", {"rank": 16, "beta": 0.1})
    'toy-low_rank-0-f6655f26'
    """
    told = json.dumps([experiment, task, method, seed, stage, settings], sort_keys=True)
    return f"{experiment}-{method}-{seed}-{hashlib.sha256(told.encode()).hexdigest()[:8]}"


def write(run: Run, folder: Path) -> Path:
    """Writes a finished run into a folder, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{run.run}.json"
    part = folder / f"{run.run}.{os.getpid()}.part"
    part.write_text(run.text(), encoding="utf-8")
    part.replace(path)
    return path


def read(folder: Path) -> list[Run]:
    """Returns the runs of a folder that are not packed yet."""
    return [Run(**json.loads(path.read_text(encoding="utf-8"))) for path in sorted(folder.glob("*.json"))]


def packed(folder: Path) -> set:
    """Returns the packed runs that count: their identities, and experiment, task, method, seed, preset, stage, place.

    Records that were converted have settings under older names, and so other identities than a run of today. The place
    is that in the grid; it is None without a grid, and for configurations with names of their own.
    """
    if not (folder / "runs.parquet").exists():
        return set()
    rows = (
        duckdb.connect()
        .execute(
            "SELECT run, experiment, task, method, seed, preset, stage, "
            "CASE WHEN starts_with(configuration, method || ' ') THEN split_part(configuration, ' ', -1)::INTEGER END "
            f"FROM '{folder}/runs.parquet' WHERE counts"
        )
        .fetchall()
    )
    return {run for run, *_ in rows} | {tuple(told) for _, *told in rows}


def connect(*folders: Path) -> duckdb.DuckDBPyConnection:
    """Returns the tables runs, metrics and arrays of all folders, and scores, which joins the first two.

    A run whose file of JSON differs from its packed record raises, and so does one that two folders have packed.
    """
    connection = duckdb.connect()
    connection.execute(_SCHEMA)
    for folder in folders or (RESULTS,):
        for table, pattern in (("runs", "runs"), ("metrics", "metrics"), ("arrays", "arrays/*")):
            if list(folder.glob(f"{pattern}.parquet")):
                connection.execute(f"INSERT INTO {table} SELECT * FROM '{folder}/{pattern}.parquet'")
        for run in read(folder):
            add(connection, run)
    return connection


def add(connection: duckdb.DuckDBPyConnection, run: Run) -> bool:
    """Adds a run to the tables; returns whether it was new. One that is there with other content raises."""
    known = find(connection, run.run)
    if known is not None:
        if known.text() != _plain(run).text():
            raise ValueError(f"A run has one record; got two different ones of {run.run!r}.")
        return False
    facts = {**vars(run), "settings": json.dumps(run.settings), "machine": json.dumps(run.machine)}
    values = [facts.get(name, run.run) for name in _columns(connection)]
    connection.execute(f"INSERT INTO runs VALUES ({', '.join('?' * len(values))})", values)
    names, numbers = list(run.metrics), [float(value) for value in run.metrics.values()]
    connection.execute("INSERT INTO metrics SELECT ?, unnest(?), unnest(?::DOUBLE[])", [run.run, names, numbers])
    for path, array in run.arrays.items():
        kind, name = path.split("/", 1)
        x, value = _rows(array)
        connection.execute(
            "INSERT INTO arrays SELECT ?, ?, ?, unnest(range(?)), unnest(?::DOUBLE[]), unnest(?::DOUBLE[])",
            [run.run, kind, name, len(x), x.tolist(), value.tolist()],
        )
    return True


def find(connection: duckdb.DuckDBPyConnection, run: str) -> Run | None:
    """Returns a run from the tables; None where it is not there."""
    row = connection.execute("SELECT * FROM runs WHERE run = ?", [run]).fetchone()
    if row is None:
        return None
    facts = dict(zip(_columns(connection), row, strict=True))
    del facts["run"]
    metrics = dict(connection.execute("SELECT metric, value FROM metrics WHERE run = ?", [run]).fetchall())
    points = connection.execute(
        "SELECT kind || '/' || name, list(x ORDER BY place), list(value ORDER BY place) FROM arrays WHERE run = ? "
        "GROUP BY kind, name",
        [run],
    ).fetchall()
    arrays = {path: [x, value] for path, x, value in points}
    settings, machine = json.loads(facts.pop("settings")), json.loads(facts.pop("machine"))
    return _plain(Run(**facts, settings=settings, machine=machine, metrics=metrics, arrays=arrays))


def pack(source: Path, into: Path = RESULTS) -> int:
    """Adds the files of JSON of a folder to the tables of another; returns how many runs were new."""
    connection = connect(into)
    new = sum(add(connection, run) for run in read(source))
    save(connection, into)
    return new


def save(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Writes the tables into a folder, each file whole or not at all."""
    (folder / "arrays").mkdir(parents=True, exist_ok=True)
    kinds = [kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM arrays ORDER BY kind").fetchall()]
    files = {"runs": "runs", "metrics": "metrics"} | {f"arrays/{kind}": "arrays" for kind in kinds}
    for name, table in files.items():
        part, only = folder / f"{name}.part", f"WHERE kind = '{name[7:]}'" if table == "arrays" else ""
        connection.execute(
            f"COPY (SELECT * FROM {table} {only} ORDER BY {_ORDER[table]}) TO '{part}' "
            "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 19)"
        )
        part.replace(folder / f"{name}.parquet")


def _columns(connection: duckdb.DuckDBPyConnection) -> list[str]:
    return [name for name, *_ in connection.execute("SELECT * FROM runs LIMIT 0").description]


def _rows(array: Any) -> tuple[np.ndarray, np.ndarray]:
    """Returns x and values of an array; without x they are numbered."""
    found = np.asarray(array, "float64")
    return (np.arange(len(found), dtype="float64"), found) if found.ndim == 1 else (found[0], found[1])


def _plain(run: Run) -> Run:
    """Returns the run as the tables hold it."""
    facts = vars(run) | {"metrics": {name: float(run.metrics[name]) for name in sorted(run.metrics)}}
    facts |= {name: json.loads(json.dumps(facts[name], sort_keys=True)) for name in ("settings", "machine")}
    return Run(**facts | {"arrays": {path: np.stack(_rows(run.arrays[path])) for path in sorted(run.arrays)}})
