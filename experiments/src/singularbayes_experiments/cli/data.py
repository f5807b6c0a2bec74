"""`singularbayes-experiments data`: which data sets there are, where they lie, and whether they are whole."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from singularbayes_experiments.data import store
from singularbayes_experiments.data.catalogue import SETS
from singularbayes_experiments.data.fetch import fetch as download
from singularbayes_experiments.data.source import DataError, File, Source

app = App(name="data", help="Data sets: what there is, where it lies, and whether it is whole.", version_flags=())


def _known(_, given: str | tuple[str, ...]) -> None:
    if not set([given] if isinstance(given, str) else given) <= set(SETS):
        raise ValueError(f"The data sets are {', '.join(SETS)}.")


Name = Annotated[str, Parameter(validator=_known)]


@app.command(name="list")
def show() -> int:
    """Show every data set: what it is, its licence, its size unpacked, and where it was found."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for head in ("set", "what it is", "licence", "MB", "where"):
        table.add_column(head, justify="right" if head == "MB" else "left", no_wrap=head == "set")
    for source in SETS.values():
        table.add_row(source.name, source.what, source.licence, f"{source.size / 1e6:.1f}", _where(source))
    Console().print(table)
    _print(f"\nfolder: {store.folder() or f'none; ${store.FOLDER} can name one'}\ncache: {store.cache()}")
    return 0


@app.command
def fetch(name: Name, /, *names: Name) -> int:
    """Download what is missing of data sets into the cache; a damaged file there is replaced.

    Parameters
    ----------
    name
        A data set, as `singularbayes-experiments data list` shows it.
    names
        More of them.
    """
    for source in map(SETS.__getitem__, (name, *names)):
        for file in source.files:
            _fetch(source, file)
        _print(f"{source.name}: {len(source.files)} of {len(source.files)} files right ({_where(source)})")
    return 0


@app.command
def verify(*names: Name) -> int:
    """Check the sums of all files found; the exit status is 1 if one is wrong.

    Parameters
    ----------
    names
        Data sets, as `singularbayes-experiments data list` shows them; all of them if none is named.
    """
    wrong = 0
    for source in map(SETS.__getitem__, names or SETS):
        found = [(file, path) for file in source.files if (path := store.find(source, file))]
        bad = [error for file, path in found if (error := _error(source, file, path))]
        wrong += len(bad)
        _print(f"{source.name}: {len(found) - len(bad)} of {len(source.files)} files right ({_where(source)})")
        for error in bad:
            _print(f"  wrong: {error}")
    return 1 if wrong else 0


def _fetch(source: Source, file: File) -> None:
    path = store.find(source, file)
    if path is None:
        download(source, file)
    elif _error(source, file, path) and _cached(path) and source.base:
        if download(source, file) != path:
            path.unlink()  # else it would be found before the new one, which is packed
    else:
        store.check(source, file, path)


def _where(source: Source) -> str:
    """Returns how many files lie where: "folder", "cache 3, to download 1"."""
    paths = [store.find(source, file) for file in source.files]
    missing = "to get manually" if source.base is None else "to download"
    places = [missing if path is None else "cache" if _cached(path) else "folder" for path in paths]
    if len(set(places)) == 1:
        return places[0]
    return ", ".join(f"{place} {places.count(place)}" for place in sorted(set(places)))


def _cached(path: Path) -> bool:
    return path.is_relative_to(store.cache())


def _error(source: Source, file: File, path: Path) -> DataError | None:
    try:
        store.check(source, file, path)
    except DataError as error:
        return error
    return None


def _print(text: str) -> None:
    Console().print(text, soft_wrap=True, highlight=False, markup=False)
