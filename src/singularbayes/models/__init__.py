"""Questions about a Keras model: its posteriors, its parameters, its file, its devices."""

from singularbayes.models.distribution import ModelParallel
from singularbayes.models.mean_weights import mean_weights
from singularbayes.models.saving import load_without_optimizer, read_model
from singularbayes.models.traversal import find_posteriors, find_random_posteriors

__all__ = [
    "ModelParallel",
    "find_posteriors",
    "find_random_posteriors",
    "load_without_optimizer",
    "mean_weights",
    "read_model",
]
