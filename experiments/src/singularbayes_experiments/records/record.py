"""The result of one run: a line of JSON, and beside it the arrays that figures need."""

import functools
import hashlib
import io
import json
import os
import platform
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from singularbayes_experiments.records import files
from singularbayes_experiments.records.files import replace

LINES = "records.jsonl"
LOCKS = ".locks"


def versions() -> dict[str, str]:
    """Returns the versions that results depend on."""
    import keras

    import singularbayes

    backend = keras.backend.backend()
    return {
        "singularbayes": singularbayes.__version__,
        "keras": keras.__version__,
        backend: _version(backend),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


@functools.cache
def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # one module, several wheels: tensorflow-cpu is TensorFlow too
        return metadata.version(metadata.packages_distributions()[package][0])


def machine() -> dict[str, Any]:
    """Returns the processor, the cores this process may use, the system, and the accelerator that JAX uses, if any."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    here = {"cpu": _cpu(), "cores": usable, "system": f"{platform.system()} {platform.machine()}"}
    accelerator = _accelerator()
    return here if accelerator is None else here | {"accelerator": accelerator}


def _accelerator() -> str | None:
    import keras

    if keras.backend.backend() != "jax":
        return None
    import jax

    return None if jax.default_backend() == "cpu" else jax.devices()[0].device_kind


def _cpu() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def now() -> str:
    """Returns the time in UTC to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Record:
    """What one run of one method with one seed gave. Two are equal when all but time, memory and arrays is.

    Args:
        settings: every setting of the run; paper: the paper's value of those that differ from it.
        parameters: trainable numbers, counted on the model; stored: the numbers that it predicts from.
        seconds: wall time of training, compilation included, over all parts of an interrupted run.
        arrays: what figures and later metrics need; stored beside the line, not in it.
        preset: where the settings come from: "paper", "chosen" (ours), "quick", "hand", or "trial" (scored
            on validation data alone).
        peak_memory: bytes, of the process that finished the run.
        finished: when, in UTC.
    """

    experiment: str
    method: str
    seed: int
    settings: dict[str, Any]
    metrics: dict[str, float]
    parameters: int
    seconds: float = field(compare=False)
    paper: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=versions)
    machine: dict[str, Any] = field(default_factory=machine)
    stored: int | None = None
    preset: str = "hand"
    peak_memory: int | None = field(default=None, compare=False)
    finished: str = field(default_factory=now, compare=False)
    arrays: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """What tells the run from others: experiment, method, seed and a digest of the settings."""
        return identity(self.experiment, self.method, self.seed, self.settings)

    @property
    def key(self) -> tuple[str, bool]:
        """Its name, and whether it is a trial: a trial is not the run of the same settings, which has test scores."""
        return self.name, self.preset == "trial"

    def line(self) -> str:
        """Returns the record as one line of JSON, without the arrays."""
        return json.dumps({key: value for key, value in vars(self).items() if key != "arrays"}, ensure_ascii=False)


def identity(experiment: str, method: str, seed: int, settings: dict[str, Any]) -> str:
    """Returns the name of a run; the order of its settings does not matter.

    >>> identity("toy", "low_rank", 0, {"rank": 16, "beta": 0.1})
    'toy-low_rank-0-a5dea1be'
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return f"{experiment}-{method}-{seed}-{digest[:8]}"


def omitted_default(default: Any) -> Any:
    """Returns a field of settings that records omit at its default: so a new setting keeps the names of old runs."""
    return field(default=default, metadata={"omitted": default})


def plain(settings: Any) -> dict[str, Any]:
    """Returns a settings dataclass as JSON holds it: tuples become lists.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Settings:
    ...     rate: float = 0.1
    ...     decay: float = omitted_default(0.0)
    >>> plain(Settings()), plain(Settings(decay=0.2))
    ({'rate': 0.1}, {'rate': 0.1, 'decay': 0.2})
    """
    omitted = {one.name for one in fields(settings) if one.metadata.get("omitted", ...) == getattr(settings, one.name)}
    return json.loads(json.dumps({name: value for name, value in asdict(settings).items() if name not in omitted}))


def departures(settings: Any, published: Any = None) -> dict[str, Any]:
    """Returns the paper's values of the settings that differ from them; `published` are these, None the defaults."""
    here, paper = asdict(settings), asdict(type(settings)() if published is None else published)
    return json.loads(json.dumps({name: paper[name] for name in paper if paper[name] != here[name]}))


