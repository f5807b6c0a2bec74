"""The default settings of the estimators, in one place."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Defaults:
    """Arguments of the estimators, and what "auto" means."""

    hidden_layer_sizes: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    rank: int = 16
    components: int = 1
    component_examples: str = "repeat"  # every component of a mixture sees every row
    prior: Any = None  # the posterior's own default
    beta: float = 0.1  # on clean tables β = 1 underfits
    noise: str = "auto"
    calibrate: str | None = "auto"
    learning_rate: str = "cosine"
    learning_rate_init: float = 0.005
    max_iter: int | str = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    draws: int = 100

    folds: int = 5
    folds_below: int = 1_000  # rows; with more, a split is large enough
    calibrate_from: int = 20  # rows; with fewer there is no calibration
    head_from: int = 200  # rows; with fewer, noise="auto" is one noise level
    stopping_draws: int = 16

    def epochs(self, steps: int) -> int:
        """Returns how many epochs of so many steps "auto" is: few rows need more passes."""
        return min(1_000, max(50, math.ceil(6_000 / steps)))

    def batch_size(self, rows: int) -> int:
        """Returns the size of a batch for so many rows: a power of two from 32 to 512."""
        return min(512, max(32, 1 << ((rows // 64).bit_length() - 1))) if rows >= 64 else 32


DEFAULTS = Defaults()
