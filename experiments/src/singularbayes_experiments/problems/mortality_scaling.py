"""What is done to features before a network sees them: learned on the training stays, done to all alike."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

REACH = 8.0  # interquartile ranges beyond a quartile, from where a value is an outlier
Units = Literal["range", "deviation"]  # what one unit of a scaled feature is


@dataclass(frozen=True)
class FeatureScaling:
    """Outliers become missing, missing values the median, and a feature is counted in units of `width` from `zero`.

    Out-of-distribution stays go through the same door, and are not clipped: what is beyond the training values stays
    beyond.
    """

    low: np.ndarray
    high: np.ndarray
    median: np.ndarray
    zero: np.ndarray
    width: np.ndarray

    @classmethod
    def of(cls, features: np.ndarray, units: Units = "range") -> "FeatureScaling":
        """Learns from (stays, features) with NaN where a value is missing.

        A feature of mostly one value, as whether a machine breathes, has no interquartile range, so no outliers. One
        that no training stay has is 0 everywhere: nothing was learned of it.

        Args:
            units: "range", the paper's: [least, most] of training becomes [0, 1]. "deviation": mean 0, deviation 1.
        """
        known = np.isfinite(features).any(axis=0)
        counted = np.where(known, features, 0.0)
        first, median, third = np.nanquantile(counted, [0.25, 0.5, 0.75], axis=0)
        reach = np.where(third > first, REACH * (third - first), np.inf)
        low, high = first - reach, third + reach
        filled = np.where((counted >= low) & (counted <= high), counted, median)
        if units == "range":
            zero, width = filled.min(axis=0), np.ptp(filled, axis=0)
        else:
            zero, width = filled.mean(axis=0), filled.std(axis=0)
        return cls(low, high, median, zero, np.where(width > 0, width, np.inf))

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Returns float32 features for a network."""
        inside = (features >= self.low) & (features <= self.high)  # NaN is not
        filled = np.where(inside, features, self.median)
        return ((filled - self.zero) / self.width).astype("float32")
