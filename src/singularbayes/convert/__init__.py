"""From a trained Keras model to a Bayesian one, and back."""
