"""What the outputs of a model mean: one likelihood per file, and the table of them."""

from singularbayes.likelihoods.base import Classification, Likelihood, Regression
from singularbayes.likelihoods.bernoulli import Bernoulli, BernoulliNLL
from singularbayes.likelihoods.categorical import BoundedCrossentropy, Categorical
from singularbayes.likelihoods.class_predictive import ClassPredictive, LabelPredictive
from singularbayes.likelihoods.compiled import likelihood_of_output, logits_hint, require_activations
from singularbayes.likelihoods.counts import NegativeBinomial, NegativeBinomialNLL, Poisson, PoissonNLL
from singularbayes.likelihoods.gaussian import BoundedError, Gaussian, GaussianNLL
from singularbayes.likelihoods.heavy_tails import LaplaceNLL, LaplaceNoise, StudentTNLL, StudentTNoise
from singularbayes.likelihoods.labels import find_wrong_labels, require_labels, wrong_labels_error
from singularbayes.likelihoods.mean_scale import MeanScale, MeanScaleNLL
from singularbayes.likelihoods.noise_families import COUNTS, GAUSSIAN, LAPLACE, NoiseFamily, StudentTFamily
from singularbayes.likelihoods.positions import by_position, drop_unweighted, position_weights
from singularbayes.likelihoods.predictive import DETERMINISTIC, Predictive, RunningMoments, require_kind, targets_of
from singularbayes.likelihoods.table import LIKELIHOODS, find_likelihood, highest_label, likelihood_of_loss, why_no_elbo
from singularbayes.likelihoods.value_predictive import ValuePredictive

__all__ = [
    "COUNTS",
    "DETERMINISTIC",
    "GAUSSIAN",
    "LAPLACE",
    "LIKELIHOODS",
    "Bernoulli",
    "BernoulliNLL",
    "BoundedCrossentropy",
    "BoundedError",
    "Categorical",
    "ClassPredictive",
    "Classification",
    "Gaussian",
    "GaussianNLL",
    "LabelPredictive",
    "LaplaceNLL",
    "LaplaceNoise",
    "Likelihood",
    "MeanScale",
    "MeanScaleNLL",
    "NegativeBinomial",
    "NegativeBinomialNLL",
    "NoiseFamily",
    "Poisson",
    "PoissonNLL",
    "Predictive",
    "Regression",
    "RunningMoments",
    "StudentTFamily",
    "StudentTNLL",
    "StudentTNoise",
    "ValuePredictive",
    "by_position",
    "drop_unweighted",
    "find_likelihood",
    "find_wrong_labels",
    "highest_label",
    "likelihood_of_loss",
    "likelihood_of_output",
    "logits_hint",
    "position_weights",
    "require_activations",
    "require_kind",
    "require_labels",
    "targets_of",
    "why_no_elbo",
    "wrong_labels_error",
]
