"""What the outputs of a model mean: one likelihood per file, and the table of them."""

from singularbayes.likelihoods.base import Classification, Likelihood, Regression
from singularbayes.likelihoods.bernoulli import Bernoulli
from singularbayes.likelihoods.categorical import BoundedCrossentropy, Categorical
from singularbayes.likelihoods.compiled import likelihood_of_output, logits_hint, require_activations
from singularbayes.likelihoods.gaussian import Gaussian, GaussianNLL
from singularbayes.likelihoods.labels import find_wrong_labels, require_labels, wrong_labels_error
from singularbayes.likelihoods.mean_scale import MeanScale, MeanScaleNLL
from singularbayes.likelihoods.predictive import (
    DETERMINISTIC,
    ClassPredictive,
    Predictive,
    RunningMoments,
    ValuePredictive,
    require_kind,
    targets_of,
)
from singularbayes.likelihoods.table import LIKELIHOODS, find_likelihood, highest_label, likelihood_of_loss

__all__ = [
    "DETERMINISTIC",
    "LIKELIHOODS",
    "Bernoulli",
    "BoundedCrossentropy",
    "Categorical",
    "ClassPredictive",
    "Classification",
    "Gaussian",
    "GaussianNLL",
    "Likelihood",
    "MeanScale",
    "MeanScaleNLL",
    "Predictive",
    "Regression",
    "RunningMoments",
    "ValuePredictive",
    "find_likelihood",
    "find_wrong_labels",
    "highest_label",
    "likelihood_of_loss",
    "likelihood_of_output",
    "logits_hint",
    "require_activations",
    "require_kind",
    "require_labels",
    "targets_of",
    "wrong_labels_error",
]
