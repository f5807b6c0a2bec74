"""CSV tables, as published."""

import io
from typing import Any

from singularbayes_experiments.data.optional import require


def csv(data: bytes, missing: str = "", **options: Any) -> Any:
    """Returns a DataFrame; a cell is missing if it is `missing`, whatever words pandas takes for it."""
    return require("pandas").read_csv(io.BytesIO(data), keep_default_na=False, na_values=[missing], **options)
