"""From a trained Keras model to a Bayesian one, and back."""

from singularbayes.convert.frozen import freeze_draws

__all__ = ["freeze_draws"]
