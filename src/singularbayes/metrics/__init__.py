"""Arrays in, numbers out: pure functions that know neither models nor Keras."""

from singularbayes.metrics.detection import aupr_ood, auroc_ood
from singularbayes.metrics.scoring import (
    accuracy,
    brier,
    expected_calibration_error,
    negative_log_likelihood,
    root_mean_square_error,
)

__all__ = [
    "accuracy",
    "aupr_ood",
    "auroc_ood",
    "brier",
    "expected_calibration_error",
    "negative_log_likelihood",
    "root_mean_square_error",
]
