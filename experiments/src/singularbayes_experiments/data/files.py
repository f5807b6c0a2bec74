"""Where the files of the data sets lie, and what they hold: each is checked against the sum of what was published.

A file is looked for in `$SINGULARBAYES_DATA/<set>/`, then in the cache, packed by gzip or not; else it is downloaded
into the cache. `catalogue.yaml` has the addresses and the sums.
"""

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin

import numpy as np
import pandas as pd
import pooch
import yaml

FOLDER = "SINGULARBAYES_DATA"
SUMS = "SHA256SUMS.txt"  # the list of sums that PhysioNet keeps beside its files
TIMEOUT = 30  # seconds without a byte
RETRIES = 2
# What unpacking raises, and what downloading does: the errors of requests are those of the system.
_BROKEN = (EOFError, OSError, ValueError, KeyError, zlib.error, tarfile.TarError, zipfile.BadZipFile)


class DataError(OSError):
    """Data that is not here and cannot be had, or is not what was published. The message tells what to do."""


@dataclass(frozen=True)
class Source:
    """One data set.

    Args:
        files: size and SHA-256 of each by its name: those of `content(name, …)`, however the file is packed.
        base: the address that files are below; without one `by_hand` describes what to do on `page`.
        archive: the zip or tar.gz file at `base` that holds them all.
        path: where a file is below `base`, or in the archive.
        rewritten: files of which only copies with the same values are known, so that their sums are not the
            publisher's; what is downloaded is held against the publisher's own list.
    """

    name: str
    what: str
    licence: str
    page: str
    files: Mapping[str, tuple[int, str]]
    base: str | None = None
    archive: str | None = None
    path: str = "{name}"
    rewritten: tuple[str, ...] = ()
    by_hand: str = ""

    @property
    def help(self) -> str:
        """How to get it without this program."""
        names, place = ", ".join(self.files), f"${FOLDER}/{self.name}/"
        return f"Get it manually from {self.page}: {self.by_hand or f'put into {place} {names}.'}"


SETS = {
    name: Source(name, **facts)
    for name, facts in yaml.safe_load(Path(__file__).with_name("catalogue.yaml").read_text("utf8")).items()
}


def locate(data_set: str, name: str) -> Path:
    """Returns where a file of a data set lies, checked; it is fetched if it is not here."""
    source = SETS[data_set]
    path = find(source, name) or fetch(source, name)
    check(source, name, path)
    return path


def read(data_set: str, name: str) -> bytes:
    """Returns what a file of a data set holds, checked; it is fetched if it is not here."""
    source = SETS[data_set]
    return check(source, name, find(source, name) or fetch(source, name))


def read_csv(raw: bytes, missing: str = "", **options: Any) -> pd.DataFrame:
    """Returns a table as published: a cell is missing if it is `missing`, whatever words pandas takes for it."""
    return pd.read_csv(io.BytesIO(raw), keep_default_na=False, na_values=[missing], **options)


# -- where files lie ---------------------------------------------------------------------------------------------------


def cache() -> Path:
    """Returns the folder for what is downloaded: `~/.cache/singularbayes` on Linux."""
    return Path(pooch.os_cache("singularbayes"))


def places() -> Iterator[Path]:
    """Yields the folders to look in, in their order."""
    if named := os.environ.get(FOLDER):
        path = Path(named).expanduser()
        if not path.is_dir():
            raise DataError(f"${FOLDER} must be a folder that exists; got {str(path)!r}.")
        yield path
    yield cache()


def find(source: Source, name: str) -> Path | None:
    """Returns where a file lies, packed or not, unchecked; None if it must be fetched."""
    paths = (place / source.name / each for place in places() for each in (name, f"{name}.gz"))
    return next((path for path in paths if path.is_file()), None)


# -- what files hold ---------------------------------------------------------------------------------------------------


def content(name: str, raw: bytes) -> bytes:
    """Returns what the bytes of a file hold: themselves, unless `name` tells otherwise.

    - `x.tar.gz`: its files in the order of their names, one after the other, as `cat x/*` prints them.
    - `x.npz`: its arrays in the order of their names, each after a line with name, type and shape.
    - any other name without `.gz`: the bytes, unpacked if they are a gzip file.

    >>> content("a.txt", gzip.compress(b"abc")) == content("a.txt", b"abc") == b"abc"
    True
    """
    if name.endswith(".tar.gz"):
        with tarfile.open(fileobj=io.BytesIO(raw)) as archive:
            members = sorted((m for m in archive.getmembers() if m.isfile()), key=lambda m: m.name)
            return b"".join(file.read() for m in members if (file := archive.extractfile(m)))
    if name.endswith(".npz"):
        with np.load(io.BytesIO(raw)) as arrays:
            return b"".join(_array(key, arrays[key]) for key in sorted(arrays))
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") and not name.endswith(".gz") else raw


