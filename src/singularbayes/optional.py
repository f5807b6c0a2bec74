"""Packages that only some functions need."""

import importlib
from typing import Any


def require_package(package: str, extra: str, needed_by: str, project: str = "singularbayes") -> Any:
    """Returns the imported package, or raises with what to type to have it; an extra may be "".

    >>> require_package("math", "none", "An example").pi > 3
    True
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        wanted = f"{project}[{extra}]" if extra else project
        raise ImportError(
            f"{needed_by} needs {package}, which is not installed. Type: pip install '{wanted}'"
        ) from error
