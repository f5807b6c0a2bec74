"""CSV tables, as published."""

import io
from typing import Any

from singularbayes.checks import require_package


def csv(data: bytes, missing: str = "", **options: Any) -> Any:
    """Returns a DataFrame; a cell is missing if it is `missing`, whatever words pandas takes for it."""
    return require_package("pandas", "", "A table", "singularbayes-experiments").read_csv(
        io.BytesIO(data), keep_default_na=False, na_values=[missing], **options
    )
