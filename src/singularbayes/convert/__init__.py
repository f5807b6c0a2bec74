"""From a trained Keras model to a Bayesian one, and back."""

from singularbayes.convert.bayesianize import bayesianize
from singularbayes.convert.collapse import collapse
from singularbayes.convert.plan import Plan, plan

__all__ = ["Plan", "bayesianize", "collapse", "plan"]
