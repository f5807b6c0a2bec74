"""What the outputs of a model mean."""

from singularbayes.likelihoods.likelihood import Bernoulli, Categorical, Gaussian, GaussianNLL, MeanScale, MeanScaleNLL

__all__ = [
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "GaussianNLL",
    "MeanScale",
    "MeanScaleNLL",
]
