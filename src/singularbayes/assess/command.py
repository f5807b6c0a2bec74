"""The command `certify`. Keras is imported when it is called."""

import importlib
import sys
import warnings
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter
from cyclopts.validators import Number

_WORDS = {
    "frozen=True": "--frozen",
    "allow_seen=True": "--allow-seen",
    "Import the package that defines its layers, or pass custom_objects": "Name the package of its layers by --import",
}


def certify(
    model: Path,
    /,
    *,
    data: Path,
    delta: Annotated[float, Parameter(validator=Number(gt=0, lt=1))] = 0.05,
    draws: Annotated[int, Parameter(validator=Number(gte=1))] = 10_000,
    tried: Annotated[int, Parameter(validator=Number(gte=1))] = 1,
    frozen: Annotated[bool, Parameter(negative="")] = False,
    allow_seen: Annotated[bool, Parameter(negative="")] = False,
    likelihood: str | None = None,
    seed: Annotated[int, Parameter(validator=Number(gte=0))] = 0,
    packages: Annotated[list[str] | None, Parameter(name="--import", negative="", consume_multiple=False)] = None,
) -> int:
    """Certify a trained classifier: an upper bound of its share of wrong answers on new data.

    The predictor draws a network for every answer. All trained weights must have posteriors.

    Parameters
    ----------
    model
        The .keras file of a model with posteriors.
    data
        An .npz file with arrays x and y: examples that the prior has not seen, and their labels from 0.
    delta
        The probability with which the bound may be wrong.
    draws
        Networks to draw; more make the bound tighter. Choose before you see a result.
    tried
        How many models were compared on these examples, this one included.
    frozen
        Weights outside posteriors were fixed before these examples were seen.
    allow_seen
        Print a number even if the prior saw the examples; it is no certificate.
    likelihood
        What the outputs mean, such as categorical_logits, where the file does not say.
    seed
        Seed of the draws.
    packages
        A package that defines layers of the model, such as keras_hub; may be said more than once.
    """
    import singularbayes as sb

    try:
        x, y = _read(data)
        bound = sb.certify(
            _load(model, packages or ()),
            x,
            y,
            delta,
            draws,
            tried=tried,
            frozen=frozen,
            allow_seen=allow_seen,
            likelihood=likelihood,
            seed=seed,
        )
    except (ValueError, TypeError) as error:
        text = " ".join(str(error).split())
        for python, shell in _WORDS.items():
            text = text.replace(python, shell)
        sys.exit(f"singularbayes: {text}")
    print(bound)
    return 0


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns x and y of an .npz file."""
    if not path.is_file():
        raise ValueError(
            f"certify needs --data to be an .npz file with x and y; got {str(path)!r}, which is not there."
        )
    if not zipfile.is_zipfile(path):
        raise ValueError(f"certify needs --data, an .npz file with x and y; got {str(path)!r}, which is no archive.")
    with np.load(path, allow_pickle=False) as arrays:
        missing = {"x", "y"} - set(arrays.files)
        if missing:
            raise ValueError(f"certify needs arrays x and y in {str(path)!r}; got none called {sorted(missing)}.")
        return arrays["x"], arrays["y"]


def _load(path: Path, packages: Sequence[str]) -> Any:
    from singularbayes import load

    for package in packages:
        importlib.import_module(package)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Skipping variable loading for optimizer")
        return load(path)
