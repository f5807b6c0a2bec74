"""Where the files of a data set lie, and what they hold once their sums are checked."""

import os
from collections.abc import Iterator
from pathlib import Path

from singularbayes.checks import require_package
from singularbayes_experiments.data.content import BROKEN, content, listed, sha256
from singularbayes_experiments.data.source import DataError, File, Source

FOLDER = "SINGULARBAYES_DATA"
SUMS = "SHA256SUMS.txt"  # the list of sums that PhysioNet keeps beside its files


def folder() -> Path | None:
    """Returns the folder that $SINGULARBAYES_DATA names; None if it names none."""
    named = os.environ.get(FOLDER)
    if not named:
        return None
    path = Path(named).expanduser()
    if not path.is_dir():
        raise DataError(f"${FOLDER} needs a folder that exists; got {str(path)!r}.")
    return path


def cache() -> Path:
    """Returns the folder for what is downloaded: `~/.cache/singularbayes` on Linux."""
    return Path(
        require_package("pooch", "", "The cache of data sets", "singularbayes-experiments").os_cache("singularbayes")
    )


def places() -> Iterator[Path]:
    """Yields the folders to look in, in their order."""
    named = folder()
    if named is not None:
        yield named
    yield cache()


def find(source: Source, file: File) -> Path | None:
    """Returns where `file` lies, packed or not, unchecked; None if it must be fetched."""
    for place in places():
        for name in (file.name, file.name + ".gz"):
            path = place / source.name / name
            if path.is_file():
                return path
    return None


def check(source: Source, file: File, path: Path) -> bytes:
    """Returns what the file at `path` holds; raises, with what to do, unless that is what was published."""
    try:
        return read_verified(source, file, path)
    except DataError as error:
        raise DataError(f"{error} The file is {path}. {_fix(source)}") from error


def read_verified(source: Source, file: File, path: Path) -> bytes:
    """Returns what the file at `path` holds; raises unless that is what was published."""
    needs = f"{source.name} needs {file.name} to hold {file.size:,} bytes with SHA-256 {file.sha256}"
    raw = path.read_bytes()
    try:
        inside = content(file.name, raw)
    except BROKEN as error:
        raise DataError(f"{needs}; got {len(raw):,} bytes that cannot be unpacked: {error}.") from error
    found = sha256(inside)
    if found != file.sha256 and not _as_listed(source, file, path, {found, sha256(raw)}):
        raise DataError(f"{needs}; got {len(inside):,} bytes with SHA-256 {found}.")
    return inside


def _as_listed(source: Source, file: File, path: Path, found: set[str]) -> bool:
    """Whether the publisher's list of sums, beside a file whose published sum is not known here, has one of `found`."""
    sums = path.parent / SUMS
    if file.name not in source.rewritten or not sums.is_file():
        return False
    return bool(found & listed(sums.read_text("utf-8", "replace"), file))


def _fix(source: Source) -> str:
    if source.base is None:
        return f"Delete it and put the right one there. {source.by_hand}"
    return f"Delete it; `singularbayes-experiments data fetch {source.name}` gets the right one."
