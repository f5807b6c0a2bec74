"""How a model predicts."""

from singularbayes.prediction.conformal import ConformalIntervals, ConformalSets, conformal_intervals, conformal_sets
from singularbayes.prediction.predict import pool, predict
from singularbayes.prediction.predictive import ClassPredictive, Predictive, ValuePredictive, require_kind
from singularbayes.prediction.randomized import drawn_risks, has_other_noise
from singularbayes.prediction.recalibration import Temperature, TemperedPredictive, VarianceScale, recalibrate
from singularbayes.prediction.reducers import Classes
from singularbayes.prediction.stream import stream_draws

__all__ = [
    "ClassPredictive",
    "Classes",
    "ConformalIntervals",
    "ConformalSets",
    "Predictive",
    "Temperature",
    "TemperedPredictive",
    "ValuePredictive",
    "VarianceScale",
    "conformal_intervals",
    "conformal_sets",
    "drawn_risks",
    "has_other_noise",
    "pool",
    "predict",
    "recalibrate",
    "require_kind",
    "stream_draws",
]
