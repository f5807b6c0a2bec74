"""What the outputs of a model mean."""

from singularbayes.likelihoods.bounded_crossentropy import BoundedCrossentropy
from singularbayes.likelihoods.likelihood import Bernoulli, Categorical, Gaussian, GaussianNLL, MeanScale, MeanScaleNLL

__all__ = [
    "Bernoulli",
    "BoundedCrossentropy",
    "Categorical",
    "Gaussian",
    "GaussianNLL",
    "MeanScale",
    "MeanScaleNLL",
]
