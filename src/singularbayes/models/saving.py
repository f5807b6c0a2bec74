"""Loading a saved model, with errors that name what is wrong with the file."""

import importlib
import importlib.metadata
import importlib.util
import json
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import keras

_PARTS = {"metadata.json", "config.json", "model.weights.h5"}
_BOMB_BYTES, _BOMB_RATIO = 1 << 28, 100  # Keras stores the parts of a file as they are
_TORCH_OPTIMIZERS = "keras.src.backend.torch.optimizers"


def read_model(path: str | Path, **kwargs) -> keras.Model:
    """Returns the model of a `.keras` file, or raises with what is wrong with the file.

    A compiled model can be trained further on any backend: an optimizer that was saved on torch, under the name of a
    class of that backend, becomes the Keras optimizer, and `jit_compile` is what it is by default on this backend.

    Arguments are those of `keras.saving.load_model`.
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
        _refuse_unsafe_parts(archive, path)
        broken = archive.testzip()
        if broken:
            raise ValueError(f"load needs a whole .keras file; got {str(path)!r}, whose part {broken!r} is damaged.")
        config, metadata = (_json(archive, part, path) for part in ("config.json", "metadata.json"))
    _import_packages(config)
    known = {**_torch_optimizers(config), **(kwargs.pop("custom_objects", None) or {})}
    unknown = list(_unknown_objects(config, known))
    _refuse_python_modules(unknown, path)
    try:
        model = keras.saving.load_model(path, custom_objects=known, **kwargs)
    except (TypeError, ValueError, KeyError, OSError, AttributeError) as error:
        raise ValueError(f"{_diagnosis(path, unknown, metadata, error)} Keras reports: {_reason(error)}") from error
    if model.compiled and not model.run_eagerly:
        # Keras saves what "auto" came to on the backend of the file, not "auto".
        model.jit_compile = model._resolve_auto_jit_compile()
    return model


def load_without_optimizer(path: str | Path, packages: Sequence[str] = ()) -> keras.Model:
    """Returns the model of a file that will not be trained further, after the packages that define its layers."""
    for package in packages:
        importlib.import_module(package)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Skipping variable loading for optimizer")
        return read_model(path)


def _json(archive: zipfile.ZipFile, part: str, path: Path) -> dict:
    try:
        content = json.loads(archive.read(part))
    except ValueError as error:
        raise ValueError(f"load needs a whole .keras file; got {str(path)!r}, whose {part} is not JSON.") from error
    if not isinstance(content, dict):
        raise ValueError(f"load needs a .keras file of a model; got {str(path)!r}, whose {part} describes none.")
    return content


def _objects(config) -> Iterator[dict]:
    """Yields what a config describes, the whole first: models, layers, posteriors, functions, optimizers."""
    if isinstance(config, dict):
        if isinstance(config.get("class_name"), str):
            yield config
        config = list(config.values())
    if isinstance(config, list):
        for part in config:
            yield from _objects(part)


def _import_packages(config: dict) -> None:
    """Imports the packages of this library that a config names, which registers their classes."""
    for module in {str(found.get("module")) for found in _objects(config)}:
        library, _, rest = module.partition(".")
        package = f"singularbayes.{rest.partition('.')[0]}"
        if library == "singularbayes" and rest and importlib.util.find_spec(package):
            importlib.import_module(package)


def _torch_optimizers(config: dict) -> dict[str, type]:
    """Returns the Keras optimizers for those that Keras saved on torch by the name of torch's own module."""
    names = {
        found["class_name"] for found in _objects(config) if str(found.get("module")).startswith(_TORCH_OPTIMIZERS)
    }
    return {name: getattr(keras.optimizers, name) for name in names if hasattr(keras.optimizers, name)}


# -- what is wrong with a file ---------------------------------------------------------------------------------------


def _refuse_unsafe_parts(archive: zipfile.ZipFile, path: Path) -> None:
    """Raises where an archive would fill the memory, or write beside the folder that it is unpacked in."""
    for part in archive.infolist():
        if part.file_size > max(_BOMB_BYTES, _BOMB_RATIO * part.compress_size):
            raise ValueError(
                f"load refuses {str(path)!r}: its part {part.filename!r} of {part.compress_size:,} bytes unpacks to "
                f"{part.file_size:,}, as in a decompression bomb."
            )
        name = PurePosixPath(part.filename.replace("\\", "/"))
        if name.is_absolute() or ".." in name.parts:
            raise ValueError(f"load refuses {str(path)!r}: its part {part.filename!r} lies outside the archive.")


