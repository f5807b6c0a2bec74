"""Folders of runs, from other machines for instance, brought into one; nothing that lies in any of them is lost."""

import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from singularbayes_experiments.records import files, record
from singularbayes_experiments.records.record import LINES, Record

Key = tuple[str, bool]  # the name of a run, and whether it is a trial, which is not the run of the same settings


@dataclass(frozen=True)
class Merged:
    """What became of the records of one folder, by their names.

    Args:
        added: those that were not there yet; same: those that were, with the same numbers.
        differ: those that were there with other numbers; they were left out, and the others are as they were.
        arrays: how many files of arrays were copied.
    """

    source: Path
    added: tuple[str, ...]
    same: tuple[str, ...]
    differ: tuple[str, ...]
    arrays: int


def merge(sources: Sequence[Path], into: Path) -> list[Merged]:
    """Adds the records of folders, or of files of lines, and the arrays beside them to those of a folder.

    A run that both have stays as it is there. A folder with a line that is no record, or with damaged arrays, raises
    before anything of it is written.
    """
    into.mkdir(parents=True, exist_ok=True)
    with record.lock(into, "records"):
        return [_merge_one(source, into) for source in sources]


def _merge_one(source: Path, into: Path) -> Merged:
    lines = source / LINES if source.is_dir() else source
    if not lines.is_file():
        raise FileNotFoundError(f"merge needs folders with {LINES}, or such files; got {str(source)!r}.")
    there, theirs = _read(into / LINES), _read(lines)
    here = _last(there)
    new = [(line, one) for line, one in theirs if one.key not in here]
    known = {key: one for key, one in _last(theirs).items() if key in here}
    same = [one for key, one in known.items() if one == here[key]]
    added = list(_last(new).values())
    runs = (one for one in [*added, *same] if one.preset != "trial")  # a trial has no arrays
    arrays = _missing(_names(runs), lines.parent, into)
    for path in arrays:  # before the lines, as a run does
        files.replace(into / path.name, path.read_bytes())
    if new:
        text = "".join(f"{line}\n" for line, _ in [*there, *new])
        files.replace(into / LINES, text.encode())
    differ = [one for key, one in known.items() if one != here[key]]
    return Merged(source, _names(added), _names(same), _names(differ), len(arrays))


def _names(records: Iterable[Record]) -> tuple[str, ...]:
    return tuple(one.name for one in records)


def _read(lines: Path) -> list[tuple[str, Record]]:
    whole = files.read_lines(lines) if lines.is_file() else []
    return [(line, record.parse(line, f"line {i} of {str(lines)!r}")) for i, line in enumerate(whole, start=1)]


def _last(found: Iterable[tuple[str, Record]]) -> dict[Key, Record]:
    """Returns the records that count: of a run that was done again, the last."""
    return {one.key: one for _, one in found}


def _missing(names: Iterable[str], source: Path, into: Path) -> list[Path]:
    """Returns the files of arrays that a folder lacks, after a look at whether they are whole."""
    paths = [source / f"{name}.npz" for name in names]
    missing = [path for path in paths if path.is_file() and not (into / path.name).exists()]
    for path in missing:
        _require_whole(path)
    return missing


def _require_whole(path: Path) -> None:
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as packed:
            damaged = packed.testzip()
    except zipfile.BadZipFile as error:
        damaged = str(error)
    if damaged is not None:
        raise ValueError(f"merge needs arrays as a run wrote them; got a damaged {str(path)!r} ({damaged}).")
