"""Arrays in, numbers out: pure functions that know neither models nor Keras."""

from singularbayes.metrics.calibration import (
    ReliabilityCurve,
    calibration_errors,
    expected_calibration_error,
    optimistic_configuration,
    reliability_curve,
)
from singularbayes.metrics.catalogue import (
    DEFAULT_OOD_SCORES,
    DEFAULT_SCORES,
    INTERVAL_LEVEL,
    MEASURES,
    RETAINED_SHARE,
    VARIANCE_SCORES,
    find_measure,
)
from singularbayes.metrics.detection import (
    aupr_err,
    aupr_in,
    aupr_ood,
    aupr_succ,
    auroc_ood,
    fpr_at_tpr,
    ood_scores,
    tpr_at_fpr,
)
from singularbayes.metrics.exchangeability import ConformalMartingale, wealth_side_by_side
from singularbayes.metrics.intervals import (
    IntervalCalibration,
    calibration_of_levels,
    interval_calibration_area,
    interval_calibration_curve,
    interval_calibration_error,
    interval_coverage,
    interval_score,
    interval_width,
)
from singularbayes.metrics.measure import Measure
from singularbayes.metrics.pareto import efficiency_factors, pareto_front
from singularbayes.metrics.regression import (
    crps_gaussian,
    crps_sample,
    gaussian_nll,
    mean_absolute_error,
    r_squared,
    root_mean_square_error,
)
from singularbayes.metrics.scoring import accuracy, auroc, brier, negative_log_likelihood
from singularbayes.metrics.selective import OperatingPoint, SelectiveCurve, selective_curve
from singularbayes.metrics.simple_scores import MahalanobisDistance, energy_score, least_confidence
from singularbayes.metrics.uncertainty import (
    entropy,
    epistemic_iqr,
    iqr_scores,
    mi_ratio,
    mutual_information,
    predictive_std,
)

__all__ = [
    "DEFAULT_OOD_SCORES",
    "DEFAULT_SCORES",
    "INTERVAL_LEVEL",
    "MEASURES",
    "RETAINED_SHARE",
    "VARIANCE_SCORES",
    "ConformalMartingale",
    "IntervalCalibration",
    "MahalanobisDistance",
    "Measure",
    "OperatingPoint",
    "ReliabilityCurve",
    "SelectiveCurve",
    "accuracy",
    "aupr_err",
    "aupr_in",
    "aupr_ood",
    "aupr_succ",
    "auroc",
    "auroc_ood",
    "brier",
    "calibration_errors",
    "calibration_of_levels",
    "crps_gaussian",
    "crps_sample",
    "efficiency_factors",
    "energy_score",
    "entropy",
    "epistemic_iqr",
    "expected_calibration_error",
    "find_measure",
    "fpr_at_tpr",
    "gaussian_nll",
    "interval_calibration_area",
    "interval_calibration_curve",
    "interval_calibration_error",
    "interval_coverage",
    "interval_score",
    "interval_width",
    "iqr_scores",
    "least_confidence",
    "mean_absolute_error",
    "mi_ratio",
    "mutual_information",
    "negative_log_likelihood",
    "ood_scores",
    "optimistic_configuration",
    "pareto_front",
    "predictive_std",
    "r_squared",
    "reliability_curve",
    "root_mean_square_error",
    "selective_curve",
    "tpr_at_fpr",
    "wealth_side_by_side",
]
