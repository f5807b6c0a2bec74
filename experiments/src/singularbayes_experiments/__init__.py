"""The experiments of the paper "Singular Bayesian Neural Networks", and those beyond it."""
