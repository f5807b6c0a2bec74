"""What is done to features before a network sees them: learned on the training stays, done to all alike."""

from dataclasses import dataclass

import numpy as np

REACH = 8.0  # interquartile ranges beyond a quartile, from where a value is an outlier


@dataclass(frozen=True)
class Scaling:
    """Outliers become missing, missing values become the median, and [least, most] of training becomes [0, 1].

    Foreign stays go through the same door, and are not clipped: what is beyond the training values stays beyond.
    """

    low: np.ndarray
    high: np.ndarray
    median: np.ndarray
    least: np.ndarray
    most: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray) -> "Scaling":
        """Learns from (stays, features) with NaN where a value is missing.

        A feature of mostly one value, as whether a machine breathes, has no interquartile range, so no outliers. One
        that no training stay has is 0 everywhere: nothing was learned of it.
        """
        known = np.isfinite(features).any(axis=0)
        counted = np.where(known, features, 0.0)
        first, median, third = np.nanquantile(counted, [0.25, 0.5, 0.75], axis=0)
        reach = np.where(third > first, REACH * (third - first), np.inf)
        low, high = first - reach, third + reach
        inside = np.where((counted >= low) & (counted <= high), counted, np.nan)
        return cls(low, high, median, np.nanmin(inside, axis=0), np.nanmax(inside, axis=0))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Returns float32 features for a network."""
        inside = (features >= self.low) & (features <= self.high)  # NaN is not
        filled = np.where(inside, features, self.median)
        width = np.where(self.most > self.least, self.most - self.least, np.inf)
        return ((filled - self.least) / width).astype("float32")
