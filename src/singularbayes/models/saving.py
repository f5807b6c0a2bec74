"""Loading a saved model, with errors that name what is wrong with the file; writing files whole."""

import importlib
import importlib.util
import json
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import keras

_PARTS = {"metadata.json", "config.json", "model.weights.h5"}
_TORCH_OPTIMIZERS = "keras.src.backend.torch.optimizers"


def read_model(path: str | Path, **kwargs) -> keras.Model:
    """Returns the model of a `.keras` file, or raises with what is wrong with the file.

    A compiled model can be trained further on any backend: an optimizer that was saved on torch, under the name of a
    class of that backend, becomes the Keras optimizer, and `jit_compile` is what it is by default on this backend.

    Arguments are those of `keras.saving.load_model`; its safe mode refuses code inside the file.
    """
    path = Path(path)
    if not path.is_file():
        found = "a folder" if path.is_dir() else "not there"
        raise FileNotFoundError(f"load needs a .keras file; got {str(path)!r}, which is {found}.")
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            cut = " any more: it begins as one and is cut off" if file.read(4) == b"PK\x03\x04" else ""
        raise ValueError(
            f"load needs a .keras file written by model.save; got {str(path)!r}, which is not a zip archive{cut}."
        )
    with zipfile.ZipFile(path) as archive:
        missing = _PARTS - set(archive.namelist())
        if missing:
            raise ValueError(f"load needs a .keras file; got {str(path)!r}, an archive without {sorted(missing)}.")
        broken = archive.testzip()
        if broken:
            raise ValueError(f"load needs a whole .keras file; got {str(path)!r}, whose part {broken!r} is damaged.")
        texts = {part: archive.read(part) for part in ("config.json", "metadata.json")}
    try:
        config = json.loads(texts["config.json"])
        objects = list(_objects(config))
        _import_packages(objects)
        known = {**_torch_optimizers(objects), **(kwargs.pop("custom_objects", None) or {})}
        model = keras.saving.load_model(path, custom_objects=known, **kwargs)
    except (TypeError, ValueError, KeyError, OSError, AttributeError) as error:
        raise ValueError(_diagnosis(str(path), texts["metadata.json"], str(error))) from error
    if model.compiled and not model.run_eagerly:
        # Keras saves what "auto" came to on the backend of the file, not "auto".
        model.jit_compile = None  # Keras finds out when it is asked
    return model


def load_without_optimizer(path: str | Path, packages: Sequence[str] = ()) -> keras.Model:
    """Returns the model of a file that will not be trained further, after the packages that define its layers."""
    for package in packages:
        importlib.import_module(package)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Skipping variable loading for optimizer")
        return read_model(path)


def _objects(config) -> Iterator[dict]:
    """Yields what a config describes, the whole first: models, layers, posteriors, functions, optimizers."""
    if isinstance(config, dict):
        if isinstance(config.get("class_name"), str):
            yield config
        config = list(config.values())
    if isinstance(config, list):
        for part in config:
            yield from _objects(part)


def _import_packages(objects: list[dict]) -> None:
    """Imports the packages of this library that a config names, which registers their classes."""
    for module in {str(found.get("module")) for found in objects}:
        library, _, rest = module.partition(".")
        package = f"singularbayes.{rest.partition('.')[0]}"
        if library == "singularbayes" and rest and importlib.util.find_spec(package):
            importlib.import_module(package)


def _torch_optimizers(objects: list[dict]) -> dict[str, type]:
    """Returns the Keras optimizers for those that Keras saved on torch by the name of torch's own module."""
    names = {found["class_name"] for found in objects if str(found.get("module")).startswith(_TORCH_OPTIMIZERS)}
    return {name: getattr(keras.optimizers, name) for name in names if hasattr(keras.optimizers, name)}


def _diagnosis(path: str, metadata: bytes, reason: str) -> str:
    """Returns what may be wrong with a file that Keras cannot load, and what to do."""
    # Keras puts whole configs before the reason and behind it.
    reason = reason.rpartition("Exception encountered: ")[2].partition("Full object config:")[0].strip()
    if "safe_mode" in reason or "Not allowed" in reason or "disallowed" in reason:
        return (
            f"load refuses {path!r}: it holds Python code, or something else that no model needs, which would run on "
            f"this machine. If you trust whoever made the file, pass safe_mode=False. Keras reports: {reason}"
        )
    try:
        written = f"; it was written by Keras {json.loads(metadata)['keras_version']}, this is {keras.__version__}"
    except (ValueError, KeyError, TypeError):
        written = ""
    return (
        f"load needs a whole .keras file of a model whose classes are known here; got {path!r}, which Keras cannot "
        f"read{written}. Import the packages that define its classes (or pass custom_objects), and use versions that "
        f"are not older than those that wrote it. Keras reports: {reason}"
    )


def write_whole(path: str | Path, write: Callable[[Path], object]) -> None:
    """Writes a file with `write(path)` under its name when it is complete: a failure leaves the old file, or none."""
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".singularbayes-") as folder:
        part = Path(folder) / target.name
        write(part)
        part.replace(target)
