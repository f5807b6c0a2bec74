"""Packages that only downloads and tables need."""

import importlib
from typing import Any


def require(package: str) -> Any:
    """Returns the imported package, or says what to type to have it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(
            f"Data sets need pooch and pandas, and MIMIC-III duckdb; got no {error.name}. Type: "
            "pip install 'singularbayes[experiments]'"
        ) from error
