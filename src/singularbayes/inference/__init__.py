"""How a model is fitted and asked."""

from singularbayes.inference.conformal import (
    ConformalIntervals,
    ConformalSets,
    conformal_intervals,
    conformal_sets,
)
from singularbayes.inference.elbo import KLSchedule, kl, set_kl
from singularbayes.inference.files import load
from singularbayes.inference.find import find_posteriors
from singularbayes.inference.layout import ModelParallel
from singularbayes.inference.likelihood import Bernoulli, Categorical, Gaussian, GaussianNLL, MeanScale, MeanScaleNLL
from singularbayes.inference.many import fit_many
from singularbayes.inference.mean import mean_weights
from singularbayes.inference.pac_bayes import BoundedCrossentropy, PACBayesObjective
from singularbayes.inference.predict import predict
from singularbayes.inference.predictive import ClassPredictive, Predictive, ValuePredictive
from singularbayes.inference.prior import centre_prior, learn_prior
from singularbayes.inference.recalibrate import Temperature, VarianceScale, recalibrate
from singularbayes.inference.spectral import SpectralPenalty, SpectralProjection, Truncation, truncation

__all__ = [
    "Bernoulli",
    "BoundedCrossentropy",
    "Categorical",
    "ClassPredictive",
    "ConformalIntervals",
    "ConformalSets",
    "Gaussian",
    "GaussianNLL",
    "KLSchedule",
    "MeanScale",
    "MeanScaleNLL",
    "ModelParallel",
    "PACBayesObjective",
    "Predictive",
    "SpectralPenalty",
    "SpectralProjection",
    "Temperature",
    "Truncation",
    "ValuePredictive",
    "VarianceScale",
    "centre_prior",
    "conformal_intervals",
    "conformal_sets",
    "find_posteriors",
    "fit_many",
    "kl",
    "learn_prior",
    "load",
    "mean_weights",
    "predict",
    "recalibrate",
    "set_kl",
    "truncation",
]
