"""Where the trials of a sweep are kept, and what distinguishes one sweep from another."""

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from singularbayes.checks import require_package

_STUDY, _WHAT = "sweep", "what"


def require_optuna() -> Any:
    """Returns Optuna, or raises with what to type to have it."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError(
            f"A sweep needs Optuna; got no {error.name}. Type: pip install 'singularbayes[sweep]'"
        ) from error
    return optuna


@contextlib.contextmanager
def quiet_optuna() -> Iterator[None]:
    """Keeps Optuna from telling of every study and trial."""
    logging = require_optuna().logging
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)


@contextlib.contextmanager
def lock_storage(path: str | Path | None) -> Iterator[None]:
    """Holds a storage for this process; raises where another has it. The lock ends with its process."""
    if path is None:
        yield
        return
    path = Path(path)
    _require_folder(path)
    filelock = require_package("filelock", "sweep", "A sweep with a storage")
    lock = filelock.FileLock(path.with_name(f".{path.name}.held"), timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise ValueError(f"sweep needs a storage that no other process is at; got {str(path)!r}.") from None
    try:
        yield
    finally:
        lock.release()


def open_study(path: str | Path | None, directions: list[str], what: dict[str, Any]) -> Any:
    """Returns the Optuna study of a file, made if it is not there; in memory for None.

    Args:
        what: what the trials depend on, as JSON holds it. A file whose trials depend on something else is refused.
    """
    optuna = require_optuna()
    storage, names = (None, []) if path is None else _read(optuna, Path(path))
    if names and names != [_STUDY]:
        raise ValueError(f"sweep needs a storage of its own; got {str(path)!r}, which holds the studies {names}.")
    if names:
        study = optuna.load_study(study_name=_STUDY, storage=storage)
        if _WHAT in study.user_attrs:
            _require_same(study.user_attrs[_WHAT], what, str(path))
            return study
        optuna.delete_study(study_name=_STUDY, storage=storage)  # a kill left it before it was described
    study = optuna.create_study(study_name=_STUDY, storage=storage, directions=directions)
    study.set_user_attr(_WHAT, what)
    return study


def _require_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise ValueError(f"sweep needs a storage in a folder that exists; got {str(path)!r}.")


def _read(optuna, path: Path) -> tuple[Any, list[str]]:
    """Returns the storage in a file, and the names of its studies."""
    from optuna.storages.journal import JournalFileBackend

    if path.exists() and not _is_journal(path):
        raise ValueError(
            f"sweep needs a storage that a sweep wrote, or a path that is free; got {str(path)!r}, which is neither."
        )
    _repair(path)
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    return storage, optuna.get_all_study_names(storage)


def _repair(path: Path) -> None:
    """Cuts off a last line that was not written to its end."""
    if path.exists():
        with path.open("rb+") as file:
            file.truncate(file.read().rfind(b"\n") + 1)


def _is_journal(path: Path) -> bool:
    """Whether a file is empty or begins as Optuna's journals do."""
    try:
        with path.open() as file:
            first = file.readline()
        return not first or "op_code" in json.loads(first)
    except (ValueError, OSError):
        return False


def _require_same(there: dict[str, Any], here: dict[str, Any], path: str) -> None:
    differing = [name for name in here if there.get(name) != here[name]]
    if differing:
        parts = [f"{name} was {there.get(name)!r} and is now {here[name]!r}" for name in differing]
        raise ValueError(
            f"sweep needs a storage of the same experiment; got {path!r}, where {'; '.join(parts)}. Take another path."
        )


def digest(arrays: Any) -> str:
    """Returns a short hash of arrays in lists, tuples and dicts.

    >>> digest((np.arange(3), None)) == digest((np.arange(3), None)) != digest((np.arange(4), None))
    True
    """
    found = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, dict):
            for key in sorted(value):
                found.update(key.encode())
                add(value[key])
        elif isinstance(value, (tuple, list)):
            for item in value:
                add(item)
        elif value is not None:
            array = np.ascontiguousarray(value)
            found.update(f"{array.shape}{array.dtype}".encode())
            found.update(array.tobytes())

    add(arrays)
    return found.hexdigest()[:12]


def plain(value: Any) -> Any:
    """Returns a value as JSON gives it back: tuples become lists."""
    return json.loads(json.dumps(value))
