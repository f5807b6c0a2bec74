"""Moments of weights that arrive one snapshot at a time, and draws from the Gaussian they make."""

from collections import deque
from typing import Any, Self

import numpy as np


class Snapshots:
    """Mean and variance of all snapshots, and the last K deviations from the running mean.

    θ = mean + √(var / 2) ∘ z₁ + D z₂ / √(2 (K − 1)), so its covariance is ½ (diag(var) + D Dᵀ / (K − 1)). K is the
    rank, or the number of snapshots where there are fewer. The first snapshot is its own running mean: that deviation
    is 0 and is not kept, but counts in K.

    >>> snapshots = Snapshots(rank=5)
    >>> for value in (1.0, 3.0, 5.0):
    ...     snapshots.add(np.array([value]))
    >>> snapshots.mean, snapshots.variance, [d.tolist() for d in snapshots.deviations]  # running means 1, 2, 3
    (array([3.]), array([2.66666667]), [[1.0], [2.0]])
    """

    def __init__(self, rank: int):
        self.rank, self.collected = rank, 0
        self.mean = self._squares = np.zeros(0)
        self.deviations: deque[np.ndarray] = deque(maxlen=rank)

    def add(self, weights: np.ndarray) -> None:
        """Adds one snapshot, (P,)."""
        weights = np.asarray(weights, "float64")
        if not np.isfinite(weights).all():
            raise ValueError("SWAG needs finite weights; got NaN or infinity in a snapshot. Lower the learning rate.")
        self.collected += 1
        if self.collected == 1:
            self.mean, self._squares = weights.copy(), np.zeros_like(weights)
            return
        shift = weights - self.mean
        self.mean = self.mean + shift / self.collected
        self._squares = self._squares + shift * (weights - self.mean)
        self.deviations.append((weights - self.mean).astype("float32"))

    def require(self) -> None:
        """Raises unless there are enough snapshots for a covariance."""
        if self.collected < 2:
            raise ValueError(
                f"SWAG needs 2 or more snapshots; got {self.collected}. Call fit with epochs >= start + 2."
            )

    @property
    def variance(self) -> np.ndarray:
        return self._squares / self.collected

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        """Returns one draw of the weights, (P,)."""
        k = min(self.rank, self.collected)
        weights = self.mean + np.sqrt(self.variance / 2) * rng.standard_normal(len(self.mean), "float32")
        along = rng.standard_normal(len(self.deviations)) / np.sqrt(2 * (k - 1))
        for z, deviation in zip(along, self.deviations, strict=True):
            weights += z * deviation
        return weights.astype("float32")

    def arrays(self) -> dict[str, Any]:
        """Returns all that a file needs beside the rank and the number of snapshots."""
        return {"mean": self.mean, "squares": self._squares, "deviations": np.array(self.deviations)}

    @classmethod
    def from_arrays(cls, rank: int, collected: int, arrays: dict[str, np.ndarray]) -> Self:
        """Returns the snapshots that `arrays` came from."""
        snapshots = cls(rank)
        snapshots.collected, snapshots.mean, snapshots._squares = collected, arrays["mean"], arrays["squares"]
        snapshots.deviations.extend(arrays["deviations"])
        return snapshots
