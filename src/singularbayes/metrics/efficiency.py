"""How a score is weighed by the size of the model."""

import math
from collections.abc import Mapping


def efficiency_factors(parameters: Mapping[str, int]) -> dict[str, float]:
    """Returns √(fewest parameters / parameters) of every model: 1 for the smallest.

    >>> efficiency_factors({"low-rank": 100, "ensemble": 400})
    {'low-rank': 1.0, 'ensemble': 0.5}
    """
    if not parameters or not all(0 < count < math.inf for count in parameters.values()):
        raise ValueError(f"efficiency_factors needs models with at least one parameter each; got {dict(parameters)}.")
    fewest = min(parameters.values())
    return {model: math.sqrt(fewest / count) for model, count in parameters.items()}