def _unknown_objects(config: dict, custom_objects: dict) -> Iterator[tuple[str, str]]:
    """Yields module and name of the classes and functions in a config that are neither Keras's nor registered."""
    for found in _objects(config):
        name, module, registered = (str(found.get(key) or "") for key in ("class_name", "module", "registered_name"))
        if name == "function":
            name = str(found.get("config"))
        names = (registered, name)
        known = any(keras.saving.get_registered_object(one, custom_objects) is not None for one in names)
        if "module" in found and not known and module.partition(".")[0] != "keras" and not _is_keras_function(found):
            yield module, name


def has_unknown_objects(config) -> bool:
    """Whether a config names a class or function that is neither Keras's nor registered."""
    return any(True for _ in _unknown_objects(config, {}))


def _is_keras_function(found: dict) -> bool:
    """Whether an object is one of Keras's functions, which configs call builtins."""
    if found["module"] != "builtins" or found["class_name"] != "function":
        return False
    try:
        return keras.saving.deserialize_keras_object(found) is not None
    except (TypeError, ValueError):
        return False


def _refuse_python_modules(unknown: list[tuple[str, str]], path: Path) -> None:
    """Raises where a file names a function or class of Python itself: no model is made of these."""
    for module, name in unknown:
        package = module.partition(".")[0]
        if (package in sys.stdlib_module_names and package != "builtins") or name in ("eval", "exec", "__import__"):
            raise ValueError(
                f"load refuses {str(path)!r}: it names {module}.{name}, which is no part of a model. The file may have "
                "been made to run code on this machine."
            )


def _diagnosis(path: Path, unknown: list[tuple[str, str]], metadata: dict, error: Exception) -> str:
    """Returns what is wrong with a file that Keras cannot load, and what to do."""
    where, reason = repr(str(path)), str(error)
    if "safe_mode" in reason or "Not allowed" in reason or "disallowed" in reason:
        return (
            f"load refuses {where}: it holds Python code, or something else that no model needs, which would run on "
            "this machine. If you trust whoever made the file, pass safe_mode=False."
        )
    for module, name in unknown[:1]:
        package = module.partition(".")[0]
        if package == "singularbayes":
            return _newer(where, f"singularbayes, which has {name}", package)
        if package and package != "__main__" and importlib.util.find_spec(package) is None:
            return f"load needs the package {package!r} for {name} in {where}, and it is not installed. Install it."
        return (
            f"load needs a model whose classes are known here; got {where}, which has {name} of {module!r}. Import the "
            "package that defines it (or pass custom_objects)."
        )
    if _version(metadata.get("keras_version")) > _version(keras.__version__):
        return _newer(where, f"Keras, {metadata['keras_version']}", "keras")
    if "singularbayes" in reason and ("nrecognized keyword argument" in reason or "unexpected keyword" in reason):
        return _newer(where, "singularbayes, with arguments that are unknown here", "singularbayes")
    if isinstance(error, OSError) or "could not be loaded" in reason or "during loading" in reason:
        return f"load needs a whole .keras file; got {where}, whose weights are damaged or those of another model."
    return f"load needs a .keras file of a model; got {where}, which Keras cannot rebuild."


def _newer(where: str, what: str, package: str) -> str:
    here = importlib.metadata.version(package)
    return (
        f"load needs a file of this version or an older one; got {where}, written by a newer {what}; {here} is "
        f"installed. Run pip install --upgrade {package}."
    )


def _version(text) -> tuple[int, ...]:
    return tuple(int(part) for part in str(text).split(".")[:3] if part.isdigit())


def _reason(error: Exception) -> str:
    """Returns the message of Keras without the whole configs that it puts before the reason and behind it."""
    return str(error).rpartition("Exception encountered: ")[2].partition("Full object config:")[0].strip()


def write_whole(path: str | Path, write: Callable[[Path], object]) -> None:
    """Writes a file with `write(path)` under its name when it is complete: a failure leaves the old file, or none."""
    target = Path(path)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".singularbayes-") as folder:
        part = Path(folder) / target.name
        write(part)
        part.replace(target)
