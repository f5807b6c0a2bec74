"""Where a weight is used: Keras's layers with a posterior over their weights."""

from singularbayes.layers.base import BayesianLayer
from singularbayes.layers.dense import Dense
from singularbayes.layers.embedding import Embedding

__all__ = ["BayesianLayer", "Dense", "Embedding"]