def _array(key: str, array: np.ndarray) -> bytes:
    little = array.astype(array.dtype.newbyteorder("<"))
    return f"{key} {little.dtype.str} {little.shape}\n".encode() + little.tobytes()


def check(source: Source, name: str, path: Path) -> bytes:
    """Returns what the file at `path` holds; raises, with what to do, unless that is what was published."""
    size, published = source.files[name]
    raw, needs = path.read_bytes(), f"{source.name} must have a {name} of {size:,} bytes with SHA-256 {published}"
    fix = f"The file is {path}: delete it. `singularbayes-experiments data fetch {source.name}`, or: {source.help}"
    try:
        inside = content(name, raw)
    except _BROKEN as error:
        raise DataError(f"{needs}; got {len(raw):,} bytes that cannot be unpacked: {error}. {fix}") from error
    found = sha256(inside)
    if found != published and not {found, sha256(raw)} & listed(source, name, path.parent / SUMS):
        raise DataError(f"{needs}; got {len(inside):,} bytes with SHA-256 {found}. {fix}")
    return inside


def listed(source: Source, name: str, sums: Path) -> set[str]:
    """Returns the sums, packed or not, that the publisher's list has for a file of which only a copy is known here."""
    if name not in source.rewritten or not sums.is_file():
        return set()
    rows = [line.split(maxsplit=1) for line in sums.read_text("utf8", "replace").splitlines() if line.strip()]
    return {row[0].lower() for row in rows if row[-1].removeprefix("./") in (name, f"{name}.gz")}


def sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


# -- downloads ---------------------------------------------------------------------------------------------------------


def fetch(source: Source, name: str) -> Path:
    """Downloads a file into the cache, of an archive all its files: whole and checked, or not at all.

    What is downloaded goes into a folder of its own, is checked, and then gets its name in one step. So a name in the
    cache always has a whole file, whatever happens to this process and whatever others fetch.
    """
    if source.base is None:
        looked = " or ".join(str(place / source.name) for place in places())
        raise DataError(f"{source.name} needs {name}, which is not in {looked}. {source.help}")
    home, url = cache() / source.name, source.base + (source.archive or source.path.format(name=name))
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=".part-") as folder:
            part = Path(folder)
            _download(part, [url, *([urljoin(url, SUMS)] if name in source.rewritten else [])])
            if source.archive:
                _unpack(source, part / _last(url), part)
            for each in source.files if source.archive else [name]:
                check(source, each, part / _last(source.path.format(name=each)))
            for kept in sorted(part.iterdir(), key=lambda path: path.name != SUMS):  # the list comes first
                kept.replace(home / kept.name)
    except _BROKEN as error:
        raise DataError(f"{source.name} cannot be had from {url} into {home}: {error}. {source.help}") from error
    return home / _last(source.path.format(name=name))


def _download(folder: Path, urls: list[str]) -> None:
    names = {_last(url): url for url in urls}
    registry = pooch.create(folder, "", registry=dict.fromkeys(names), urls=names, retry_if_failed=RETRIES)
    for name in names:
        # Unencoded: else a server may pack what it sends, and its length means nothing.
        get = pooch.HTTPDownloader(timeout=TIMEOUT, headers={"Accept-Encoding": "identity"})
        registry.fetch(name, downloader=get)


def _unpack(source: Source, archive: Path, folder: Path) -> None:
    opened: Any = tarfile.open if archive.name.endswith(".tar.gz") else zipfile.ZipFile
    with opened(archive) as packed:
        member = packed.extractfile if opened is tarfile.open else packed.open
        for path in (source.path.format(name=name) for name in source.files):
            with member(path) as inside, (folder / _last(path)).open("wb") as out:
                shutil.copyfileobj(inside, out)
    archive.unlink()


def _last(path: str) -> str:
    return unquote(path.rsplit("/", 1)[-1])
