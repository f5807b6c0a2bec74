"""Scores of predictions for rows of a table."""

import numpy as np
import scoringrules
from scipy.stats import norm

COVERAGE = 0.9


def value_scores(
    y: np.ndarray, mean: np.ndarray, std: np.ndarray, low: np.ndarray, high: np.ndarray
) -> dict[str, float]:
    """Returns the scores of normal predictions and of intervals, in the units of y."""
    return {
        "nll": float(-np.mean(norm.logpdf(y, mean, std))),  # that of scoringrules is infinite 39 deviations out
        "crps": float(np.mean(scoringrules.crps_normal(y, mean, std))),
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "coverage": float(np.mean((low <= y) & (y <= high))),
        "width": float(np.mean(high - low)),
    }


def class_scores(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """Returns the scores of probabilities (rows, classes) for labels 0, 1, …; they count as at least 1e-12."""
    own = p[np.arange(len(y)), y]
    return {
        "nll": float(-np.mean(np.log(np.maximum(own, 1e-12)))),
        "brier": float(np.mean(((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1))),
        "accuracy": float(np.mean(p.argmax(axis=1) == y)),
    }
