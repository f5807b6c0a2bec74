"""What commands read and write, and how their errors end: in one line, in the words of the command line."""

import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from rich.console import Console

FIGURES = (".png", ".svg", ".pdf")
Packages = Annotated[list[str] | None, Parameter(name="--import", negative="", consume_multiple=False)]

_IN_SHELL = {
    "Import the package that defines its layers, or pass custom_objects": "Name the package of its layers by --import",
}


@contextmanager
def one_line(words: Mapping[str, str] | None = None, program: str = "singularbayes") -> Iterator[None]:
    """Ends the program with one line where a value or a type is wrong.

    Args:
        words: what errors call an argument in Python, and what it is called on the command line.
    """
    try:
        yield
    except (ValueError, TypeError) as error:
        sys.exit(f"{program}: {in_shell(' '.join(str(error).split()), words)}")


def in_shell(text: str, words: Mapping[str, str] | None = None) -> str:
    """Returns a text with the arguments of Python as options of the command line."""
    for python, shell in {**_IN_SHELL, **(words or {})}.items():
        text = text.replace(python, shell)
    return text


def show(text: object) -> None:
    """Prints a text as it is, without breaking its lines."""
    Console().print(str(text), soft_wrap=True, highlight=False, markup=False)


def require_folder(path: Path) -> None:
    """Ends with one line unless the folder of a file exists."""
    if not path.parent.is_dir():
        sys.exit(f"singularbayes: {str(path)!r} needs a folder that exists; {str(path.parent)!r} is none.")


def require_figure(path: Path) -> None:
    """Ends with one line unless a figure can be written under this name."""
    if path.suffix not in FIGURES:
        sys.exit(f"singularbayes: --figure needs a file that ends in .png, .svg or .pdf; got {str(path)!r}.")
    require_folder(path)


def require_writable(folder: Path, option: str = "--out", program: str = "singularbayes") -> None:
    """Ends with one line unless files can be made in `folder`: better now than after training."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        got = f"{str(folder)!r}: {error.strerror}"
        sys.exit(f"{program}: {option} needs a folder that can be written to; got {got}.")


def read_arrays(command: str, option: str, path: Path, names: Sequence[str]) -> list[np.ndarray]:
    """Returns the arrays of an .npz file that have these names; `command` and `option` are those that need them."""
    wanted = f"{command} needs {option}, an .npz file with {' and '.join(names)}; got {str(path)!r}"
    if not path.is_file():
        raise ValueError(f"{wanted}, which does not exist.")
    if not zipfile.is_zipfile(path):
        raise ValueError(f"{wanted}, which is no archive.")
    with np.load(path, allow_pickle=False) as arrays:
        missing = sorted(set(names) - set(arrays.files))
        if missing:
            raise ValueError(f"{wanted}, which has none called {missing}.")
        return [arrays[name] for name in names]


def load_model(path: Path, packages: Sequence[str] | None) -> Any:
    """Returns the model of a file, after the packages that define its layers."""
    from singularbayes.models import load_without_optimizer

    return load_without_optimizer(path, packages or ())


def write_model(model: Any, path: Path) -> None:
    """Saves a model under its name when it is whole: a failure leaves the old file, or none."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".singularbayes-") as folder:
        model.save(Path(folder) / path.name)
        (Path(folder) / path.name).replace(path)
