"""The files and folders that commands read and write."""

import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from rich.console import Console

FIGURES = (".png", ".svg", ".pdf")
Packages = Annotated[list[str] | None, Parameter(name="--import", negative="", consume_multiple=False)]


def show(text: object) -> None:
    """Prints a text as it is, without breaking its lines."""
    Console().print(str(text), soft_wrap=True, highlight=False, markup=False)


def require_folder(path: Path) -> None:
    """Raises unless the folder of a file exists."""
    if not path.parent.is_dir():
        raise ValueError(f"The folder {str(path.parent)!r} of {str(path)!r} does not exist.")


def require_figure(path: Path) -> None:
    """Raises unless a figure can be written under this name."""
    if path.suffix not in FIGURES:
        raise ValueError(f"--figure needs a file that ends in .png, .svg or .pdf; got {str(path)!r}.")
    require_folder(path)


def require_writable(folder: Path, option: str = "--out") -> None:
    """Raises unless files can be made in `folder`: better now than after training."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"{option} needs a folder that can be written to; got {str(folder)!r}: {error.strerror}."
        ) from error


def read_arrays(command: str, option: str, path: Path, names: Sequence[str]) -> list[np.ndarray]:
    """Returns the arrays of an .npz file that have these names; `command` and `option` are those that need them."""
    wanted = f"{command} needs {option}, an .npz file with {' and '.join(names)}; got {str(path)!r}"
    if not path.is_file():
        raise ValueError(f"{wanted}, which does not exist.")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{wanted}, which is not an archive.")
    with np.load(path, allow_pickle=False) as arrays:
        missing = sorted(set(names) - set(arrays.files))
        if missing:
            raise ValueError(f"{wanted}, which has no array called {' or '.join(missing)}.")
        return [arrays[name] for name in names]


def load_model(path: Path, packages: Sequence[str] | None) -> Any:
    """Returns the model of a file, after the packages that define its layers."""
    from singularbayes.models import load_without_optimizer

    return load_without_optimizer(path, packages or ())


def write_model(model: Any, path: Path) -> None:
    """Saves a model under its name when it is complete: a failure leaves the old file, or none."""
    from singularbayes.models import write_whole

    write_whole(path, model.save)
