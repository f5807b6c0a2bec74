"""Where the trials of a sweep are kept, and what tells one sweep from another."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

_STUDY = "sweep"


def require_optuna() -> Any:
    """Returns Optuna, or says what to type to have it."""
    try:
        import optuna
    except ImportError as error:
        raise ImportError(
            f"A sweep needs Optuna; got no {error.name}. Type: pip install 'singularbayes[sweep]'"
        ) from error
    return optuna


def open_study(path: str | Path | None, directions: list[str], what: dict[str, Any], seed: int) -> Any:
    """Returns the Optuna study of a file, made if it is not there; in memory for None.

    Args:
        what: what the trials depend on, as JSON holds it. A file whose trials depend on something else is refused.
    """
    optuna = require_optuna()
    storage, names, done = (None, [], 0) if path is None else _read(optuna, Path(path))
    # A sampler that goes on must not repeat what it suggested first.
    sampler = optuna.samplers.TPESampler(seed=seed + done, n_startup_trials=8)
    options = {"storage": storage, "sampler": sampler, "pruner": optuna.pruners.MedianPruner(n_startup_trials=4)}
    if names and names != [_STUDY]:
        raise ValueError(f"sweep needs a storage of its own; got {str(path)!r}, which holds the studies {names}.")
    if names:
        study = optuna.load_study(study_name=_STUDY, **options)
        _require_same(study.user_attrs.get("what", {}), what, str(path))
        return study
    study = optuna.create_study(study_name=_STUDY, directions=directions, **options)
    study.set_user_attr("what", what)
    return study


def _read(optuna, path: Path) -> tuple[Any, list[str], int]:
    """Returns the storage in a file, the names of its studies, and how many trials there are."""
    from optuna.storages.journal import JournalFileBackend

    if not path.parent.is_dir():
        raise ValueError(f"sweep needs a storage in a folder that exists; got {str(path)!r}.")
    if path.exists() and not _is_journal(path):
        raise ValueError(
            f"sweep needs a storage that a sweep wrote, or a path that is free; got {str(path)!r}, which is neither."
        )
    storage = optuna.storages.JournalStorage(JournalFileBackend(str(path)))
    found = optuna.get_all_study_summaries(storage)
    return storage, [study.study_name for study in found], sum(study.n_trials for study in found)


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
