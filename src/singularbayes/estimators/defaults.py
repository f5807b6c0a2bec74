"""The default settings of the estimators, in one place."""

import math
from dataclasses import dataclass, field
from typing import Any

from singularbayes.posteriors import Anchored


@dataclass(frozen=True)
class Defaults:
    """Arguments of the estimators, and what "auto" means."""

    hidden_layer_sizes: tuple[int, ...] = (64, 64)
    activation: str = "relu"
    rank: int | None = 16
    components: int = 10
    component_examples: str = "repeat"  # every component of a mixture sees every row
    prior: Any = None  # `own_prior`
    own_prior: Any = field(default_factory=lambda: Anchored(0.3))
    eta: float = 0.01
    beta: float = 0.03  # on clean tables β = 1 underfits
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
    folds_below: int = 1_000  # rows; with more, a split is large enough where every fold costs a network
    calibrate_from: int = 20  # rows; with fewer there is no calibration
    calibrate_at_most: int = 20_000  # rows
    variance_from: int = 100  # held-out rows; with fewer, noise="auto" is one noise level
    variance_trees: int = 200
    stopping_draws: int = 16
    # Shares of the epochs: components without their folds, the same with the weights of rows, all rows.
    phases: tuple[float, float, float] = (0.6, 0.2, 0.2)
    later_rate: float = 0.5  # learning rate of the second and third phase, of that of the first
    weight_power: float = 0.5  # a row counts as variance to minus this power; 1 is maximum likelihood

    def epochs(self, steps: int) -> int:
        """Returns how many epochs of so many steps "auto" is: few rows need more passes."""
        return min(1_000, max(50, math.ceil(6_000 / steps)))

    def batch_size(self, rows: int) -> int:
        """Returns the size of a batch for so many rows: a power of two from 32 to 512."""
        return min(512, max(32, 1 << ((rows // 64).bit_length() - 1))) if rows >= 64 else 32


DEFAULTS = Defaults()
