"""Loading a saved model, with errors that name what is wrong with the file."""

import importlib
import json
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path

import keras

_PARTS = {"metadata.json", "config.json", "model.weights.h5"}


def read_model(path: str | Path, **kwargs) -> keras.Model:
    """Returns the model of a `.keras` file, or raises with what is wrong with the file.

    Arguments are those of `keras.saving.load_model`.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"load needs a .keras file; got {str(path)!r}, which is not there.")
    if not zipfile.is_zipfile(path):
        raise ValueError(
            f"load needs a .keras file written by model.save; got {str(path)!r}, which is not a zip archive."
        )
    with zipfile.ZipFile(path) as archive:
        missing = _PARTS - set(archive.namelist())
        if missing:
            raise ValueError(f"load needs a .keras file; got {str(path)!r}, an archive without {sorted(missing)}.")
        broken = archive.testzip()
        if broken:
            raise ValueError(f"load needs a whole .keras file; got {str(path)!r}, whose part {broken!r} is damaged.")
        config = _config(archive, path)
    try:
        return keras.saving.load_model(path, **kwargs)
    except (TypeError, ValueError, KeyError, OSError) as error:
        name = config.get("registered_name") or config.get("class_name")
        # Keras puts whole configs before the reason and behind it.
        reason = str(error).rpartition("Exception encountered: ")[2].partition("Full object config:")[0].strip()
        raise ValueError(
            f"load needs a model whose classes are known here; got {str(path)!r}, a {name!r} that Keras cannot "
            f"rebuild. Import the package that defines its layers, or pass custom_objects. Keras reports: {reason}"
        ) from error


def load_without_optimizer(path: str | Path, packages: Sequence[str] = ()) -> keras.Model:
    """Returns the model of a file that will not be trained further, after the packages that define its layers."""
    for package in packages:
        importlib.import_module(package)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Skipping variable loading for optimizer")
        return read_model(path)


def _config(archive: zipfile.ZipFile, path: Path) -> dict:
    try:
        config = json.loads(archive.read("config.json"))
    except ValueError as error:
        raise ValueError(
            f"load needs a whole .keras file; got {str(path)!r}, whose config.json is not JSON."
        ) from error
    if not isinstance(config, dict):
        raise ValueError(f"load needs a .keras file of a model; got {str(path)!r}, whose config.json describes none.")
    return config
