"""Low-rank variational Bayesian neural networks for Keras 3.

>>> import keras, singularbayes as sb
>>> from singularbayes import layers, LowRank
>>> model = keras.Sequential([layers.Dense(128, "relu", posterior=LowRank(15)), layers.Dense(1, posterior=LowRank(1))])
"""

import os
import sys

if "keras" not in sys.modules:  # else its backend is chosen already
    os.environ.setdefault("KERAS_BACKEND", "jax")

from singularbayes import layers
from singularbayes.evaluation import bounds_report, certify, compare, diagnose, evaluate, selective
from singularbayes.baselines import SWAG, DeepEnsemble, LowRankEnsemble, MCDropout, TemperatureScaled
from singularbayes.convert import bayesianize, collapse, freeze_draws, plan, spectrum
from singularbayes.likelihoods import Bernoulli, Categorical, Gaussian, GaussianNLL, MeanScale, MeanScaleNLL
from singularbayes.training import BoundedCrossentropy, KLSchedule, PACBayesObjective, SpectralPenalty, SpectralProjection, centre_prior, fit_many, kl, learn_prior, set_kl
from singularbayes.prediction import ClassPredictive, Predictive, ValuePredictive, conformal_intervals, conformal_sets, predict, recalibration as recalibrate
from singularbayes.models import ModelParallel, find_posteriors, load, mean_weights
from singularbayes.metrics import ood_scores
from singularbayes.posteriors import (
    Adapter,
    Centred,
    ColumnShrinkage,
    Deterministic,
    FullRank,
    KTied,
    Laplace,
    LowRank,
    Normal,
    RankOne,
    ScaleMixture,
)

__version__ = "0.1.0"
__all__ = [
    "SWAG",
    "Adapter",
    "Bernoulli",
    "BoundedCrossentropy",
    "Categorical",
    "Centred",
    "ClassPredictive",
    "ColumnShrinkage",
    "DeepEnsemble",
    "Deterministic",
    "FullRank",
    "Gaussian",
    "GaussianNLL",
    "KLSchedule",
    "KTied",
    "Laplace",
    "LowRank",
    "LowRankEnsemble",
    "MCDropout",
    "MeanScale",
    "MeanScaleNLL",
    "ModelParallel",
    "Normal",
    "PACBayesObjective",
    "Predictive",
    "RankOne",
    "ScaleMixture",
    "SpectralPenalty",
    "SpectralProjection",
    "TemperatureScaled",
    "ValuePredictive",
    "bayesianize",
    "bounds_report",
    "centre_prior",
    "certify",
    "collapse",
    "compare",
    "conformal_intervals",
    "conformal_sets",
    "diagnose",
    "evaluate",
    "find_posteriors",
    "fit_many",
    "freeze_draws",
    "kl",
    "layers",
    "learn_prior",
    "load",
    "mean_weights",
    "ood_scores",
    "plan",
    "predict",
    "recalibrate",
    "selective",
    "set_kl",
    "spectrum",
]
