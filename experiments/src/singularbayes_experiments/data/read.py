"""The door of the loaders: a name in, checked bytes out."""

from pathlib import Path

from singularbayes_experiments.data.fetch import fetch
from singularbayes_experiments.data.source import Source
from singularbayes_experiments.data.store import check, find


def locate(source: Source, name: str) -> tuple[Path, bytes]:
    """Returns where a file of a data set lies and what it holds, checked; it is fetched if it is not here."""
    file = source.file(name)
    path = find(source, file) or fetch(source, file)
    return path, check(source, file, path)


def read(source: Source, name: str) -> bytes:
    """Returns what a file of a data set holds, checked; it is fetched if it is not here."""
    return locate(source, name)[1]
