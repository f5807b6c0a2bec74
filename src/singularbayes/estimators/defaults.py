"""The default settings of the estimators, in one place."""

import math
from dataclasses import dataclass, field
from typing import Any

from singularbayes.posteriors import Anchored


@dataclass(frozen=True)
class Defaults:
    """Arguments of the estimators, and what "auto" means."""

    hidden_layer_sizes: tuple[int, ...] = (128, 128)
    activation: str = "relu"
    rank: int | None = 16
    components: int = 8
    prior: Any = None  # `own_prior`
    own_prior: Any = field(default_factory=lambda: Anchored(0.3))
    eta: float = 0.001  # posteriors start narrow, and the KL opens them
    beta: float = 0.01  # on clean tables β = 1 underfits
    noise: str = "auto"
    calibrate: str | None = "auto"
    learning_rate: str = "cosine"
    learning_rate_init: float = 0.015
    warm_up: float = 0.1  # share of the steps in which the learning rate rises
    max_iter: int | str = "auto"
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    draws: int = 100

    # Of classifiers, where these differ: chosen on validation rows of nine tables.
    class_hidden_layer_sizes: tuple[int, ...] = (64, 64)
    class_beta: float = 0.3
    class_smallest_batch: int = 32

    steps: int = 2_000  # of training; "auto" is about as many
    fewest_epochs: int = 50
    batches: int = 64  # of an epoch, about, where rows are many
    smallest_batch: int = 64
    folds: int = 5  # of components that are fewer
    most_folds: int = 10
    pairs: float = 0.2  # share of the rows that two components do not see
    folds_below: int = 1_000  # rows; with more, a split is large enough where every fold costs a network
    untouched_from: int = 10_000  # rows; with this many, some are held out from all components
    untouched: float = 0.05  # share of the rows that are
    untouched_at_most: int = 2_000
    judged_rows: int = 2_048  # by which components are judged after training
    failed: float = 25.0  # times the median squared error of the others: one that learned nothing
    calibrate_from: int = 20  # rows; with fewer there is no calibration
    calibrate_at_most: int = 20_000  # rows
    variance_from: int = 100  # held-out rows; with fewer, predicted variances have one factor
    variance_trees: int = 100
    kept_rows: int = 200  # held-out rows of `partial_fit`: the newest, because the network changes
    stopping_draws: int = 16

    def epochs(self, per_epoch: int) -> int:
        """Returns how many epochs "auto" is, for about `steps` in all: few rows need more passes."""
        return min(1_500, max(self.fewest_epochs, math.ceil(self.steps / per_epoch)))

    def batch_size(self, rows: int, smallest: int) -> int:
        """Returns the size of a batch for this many rows: a power of two from `smallest` to 512."""
        return min(512, max(smallest, 1 << max(0, (rows // self.batches).bit_length() - 1)))


DEFAULTS = Defaults()
