"""Folders of saved baselines: models as `.keras` files, and one JSON file that describes the folder."""

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

_NAME = "baseline.json"


def write_folder(folder: str | Path, kind: str, content: dict, fill: Callable[[Path], None]) -> None:
    """Makes a folder that `fill` writes the models into; an older one of a baseline is replaced once all is written."""
    folder = Path(folder)
    if folder.exists() and not (folder / _NAME).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"save needs a new folder, or one that a baseline was saved in; got {str(folder)!r}.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as made:
        whole = Path(made) / "whole"
        whole.mkdir()
        fill(whole)
        (whole / _NAME).write_text(json.dumps({"kind": kind, **content}, indent=2))
        if folder.exists():
            shutil.rmtree(folder)
        whole.rename(folder)


def read_folder(folder: str | Path, kind: str) -> dict:
    """Returns the description of the folder of a baseline of that kind; raises where it is another."""
    path = Path(folder) / _NAME
    if not path.is_file():
        raise FileNotFoundError(f"load needs a folder that {kind}.save wrote; got {str(folder)!r} without {_NAME}.")
    content = json.loads(path.read_text())
    if content.get("kind") != kind:
        raise ValueError(f"load needs a folder of {kind}; got {str(folder)!r}, which holds {content.get('kind')!r}.")
    return content
