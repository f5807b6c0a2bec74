"""Downloads into the cache: whole and checked, or not at all."""

import gzip
import logging
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urljoin

from singularbayes.checks import require_package
from singularbayes_experiments.data import store
from singularbayes_experiments.data.progress import Bar
from singularbayes_experiments.data.source import DataError, File, Source

TIMEOUT = 30  # seconds without a byte
RETRIES = 2
CHUNK = 2**16


def fetch(source: Source, file: File) -> Path:
    """Returns the path of `file` in the cache, after downloading it; of an archive all its files are kept.

    A download goes to a folder of its own beside the file, is checked, and then gets its name in one step. So a name in
    the cache always has a whole file, whatever happens to this process and whatever others fetch.
    """
    url, home = source.url(file), store.cache() / source.name
    if url is None:
        looked = " or ".join(str(place / source.name) for place in store.places())
        get = f"Get it manually: {source.page} {source.by_hand}"
        raise DataError(f"{source.name} needs {file.name}, which is not in {looked}. {get}")
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=home, prefix=".part-") as part:
            _into(Path(part), source, file, url)
            for kept in sorted(Path(part).iterdir(), key=lambda path: path.name != store.SUMS):  # the list comes first
                kept.replace(home / kept.name)
    except DataError:
        raise
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"The cache needs a folder that can be written to; got {str(home)!r}: {reason}.") from error
    return home / _last(source.published(file))


def _into(part: Path, source: Source, file: File, url: str) -> None:
    """Leaves in the folder `part` what is at `url`, checked."""
    files = source.files if source.archive else (file,)
    _download(source, url, part)
    if source.archive:
        _unpack(source, part / _last(url), part)
    if file.name in source.rewritten:
        _download(source, urljoin(url, store.SUMS), part)
    for each in files:
        try:
            store.read_verified(source, each, part / _last(source.published(each)))
        except DataError as error:
            raise DataError(f"{error} That is what {url} sends; nothing was kept. {_by_hand(source)}") from error


def _download(source: Source, url: str, part: Path) -> None:
    pooch, requests = (
        require_package(name, "", "A download", "singularbayes-experiments") for name in ("pooch", "requests")
    )
    name = _last(url)
    registry: Any = pooch.create(
        path=part, base_url="", registry={name: None}, urls={name: url}, retry_if_failed=RETRIES
    )
    with Bar(f"{source.name}/{name}", url) as bar:
        # Unencoded: else a server may pack what it sends, and its length means nothing.
        get = pooch.HTTPDownloader(bar, CHUNK, timeout=TIMEOUT, headers={"Accept-Encoding": "identity"})
        try:
            with _silent(pooch.get_logger()):
                registry.fetch(name, downloader=get)
        except requests.RequestException as error:
            raise DataError(f"{source.name} could not be downloaded: {error}. {_by_hand(source)}") from error


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    """Holds back the lines of pooch about folders that are gone a moment later."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


def _unpack(source: Source, archive: Path, part: Path) -> None:
    names = [source.published(file) for file in source.files]
    kind = "tar.gz" if archive.name.endswith(".tar.gz") else "zip"
    try:
        for path, member in (_tar_members if kind == "tar.gz" else _zip_members)(archive, names):
            with member, open(part / _last(path), "wb") as out:
                shutil.copyfileobj(member, out)
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, KeyError, gzip.BadGzipFile) as error:
        raise DataError(
            f"{source.name} needs a {kind} file with {', '.join(names)} at {source.base}: {error}."
        ) from error
    archive.unlink()


def _zip_members(archive: Path, names: list[str]) -> Iterator[tuple[str, IO[bytes]]]:
    with zipfile.ZipFile(archive) as packed:
        for name in names:
            yield name, packed.open(name)


def _tar_members(archive: Path, names: list[str]) -> Iterator[tuple[str, IO[bytes]]]:
    with tarfile.open(archive, "r:gz") as packed:
        for name in names:
            member = packed.extractfile(name)
            if member is None:
                raise KeyError(f"{name!r} is no file")
            yield name, member


def _last(path: str) -> str:
    return unquote(path.rsplit("/", 1)[-1])


def _by_hand(source: Source) -> str:
    names = ", ".join(file.name for file in source.files)
    place = f"${store.FOLDER}/{source.name}/"
    return f"Try again; or get it manually, and put into {place}: {names}. Its page is {source.page}"
