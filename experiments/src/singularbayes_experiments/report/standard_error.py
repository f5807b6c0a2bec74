"""The standard error of a mean over seeds or splits."""

import math
from collections.abc import Sequence

import numpy as np


def standard_error(values: Sequence[float]) -> float:
    """Returns the standard error of the mean, NaN for fewer than two values.

    >>> standard_error([1.0, 3.0]), standard_error([1.0])
    (1.0, nan)
    """
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
