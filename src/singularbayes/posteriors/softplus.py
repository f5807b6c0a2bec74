"""Positive scales from unbounded numbers: softplus(ρ) = log(1 + e^ρ), and back."""

import math

from keras import ops

from singularbayes.posteriors.jit import one_program


@one_program()
def softplus(rho):
    """Returns log(1 + e^ρ), above 0 for ρ > −87. XLA vectorises this form on a CPU, and not that of `ops`."""
    return ops.maximum(rho, 0.0) + ops.log1p(ops.exp(-ops.abs(rho)))


def inverse_softplus(scale: float) -> float:
    """Returns ρ with softplus(ρ) = scale.

    >>> round(inverse_softplus(0.6931471805599453), 9)
    0.0
    """
    return scale + math.log(-math.expm1(-scale))
