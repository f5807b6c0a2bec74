"""Predictive distributions of a model: draws, recalibration, conformal prediction, the randomised predictor."""

from singularbayes.likelihoods import ClassPredictive, Predictive, ValuePredictive
from singularbayes.prediction.bounded_loss import BoundedLoss, find_bounded_loss
from singularbayes.prediction.conformal import ConformalIntervals, ConformalSets, conformal_intervals, conformal_sets
from singularbayes.prediction.memory import chunk_sizes
from singularbayes.prediction.monitor import Monitor, MonitorStatus
from singularbayes.prediction.predict import pool, predict, predict_batches
from singularbayes.prediction.prefix import outputs_under, split_of
from singularbayes.prediction.randomized import drawn_risks, fresh_draw_losses, has_other_noise, paired_risks
from singularbayes.prediction.recalibration import Temperature, VarianceScale, recalibrate
from singularbayes.prediction.sampler import sampler_of, stream_draws

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
    "chunk_sizes",
    "conformal_intervals",
    "conformal_sets",
    "drawn_risks",
    "find_bounded_loss",
    "fresh_draw_losses",
    "has_other_noise",
    "outputs_under",
    "paired_risks",
    "pool",
    "predict",
    "predict_batches",
    "recalibrate",
    "sampler_of",
    "split_of",
    "stream_draws",
]
