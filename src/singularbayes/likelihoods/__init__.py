"""What the outputs of a model mean."""

from singularbayes.likelihoods import likelihood
from singularbayes.likelihoods.bounded_crossentropy import BoundedCrossentropy
from singularbayes.likelihoods.head import logits_hint, meaning_of, require_heads
from singularbayes.likelihoods.labels import find_wrong, highest_label, require_labels, wrong_labels
from singularbayes.likelihoods.likelihood import (
    Bernoulli,
    Categorical,
    Gaussian,
    GaussianNLL,
    Likelihood,
    MeanScale,
    MeanScaleNLL,
    of_loss,
)

__all__ = [
    "Bernoulli",
    "BoundedCrossentropy",
    "Categorical",
    "Gaussian",
    "GaussianNLL",
    "Likelihood",
    "MeanScale",
    "MeanScaleNLL",
    "find_wrong",
    "highest_label",
    "likelihood",
    "logits_hint",
    "meaning_of",
    "of_loss",
    "require_heads",
    "require_labels",
    "wrong_labels",
]
