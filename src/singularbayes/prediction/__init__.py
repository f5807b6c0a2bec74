"""Predictive distributions of a model: draws, recalibration, conformal prediction, the randomised predictor."""

from singularbayes.likelihoods import ClassPredictive, Predictive, ValuePredictive
from singularbayes.prediction.bounded_loss import BoundedLoss, find_bounded_loss
from singularbayes.prediction.conformal import ConformalIntervals, ConformalSets, conformal_intervals, conformal_sets
from singularbayes.prediction.monitor import Monitor, MonitorStatus
from singularbayes.prediction.predict import pool, predict, predict_batches
from singularbayes.prediction.randomized import drawn_risks, fresh_draw_losses
from singularbayes.prediction.recalibration import Temperature, VarianceScale, recalibrate

__all__ = [
    "BoundedLoss",
    "ClassPredictive",
    "ConformalIntervals",
    "ConformalSets",
    "Monitor",
    "MonitorStatus",
    "Predictive",
    "Temperature",
    "ValuePredictive",
    "VarianceScale",
    "conformal_intervals",
    "conformal_sets",
    "drawn_risks",
    "find_bounded_loss",
    "fresh_draw_losses",
    "pool",
    "predict",
    "predict_batches",
    "recalibrate",
]
