"""The result of one run: a line of JSON, and beside it the arrays that figures need."""

import io
import json
import os
import platform
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

LINES = "records.jsonl"


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


def _version(package: str) -> str:
    # One module, several wheels: tensorflow-cpu is TensorFlow too.
    names = metadata.packages_distributions().get(package, [package])
    return metadata.version(names[0])


def machine() -> dict[str, Any]:
    """Returns the processor, the cores this process may use, and the system."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": _cpu(), "cores": usable, "system": f"{platform.system()} {platform.machine()}"}


def _cpu() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


@dataclass(frozen=True)
class Record:
    """What one run of one method with one seed gave. Two records are equal when all but time and arrays is.

    Args:
        settings: every setting of the run; paper: the paper's value of those that differ from it.
        parameters: trainable numbers, counted on the model.
        seconds: wall time of training, compilation included.
        arrays: what figures need; stored beside the line, not in it.
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
    arrays: dict[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        return f"{self.experiment}-{self.method}-{self.seed}"

    def line(self) -> str:
        """Returns the record as one line of JSON, without the arrays."""
        return json.dumps({key: value for key, value in vars(self).items() if key != "arrays"}, ensure_ascii=False)


def plain(settings: Any) -> dict[str, Any]:
    """Returns a settings dataclass as JSON holds it: tuples become lists."""
    return json.loads(json.dumps(asdict(settings)))


def departures(settings: Any) -> dict[str, Any]:
    """Returns the paper's values, which are the defaults, of the settings that differ from them."""
    here, paper = plain(settings), plain(type(settings)())
    return {name: paper[name] for name in paper if paper[name] != here[name]}


def write(records: Iterable[Record], folder: Path) -> Path:
    """Writes the arrays of every record, then all lines, each file whole or not at all; returns the file of lines."""
    records = list(records)
    for record in records:
        packed = io.BytesIO()
        np.savez_compressed(packed, **record.arrays)  # type: ignore[arg-type]
        replace(folder / f"{record.name}.npz", packed.getvalue())
    return replace(folder / LINES, "".join(f"{record.line()}\n" for record in records).encode())


def read(folder: Path) -> list[Record]:
    """Returns the records that `write` left in a folder, with their arrays."""
    path = folder / LINES
    if not path.is_file():
        raise FileNotFoundError(f"read needs a folder with {LINES}; got {str(folder)!r}, which has none.")
    found = [Record(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in found:
        with np.load(folder / f"{record.name}.npz") as arrays:
            record.arrays.update(arrays)
    return found


def replace(path: Path, content: bytes) -> Path:
    """Writes a file whole: under another name in the same folder first, then renamed. Returns its path."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o644)  # mkstemp makes it private
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
