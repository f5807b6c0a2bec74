"""How a model predicts."""

from singularbayes.likelihoods import ClassPredictive, Predictive, ValuePredictive
from singularbayes.prediction.conformal import ConformalIntervals, ConformalSets, conformal_intervals, conformal_sets
from singularbayes.prediction.predict import predict
from singularbayes.prediction.recalibration import Temperature, VarianceScale, recalibrate

__all__ = [
    "ClassPredictive",
    "ConformalIntervals",
    "ConformalSets",
    "Predictive",
    "Temperature",
    "ValuePredictive",
    "VarianceScale",
    "conformal_intervals",
    "conformal_sets",
    "predict",
    "recalibrate",
]
