"""Loading a saved model, with errors that say what is wrong with the file."""

import json
import zipfile
from pathlib import Path

import keras

from singularbayes.inference.elbo import log_stored_kl_weight

_PARTS = {"metadata.json", "config.json", "model.weights.h5"}


def load(path: str | Path, **kwargs) -> keras.Model:
    """Returns the model of a `.keras` file; arguments are those of `keras.saving.load_model`.

    `fit` of the model without `KLSchedule` uses the KL weight of the file, warns that it does, and logs `nll`, `kl` and
    `kl_weight`. `keras.saving.load_model` works too once `singularbayes` is imported, but does not log them, and does
    not say what is wrong when a file is not a whole model.
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
        model = keras.saving.load_model(path, **kwargs)
    except (TypeError, ValueError, KeyError, OSError) as error:
        name = config.get("registered_name") or config.get("class_name")
        # Keras puts whole configs before the reason and behind it.
        said = str(error).rpartition("Exception encountered: ")[2].partition("Full object config:")[0].strip()
        raise ValueError(
            f"load needs a model whose classes are known here; got {str(path)!r}, a {name!r} that Keras cannot "
            f"rebuild. Import the package that defines its layers, or pass custom_objects. Keras says: {said}"
        ) from error
    log_stored_kl_weight(model)
    return model


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