def write(records: Iterable[Record], folder: Path) -> Path:
    """Writes the arrays of every record, then all lines, each file whole or not at all; returns the file of lines."""
    records = list(records)
    for record in records:
        _write_arrays(record, folder)
    return replace(folder / LINES, "".join(f"{record.line()}\n" for record in records).encode())


def append(record: Record, folder: Path) -> None:
    """Adds a record to those of a folder, its arrays first; processes that do so at once wait for each other."""
    _write_arrays(record, folder)
    with lock(folder, "records"):
        files.append_line(folder / LINES, record.line())


def lock(folder: Path, name: str) -> FileLock:
    """Returns the lock of that name in a folder of runs; it ends with the process that holds it, however that ends."""
    (folder / LOCKS).mkdir(parents=True, exist_ok=True)
    return FileLock(folder / LOCKS / name)


def _write_arrays(record: Record, folder: Path) -> None:
    if record.preset == "trial":
        return  # it has none, and a run of that name has some
    packed = io.BytesIO()
    np.savez_compressed(packed, **record.arrays)  # type: ignore[arg-type]
    replace(folder / f"{record.name}.npz", packed.getvalue())


def read(path: Path, arrays: bool = True) -> list[Record]:
    """Returns the records of a folder of runs, or of a file of lines, with the arrays that lie beside it.

    A run that was done again is there once, as it came out last. A last line that was cut off is no record.
    """
    lines = path / LINES if path.is_dir() else path
    if not lines.is_file():
        raise FileNotFoundError(f"read needs a folder with {LINES}; got {str(path)!r}, which has none.")
    found: dict[tuple[str, bool], Record] = {}
    for number, line in enumerate(files.read_lines(lines), start=1):
        record = parse(line, f"line {number} of {str(lines)!r}")
        found[record.key] = record
    if arrays:
        for record in found.values():
            read_arrays(record, lines.parent)
    return list(found.values())


def count(folder: Path, tuning: bool = False) -> Counter[str]:
    """Returns how often each run of a folder was finished, by its name; a folder without records has none.

    A tuning run, which has no test scores, is not the run of the same settings: count either these or those.
    """
    lines = folder / LINES
    whole = files.read_lines(lines) if lines.is_file() else []
    found = [parse(line, f"line {i} of {str(lines)!r}") for i, line in enumerate(whole, start=1)]
    return Counter(one.name for one in found if (one.preset == "trial") == tuning)


def parse(line: str, where: str) -> Record:
    """Returns the record of a line; what a newer version may have written beside the known fields is passed over.

    Args:
        where: what an error calls the line.
    """
    try:
        found = json.loads(line)
        record = Record(**{one.name: found[one.name] for one in fields(Record) if one.name in found})
        _require_types(record)
        return record
    except (json.JSONDecodeError, TypeError) as error:
        raise ValueError(f"Records need to be one per line; got {line[:40]!r} in {where}: {error}.") from error


_TYPES: dict[type | tuple[type, ...], tuple[str, ...]] = {
    str: ("experiment", "method", "preset", "finished"),
    int: ("seed", "parameters"),
    dict: ("settings", "metrics", "paper", "versions", "machine"),
    (int, float): ("seconds",),
    (int, type(None)): ("stored", "peak_memory"),
}


def _require_types(record: Record) -> None:
    for kinds, names in _TYPES.items():
        for name in names:
            value = getattr(record, name)
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise TypeError(f"{name} is {type(value).__name__} {str(value)[:20]!r}")
    for name, value in record.metrics.items():
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise TypeError(f"the metric {name!r} is {type(value).__name__} {str(value)[:20]!r}")


def read_arrays(record: Record, folder: Path) -> None:
    """Adds the arrays that lie in a folder, if they do, to a record that was read without.

    A trial has none: those of its name are of the run of the same settings.
    """
    if record.preset == "trial":
        return
    path = folder / f"{record.name}.npz"
    if path.is_file():
        with path.open("rb") as file, np.load(file) as stored:  # left to itself, it keeps a damaged file open
            record.arrays.update(stored)
