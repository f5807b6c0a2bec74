"""What the outputs of a model mean: one class per likelihood, and how it is found."""

from singularbayes.likelihoods.base import Classification, Likelihood, Regression
from singularbayes.likelihoods.class_predictive import ClassPredictive, LabelPredictive
from singularbayes.likelihoods.classes import Bernoulli, BoundedCrossentropy, Categorical
from singularbayes.likelihoods.compiled import (
    LIKELIHOODS,
    find_likelihood,
    likelihood_of_loss,
    likelihood_of_output,
    logits_hint,
    require_activations,
    require_labels,
    why_no_elbo,
)
from singularbayes.likelihoods.counts import NegativeBinomial, Poisson
from singularbayes.likelihoods.noise_families import COUNTS, GAUSSIAN, LAPLACE, NoiseFamily, StudentTFamily
from singularbayes.likelihoods.positions import by_position, drop_unweighted, position_weights
from singularbayes.likelihoods.predictive import DETERMINISTIC, Predictive, RunningMoments, require_kind, targets_of
from singularbayes.likelihoods.value_predictive import ValuePredictive
from singularbayes.likelihoods.values import BoundedError, Gaussian, LaplaceNoise, MeanScale, StudentTNoise

__all__ = [
    "COUNTS",
    "DETERMINISTIC",
    "GAUSSIAN",
    "LAPLACE",
    "LIKELIHOODS",
    "Bernoulli",
    "BoundedCrossentropy",
    "BoundedError",
    "Categorical",
    "ClassPredictive",
    "Classification",
    "Gaussian",
    "LabelPredictive",
    "LaplaceNoise",
    "Likelihood",
    "MeanScale",
    "NegativeBinomial",
    "NoiseFamily",
    "Poisson",
    "Predictive",
    "Regression",
    "RunningMoments",
    "StudentTFamily",
    "StudentTNoise",
    "ValuePredictive",
    "by_position",
    "drop_unweighted",
    "find_likelihood",
    "likelihood_of_loss",
    "likelihood_of_output",
    "logits_hint",
    "position_weights",
    "require_activations",
    "require_kind",
    "require_labels",
    "targets_of",
    "why_no_elbo",
]
