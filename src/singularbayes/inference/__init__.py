"""How a model is fitted and asked."""

from singularbayes.inference.elbo import KLSchedule, kl, set_kl
from singularbayes.inference.files import load
from singularbayes.inference.find import find_posteriors
from singularbayes.inference.likelihood import Bernoulli, Categorical, Gaussian, GaussianNLL
from singularbayes.inference.many import fit_many
from singularbayes.inference.mean import mean_weights
from singularbayes.inference.predict import predict
from singularbayes.inference.predictive import ClassPredictive, Predictive, ValuePredictive

__all__ = [
    "Bernoulli",
    "Categorical",
    "ClassPredictive",
    "Gaussian",
    "GaussianNLL",
    "KLSchedule",
    "Predictive",
    "ValuePredictive",
    "find_posteriors",
    "fit_many",
    "kl",
    "load",
    "mean_weights",
    "predict",
    "set_kl",
]
