"""Folders of runs and files of records in, records out."""

import json
import zipfile
from pathlib import Path

from singularbayes_experiments.records import record
from singularbayes_experiments.records.record import Record
from singularbayes_experiments.report.rows import listed


def read(path: Path) -> list[Record]:
    """Returns the records of a file, or of all files of records in a folder.

    Of runs that differ only in their seed, the first has the arrays that lie beside it: figures of single runs show it.
    """
    files = [path] if path.is_file() else sorted(path.glob("*.jsonl"))
    if not files:
        raise FileNotFoundError(_none(path))
    found: dict[tuple[str, str], tuple[Record, Path]] = {}
    for file in files:
        found |= {(made.name, made.preset): (made, file.parent) for made in record.read(file, arrays=False)}
    if not found:
        raise ValueError(f"report needs one record at least; got none in {listed([str(file) for file in files])}.")
    for made, folder in _first_seeds(list(found.values())):
        _add_arrays(made, folder)
    return [made for made, _ in found.values()]


def _none(path: Path) -> str:
    below = sorted({str(file.parent) for file in path.glob("*/*.jsonl")})
    what = "has none" if path.is_dir() else "is not there"
    hint = f"There are some in {listed(below)}." if below else "`singularbayes-experiments run toy` makes some."
    return f"report needs a folder with records (*.jsonl); got {str(path)!r}, which {what}. {hint}"


def _first_seeds(found: list[tuple[Record, Path]]) -> list[tuple[Record, Path]]:
    first: dict[str, tuple[Record, Path]] = {}
    for made, folder in sorted(found, key=lambda pair: -pair[0].seed):
        alike = json.dumps([made.experiment, made.method, made.preset, made.settings], sort_keys=True)
        first[alike] = made, folder
    return list(first.values())


def _add_arrays(made: Record, folder: Path) -> None:
    try:
        record.read_arrays(made, folder)
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise ValueError(
            f"report needs arrays as a run wrote them; got a damaged {folder / made.name!s}.npz ({error}). Remove it "
            "to leave its figures out."
        ) from error
